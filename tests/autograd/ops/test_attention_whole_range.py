"""Attention of scores, biases and values of any size: every method equals float64, in output, weights and gradients.

Queries and keys are small integers and the scale is a power of two, so the products are exact. A score is rounded once,
when the bias is added, in the same way by every method; the reference starts from these rounded scores. A row of the
bias lies far from 0 as a whole (an additive mask), or mixes numbers of all sizes.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.autograd import Generator, Tensor, grad, ops
from handloom.autograd.backend import to_device
from tests.support.cuda_emulator import compiler_missing
from tests.support.fake_cupy import installed

HALF, SINGLE = np.float16, np.float32
OFFSETS = (0, 20, -30, 100, -1e3, -1e4, 5e4, -65504, 1e6, -1e6, -1e9, 1e12, -1e30, 3e38, -3e38, np.finfo(SINGLE).min)
LENGTHS = [(1, 4), (5, 3), (13, 17), (33, 40), (64, 70)]


class Extreme:
    """A random call. The keywords choose lengths, head_dim, and the sizes of values and gradients as powers of 2."""

    def __init__(self, seed: int, lengths: tuple[int, int], width: int, dtype: Any, sizes: tuple[int, int] = (0, 0)):
        rng, (queries, keys) = np.random.default_rng(seed), lengths
        self.dtype, self.scale, full = dtype, 2.0 ** -int(rng.integers(0, 3)), (2, 2, queries, keys)
        self.query, self.key = (rng.integers(-2, 3, (2, 2, n, width)).astype(dtype) for n in lengths)
        self.value = (rng.standard_normal((2, 2, keys, width)) * 2.0 ** sizes[0]).astype(dtype)
        self.g = (rng.standard_normal((2, 2, queries, width)) * 2.0 ** sizes[1]).astype(dtype)
        offsets = np.array([x for x in OFFSETS if abs(x) <= float(np.finfo(dtype).max)])
        bias = np.broadcast_to(rng.choice(offsets, (2, 2, queries, 1)), full).copy()
        mixed = rng.random(full) < rng.choice([0, 0.1, 0.9])
        bias[mixed] = rng.choice(offsets, mixed.sum())
        self.bias = (bias + rng.integers(-3, 4, full) / 4).astype(dtype)
        self.options: dict[str, Any] = {"causal": bool(rng.integers(2))}
        if rng.integers(2):
            self.options["key_lengths"] = rng.integers(0, keys + 1, 2)
        if rng.integers(2):
            self.options["window"] = int(rng.integers(0, 30))
        if rng.integers(2):
            self.options["alibi_slopes"] = np.array([0.5, 0.125])
        if rng.integers(2):
            self.options["mask"] = rng.random((2, 1, queries, keys)) < 0.8

    def scores(self) -> np.ndarray:
        """Return the rounded scores in float64, -infinity where a query may not attend."""
        (queries, keys), options = self.bias.shape[2:], self.options
        scores = self.query.astype(SINGLE) @ self.key.astype(SINGLE).swapaxes(-1, -2) * SINGLE(self.scale) + self.bias
        distance = np.arange(queries)[:, None] + keys - queries - np.arange(keys)
        if "alibi_slopes" in options:
            scores = scores - options["alibi_slopes"][:, None, None].astype(SINGLE) * abs(distance).astype(SINGLE)
        allowed = np.broadcast_to(options.get("mask", True), scores.shape).copy()
        allowed &= (distance >= 0) | (not options["causal"])
        allowed &= abs(distance) <= options.get("window", queries + keys)
        if "key_lengths" in options:
            allowed &= (np.arange(keys) < options["key_lengths"][:, None])[:, None, None]
        return np.where(allowed, scores.astype(np.float64), -np.inf)

    def check(self, method: str, device: str = "cpu", dropout: float = 0.0, **options: Any) -> None:
        """Compare output, weights and all gradients with float64; each error is some ulps of the terms of its sum."""
        leaves = [
            Tensor(to_device(x, device), requires_grad=True) for x in (self.query, self.key, self.value, self.bias)
        ]
        own = {key: to_device(x, device) if isinstance(x, np.ndarray) else x for key, x in self.options.items()}
        own |= {"scale": self.scale, "method": method, "bias": leaves[3], **options}
        with np.errstate(over="ignore"):  # 3e38 minus -3e38
            out = ops.attention(*leaves[:3], **own, dropout=dropout, generator=Generator(1))
            assert out._origin is not None
            factors = np.ones(self.bias.shape)
            if dropout:
                batch, heads, queries, keys = factors.shape
                mask, factor = out._origin.node.dropout_mask().keep_mask((batch, keys, heads, queries), dropout)
                factors = to_device(mask, "cpu").transpose(0, 2, 3, 1) * factor
            found = [x.numpy() for x in (out, *grad(out, leaves, to_device(self.g, device)))]
            weights = ops.attention(*leaves[:3], **own, return_weights=[0, 1])[1].numpy()
        query, key, value, g = (x.astype(np.float64) for x in (self.query, self.key, self.value, self.g))
        scores = self.scores()
        top = scores.max(axis=-1, keepdims=True)
        p = np.exp(scores - np.where(np.isfinite(top), top, 0))
        # exp(s - top) has a relative error of |s - top| roundings, however large top is.
        grown = 1 + np.where(p > 0, np.where(np.isfinite(top), top, 0) - scores, 0) / 24
        p /= np.maximum(p.sum(axis=-1, keepdims=True), 1)
        grown = p * grown
        d_weights, size = g @ value.swapaxes(-1, -2) * factors, abs(g) @ abs(value).swapaxes(-1, -2) * factors
        ds, ds_size = (
            p * (d_weights - (p * d_weights).sum(-1, keepdims=True)),
            grown * (size + (grown * size).sum(-1, keepdims=True)),
        )
        # A weight, output or dS below the smallest normal number (of float16, in which some methods keep it) may be 0;
        # all features of an output are multiplied by g and summed for dS.
        allowed = 24 * float(np.finfo(self.dtype).eps)
        largest = abs(g).max() if self.dtype == HALF else abs(g).sum(axis=-1).max()
        floor = (2.0**-24 if self.dtype == HALF else 2.0**-126) * (1 + largest * (1 + abs(value).max())) / allowed
        smallest = float(np.finfo(self.dtype).smallest_normal) * (1 if self.dtype == HALF else sum(p.shape[2:]))
        terms = [
            ((p * factors) @ value, (grown * factors + floor) @ abs(value)),
            (ds @ key * self.scale, (ds_size + floor) @ abs(key) * self.scale),
            (ds.swapaxes(-1, -2) @ query * self.scale, (ds_size + floor).swapaxes(-1, -2) @ abs(query) * self.scale),
            ((p * factors).swapaxes(-1, -2) @ g, (grown * factors + floor).swapaxes(-1, -2) @ abs(g)),
            (ds, ds_size + floor),
            (p, grown + floor),
        ]
        for place, (ours, (truth, size)) in enumerate(zip([*found, weights], terms, strict=True)):
            excess = np.abs(ours - truth) - allowed * size - smallest
            worst = np.unravel_index(excess.argmax(), excess.shape)
            assert excess[worst] <= 0, f"result {place}: {ours[worst]} for {truth[worst]}"


sizes = st.tuples(st.integers(-60, 60), st.integers(-60, 60))


@pytest.mark.search
@given(
    seed=st.integers(0, 2**32),
    lengths=st.sampled_from(LENGTHS),
    sizes=sizes,
    dtype=st.sampled_from([SINGLE, HALF]),
    drop=st.booleans(),
)
def test_standard_and_blocked_scores_of_any_size(seed, lengths, sizes, dtype, drop) -> None:
    case = Extreme(seed, lengths, 4, dtype, sizes if dtype == SINGLE else (0, 0))
    case.check("standard", dropout=0.3 * drop)
    case.check("blocked", dropout=0.3 * drop, block_size=16)


@pytest.mark.skipif(compiler_missing() is not None, reason=str(compiler_missing()))
@pytest.mark.search
@given(
    seed=st.integers(0, 2**32),
    lengths=st.sampled_from(LENGTHS),
    sizes=sizes,
    dtype=st.sampled_from([SINGLE, HALF]),
    drop=st.booleans(),
    fixed=st.booleans(),
)
def test_fused_scores_of_any_size_by_chance(seed, lengths, sizes, dtype, drop, fixed) -> None:
    with installed():
        case = Extreme(seed, lengths, 32, dtype, sizes if dtype == SINGLE else (0, 0))
        case.check("fused", "cuda", dropout=0.3 * drop, deterministic=fixed)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("dtype", [SINGLE, HALF])
@pytest.mark.parametrize(("seed", "width"), [(11, 32), (4, 128)])
def test_fused_scores_of_any_size(seed, width, dtype, fixed, fake_cupy) -> None:
    Extreme(seed, (64, 70), width, dtype).check("fused", "cuda", deterministic=fixed)
