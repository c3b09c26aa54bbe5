"""The choice among large vocabularies is the same on any number of threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from handloom.autograd import parallel
from handloom.models.generation import top


@pytest.fixture
def restored() -> Iterator[None]:
    yield
    parallel.set_num_threads(None)


def test_threads_change_no_result(restored: None) -> None:
    logits = np.random.default_rng(0).standard_normal((64, 30_100)).astype(np.float32)
    results = []
    for threads in (1, 3):
        parallel.set_num_threads(threads)
        results.append((top.log_sum_exp(logits), *top.top_k(logits.copy(), 5)))
    for one, three in zip(*results, strict=True):
        assert (one == three).all()
    assert (results[0][2] == np.argsort(-logits, axis=1, kind="stable")[:, :5]).all()
