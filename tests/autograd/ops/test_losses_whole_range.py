"""Softmax, log-softmax and cross-entropy of logits of any size equal float64, in values and gradients.

A row lies far from 0 as a whole, or mixes numbers of all sizes. The reference starts from the rounded logits.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.autograd import Tensor, grad, ops
from handloom.autograd.ops.registry import plain
from tests.autograd.ops.test_attention_whole_range import OFFSETS

EPS = float(np.finfo(np.float32).eps)


def drawn_logits(rng: np.random.Generator, rows: int, classes: int) -> np.ndarray:
    """Return logits (rows, classes): an offset for each row, some numbers with other offsets, and small differences."""
    offsets = np.broadcast_to(rng.choice(OFFSETS, (rows, 1)), (rows, classes)).copy()
    mixed = rng.random((rows, classes)) < rng.choice([0, 0.2, 0.9])
    offsets[mixed] = rng.choice(OFFSETS, mixed.sum())
    return (offsets + rng.integers(-20, 20, (rows, classes)) / 4).astype(np.float32)


def check(name: str, found: np.ndarray, truth: np.ndarray, terms: Any) -> None:
    """Check that errors are some ulps of the sum of the magnitudes `terms`; both may be beyond float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        inside = np.abs(truth) < 3e38
        error = np.where(inside, np.abs(found - truth), 0)
    assert (error <= 32 * EPS * terms + 2.0**-120).all(), f"{name}: {found} instead of {truth}"
    assert (np.abs(found)[~inside] > 2e38).all(), f"{name}: {found} instead of {truth}"


@pytest.mark.search
@given(
    seed=st.integers(0, 2**32),
    shape=st.sampled_from([(1, 2), (3, 7), (5, 40)]),
    smoothing=st.sampled_from([0.0, 0.1]),
    weighted=st.booleans(),
    quick=st.booleans(),
)
def test_logits_of_any_size(seed, shape, smoothing, weighted, quick) -> None:
    rng, (rows, classes) = np.random.default_rng(seed), shape
    logits, target = drawn_logits(rng, *shape), rng.integers(0, classes, rows)
    weight = rng.uniform(0.5, 2, classes).astype(np.float32) if weighted else np.ones(classes, np.float32)
    g = rng.standard_normal(shape).astype(np.float32)
    z = logits.astype(np.float64)
    z -= z.max(axis=1, keepdims=True)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    own = np.eye(classes)[target] * (1 - smoothing) * weight + smoothing / classes * weight
    with np.errstate(over="ignore", invalid="ignore"), plain(not quick):
        leaf = Tensor(logits, requires_grad=True)
        found = ops.softmax(leaf)
        check("softmax", found.data, p, p)
        truth, terms = p * (g - (p * g).sum(1, keepdims=True)), p * (abs(g) + (p * abs(g)).sum(1, keepdims=True))
        check("softmax, gradient", grad(found, leaf, g).data, truth, terms)
        found = ops.log_softmax(leaf)
        check("log_softmax", found.data, log_p, 1 + abs(log_p))
        truth, terms = g - p * g.sum(1, keepdims=True), abs(g) + p * abs(g).sum(1, keepdims=True)
        check("log_softmax, gradient", grad(found, leaf, g).data, truth, terms)
        found = ops.cross_entropy(leaf, target, weight=weight, label_smoothing=smoothing, reduction="none")
        terms = np.where((log_p < -3e38).any(1), np.inf, (own * (1 + abs(log_p))).sum(1))  # -inf in float32
        check("cross_entropy", found.data, -(own * log_p).sum(1), terms)
        truth = (p * own.sum(1, keepdims=True) - own) * g[:, :1]
        terms = (p * own.sum(1, keepdims=True) + own) * abs(g[:, :1])
        check("cross_entropy, gradient", grad(found, leaf, g[:, 0]).data, truth, terms)
