"""The memory of a step: what is counted, and that counting changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from handloom.autograd import manual_seed, ops
from handloom.models import LanguageModel, LanguageModelConfig
from handloom.train.tables.step_memory import step_memory


def test_half_precision_halves_what_waits_for_the_backward_pass() -> None:
    manual_seed(0)
    model = LanguageModel(LanguageModelConfig(30, 32, 2, layers=2, dim_feedforward=64, dropout=0.0, max_length=32))
    before = {name: array.copy() for name, array in model.state_dict().items()}
    ids = np.random.default_rng(0).integers(0, 30, (16, 32))

    def loss(own, batch):
        return ops.cross_entropy(own(batch), batch), batch.size

    wide, half = (step_memory(model, loss, ids, precision) for precision in ("fp32", "fp16"))
    assert wide["kept"] == half["kept"] == pytest.approx(16 * model.parameter_count() / 1e6)
    assert wide["peak"] > wide["forward"] > 16 * 32 * 32 * 4 * 10 / 1e6, "ten activations at the very least"
    assert 0.4 < half["forward"] / wide["forward"] < 0.75
    assert all(parameter.grad is None for parameter in model.parameters())
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
        assert array.dtype == np.float32
