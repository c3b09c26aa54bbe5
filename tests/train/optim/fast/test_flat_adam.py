"""fp16 training with the update on the device: whole steps on the stand-in for a GPU."""

import gc

import numpy as np
import pytest

from handloom.autograd import Parameter, manual_seed
from handloom.autograd.backend import to_device
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer
from handloom.train.optim.fast.flat_adam import FlatAdam
from handloom.train.optim.loss_scaling import LossScaler, float_constants
from tests.support.decoding import without_attention_dropout
from tests.support.fake_cupy import cublas, kernels, operations

pytestmark = pytest.mark.slow


def build(layers: int = 2, dropout: float = 0.1) -> Seq2SeqTransformer:
    """Return a translation model."""
    manual_seed(3)
    sizes = {"d_model": 16, "nhead": 2, "encoder_layers": layers, "decoder_layers": layers, "dim_feedforward": 24}
    config = Seq2SeqConfig(24, 24, **sizes, dropout=dropout, max_length=12, tie_output=True)
    return without_attention_dropout(Seq2SeqTransformer(config))


def step(optimizer: FlatAdam, lr: float, max_norm: float | None = None) -> None:
    """Update the parameters, as a step of `DeviceUpdates` does."""
    optimizer.settings[...] = optimizer.xp.asarray(np.array([lr, 1.0], np.float32))
    optimizer.apply(max_norm)
    optimizer.mark_changed()


def test_launches_of_a_step(fake_cupy) -> None:
    """A step of two batches launches a bounded number of handloom's kernels, CuPy's kernels and products."""
    model = build().to("cuda")
    optimizer = FlatAdam(model.parameters(), half=True, constants=float_constants(model))
    rng, counts = np.random.default_rng(0), []
    for _ in range(3):
        before = len(kernels.launches), len(operations)
        for _ in range(2):
            ids = rng.integers(3, 24, (4, 6))
            with optimizer.passes():
                loss = model.loss(ids, ids[:, :-1], ids[:, 1:], np.array([6, 4, 5, 6]), label_smoothing=0.1)
                optimizer.backward(loss, 0.5)
        step(optimizer, 0.001, max_norm=1.0)
        counts.append((len(kernels.launches) - before[0], len(operations) - before[1]))
    assert counts[1] == counts[2], "every step has the same launches"
    own, cupys = counts[1]
    assert own <= 183  # 12 of these launches arrange the dQ of an attention in rows
    assert cupys <= 75
    assert own + cupys + len(cublas.calls) / 3 <= 400
    assert not [name for name in operations if name.startswith("matmul")]
    assert {(call[0], call[5]) for call in cublas.calls} == {("gemmEx", "float16")}
    assert len(cublas.calls) == 3 * 2 * 69


def test_arrays_of_a_step_are_given_back(fake_cupy) -> None:
    """CuPy's pool gives the memory of a step to the next step, so only the flat arrays may outlive a step."""
    model = build(layers=1).to("cuda")
    optimizer, held = FlatAdam(model.parameters(), half=True, constants=float_constants(model)), []
    for _ in range(3):
        ids = np.random.default_rng(0).integers(3, 24, (4, 6))
        with optimizer.passes():
            optimizer.backward(model.loss(ids, ids[:, :-1], ids[:, 1:], np.array([6, 4, 5, 6])))
        step(optimizer, 0.001)
        gc.collect()
        held.append(sum(1 for thing in gc.get_objects() if type(thing) is fake_cupy.ndarray))
    assert held[-1] == held[1]


def test_an_overflow_is_skipped_counted_and_named(fake_cupy) -> None:
    first, second = (Parameter(fake_cupy.ones(shape, np.float32)) for shape in ((2, 3), 3))
    optimizer = FlatAdam([first, second], half=True, loss_scale=1024.0, interval=2)
    scaler = LossScaler(1024.0, interval=2)
    scales, held, changed = [], [], []
    for size in (1.0, 1.0, 100.0, 1.0, 1.0):
        with optimizer.passes():
            optimizer.backward(((first * second).sum() * size).astype(np.float16))
        assert to_device(optimizer.overflowed(), "cpu").tolist() == [size == 100, size == 100]
        before = optimizer.weights.copy()
        step(optimizer, 0.001)
        scales.append(optimizer.read()["loss_scale"])
        scaler.update(size != 100)
        held.append(scaler.scale)
        changed.append(bool((optimizer.weights != before).any()))
    assert changed == [True, True, False, True, True]
    assert scales == held == [1024, 2048, 1024, 1024, 2048], "the loss scale follows the rule of the host"
    assert optimizer.read()["skipped"] == 1
    assert optimizer.read()["steps"] == 4


@pytest.mark.parametrize("half", [True, False])
def test_parameters_begin_at_multiples_of_16_bytes(half, fake_cupy) -> None:
    rng = np.random.default_rng(0)
    want = [rng.normal(size=shape).astype(np.float32) for shape in ((3,), (5, 3), (2, 4), (1,))]
    parameters = [Parameter(fake_cupy.asarray(array)) for array in want]
    optimizer = FlatAdam(parameters, half=half, weight_decay=0.5, loss_scale=64.0)
    np.testing.assert_equal([parameter.numpy() for parameter in parameters], want)
    with optimizer.passes():
        start = parameters[1].data.data.ptr  # the first matrix is first in the flat array
        assert {(p.data.data.ptr - start) % 16 for p in parameters} == {0}
        loss = sum((parameter * parameter).sum() for parameter in parameters[:3])
        optimizer.backward(loss)
    step(optimizer, 0.01, max_norm=1e6)
    norm = 2 * np.sqrt(sum((array**2).sum() for array in want[:3]))
    assert optimizer.read()["norm"] == pytest.approx(norm, rel=2e-3)
    for parameter, array in zip(parameters, want, strict=True):  # Adam's first step has size lr for any gradient
        kept = array * (0.995 if parameter.ndim > 1 else 1)
        np.testing.assert_allclose(parameter.numpy(), kept - 0.01 * np.sign(array) * (parameter.size > 1), atol=1e-4)


@pytest.mark.parametrize("wrong", [[], [Parameter(np.ones(3, np.float32)), Parameter(np.ones(3, np.float16))]])
def test_mixed_parameters_and_none_are_refused(wrong) -> None:
    with pytest.raises(ValueError, match="must be float32, on one device"):
        FlatAdam(wrong)
