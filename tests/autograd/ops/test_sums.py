"""Sums keep their digits along any axis, in any memory layout, in every op and every backward rule that adds."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handloom.autograd import Parameter, Tensor, grad, ops
from handloom.autograd.ops.registry import plain
from handloom.autograd.sums import summed
from handloom.train.optim.optimizers import clip_grad_norm

EPS = 2.0**-23
#: log2 of the elements of the largest sum: of one in 64 examples of a search, and of the others.
LARGE, USUAL = 25, 18
SEARCH = settings.default is not None and settings.default.max_examples > 25


class Case(NamedTuple):
    """A function of x (rows, columns), and of a second operand that broadcasts or is chosen from: both are summed."""

    compute: Callable[[Any, Any], Any]
    operand: Callable[[int, int], Any] = lambda rows, columns: np.ones(columns)
    unchecked: tuple[str, ...] = ()  # results in which numbers cancel
    dx_ulps: int = 6  # of the largest error in dx


def one_id(x: Any) -> np.ndarray:
    return np.arange(len(x)) % 2


def rows_of_one_kind(x: Any) -> Any:
    """Return rows whose normalised values are those of one row: a gradient that sums them doesn't cancel."""
    return x[:, :1] * np.linspace(-1, 2, x.shape[1]).astype(x.dtype)


CASES: dict[str, Case] = {
    "sum": Case(lambda x, b: ops.sum(x, axis=0)),
    "sum, all": Case(lambda x, b: ops.sum(x)),
    "mean": Case(lambda x, b: ops.mean(x, axis=0)),
    "mean, columns": Case(lambda x, b: ops.mean(x, axis=1)),
    # x - mean is a quarter of the mean here: the roundings of the mean count four times.
    "var": Case(lambda x, b: ops.var(x, axis=0), dx_ulps=16),
    "std": Case(lambda x, b: ops.std(x, axis=0), dx_ulps=16),
    "norm": Case(lambda x, b: ops.norm(x, axis=0)),
    "norm, 3": Case(lambda x, b: ops.norm(x, ord=3, axis=0)),
    "logsumexp": Case(lambda x, b: ops.logsumexp(x, axis=0)),
    "softmax": Case(lambda x, b: ops.softmax(x, axis=0), unchecked=("dx",)),
    "cumsum": Case(lambda x, b: ops.cumsum(x, axis=0)),
    "cumsum, columns": Case(lambda x, b: ops.cumsum(x, axis=1)),
    "einsum of one": Case(lambda x, b: ops.einsum("ij->j", x)),
    "einsum of two": Case(lambda x, b: ops.einsum("ij,ij->j", x, x)),
    "einsum of three": Case(lambda x, b: ops.einsum("ij,j,ij->j", x, b, x)),
    "add": Case(lambda x, b: x + b),
    "multiply": Case(lambda x, b: x * b),
    "broadcast twice": Case(lambda x, b: x.reshape(x.shape[0], 1, -1) + b, lambda n, m: np.ones((1, 2, 1))),
    "where": Case(lambda x, b: ops.where(np.asarray(x.data) > 0, b, x)),
    "linear": Case(lambda x, b: ops.linear(x, np.eye(x.shape[1], dtype=x.dtype), b)),
    "layer_norm": Case(lambda x, b: ops.layer_norm(rows_of_one_kind(x), b, b), unchecked=("value", "dx")),
    "rms_norm": Case(lambda x, b: ops.rms_norm(rows_of_one_kind(x), b), unchecked=("value", "dx")),
    "getitem": Case(lambda x, b: x + b[one_id(x)], lambda n, m: np.ones((2, m))),
    "take": Case(lambda x, b: x + ops.take(b, one_id(x), axis=0), lambda n, m: np.ones((2, m))),
    "embedding": Case(lambda x, b: x + ops.embedding(one_id(x), b), lambda n, m: np.ones((2, m))),
    "scatter_add": Case(lambda x, b: ops.scatter_add(b, one_id(x), x), lambda n, m: np.ones((2, m))),
    "repeat": Case(lambda x, b: x + ops.repeat(b, x.shape[0], axis=0), lambda n, m: np.ones((1, m))),
    "broadcast_to": Case(lambda x, b: x + ops.broadcast_to(b, x.shape)),
    "mse_loss": Case(lambda x, b: ops.mse_loss(x, x * 0 + b * 2)),
    "cross_entropy": Case(lambda x, b: ops.cross_entropy(x * b, 0 * one_id(x), reduction="sum")),
}


def drawn(rng: np.random.Generator, shape: tuple[int, ...], layout: int) -> np.ndarray:
    """Return positive numbers, all alike in every second layout, in one of the layouts of a matrix in memory."""
    x = np.full(shape, 0.1, np.float32) if layout % 2 else rng.uniform(0.5, 1.5, shape).astype(np.float32)
    if len(shape) < 2 or layout < 2:
        return x
    return np.asfortranarray(x) if layout < 4 else np.repeat(x, 2, axis=1)[:, ::2]


def values(case: Case, x: np.ndarray, b: np.ndarray, g: np.ndarray | None) -> tuple[list[np.ndarray], Any]:
    """Return the result and both gradients, and the output gradient, which is drawn if it is None."""
    leaves = [Tensor(x, requires_grad=True), Tensor(b, requires_grad=True)]
    out = case.compute(*leaves)
    if g is None:
        g = np.random.default_rng(1).uniform(0.5, 1.5, out.shape).astype(np.float32)
    gradients = grad(out, leaves, g.astype(out.dtype))
    return [out.data, *(each.data for each in gradients)], g


def check(name: str, rows: int, columns: int, layout: int, seed: int) -> None:
    case, rng = CASES[name], np.random.default_rng(seed)
    x, b = drawn(rng, (rows, columns), layout), case.operand(rows, columns).astype(np.float32)
    found, g = values(case, x, b, None)
    truth, _ = values(case, x.astype(np.float64), b.astype(np.float64), g)
    for which, ours, exact in zip(("value", "dx", "db"), found, truth, strict=True):
        if which in case.unchecked or (layout % 2 and name in ("var", "std") and which != "db"):
            continue  # equal rows have the variance 0
        scale = np.maximum(np.abs(exact), np.abs(exact).mean())
        error = np.abs(ours - exact) / np.where(scale == 0, 1, scale)
        ulps = case.dx_ulps if which == "dx" else 6
        assert error.max(initial=0) <= ulps * EPS, (which, ours.dtype, float(error.max()) / EPS)


@pytest.mark.parametrize("name", CASES)
def test_a_sum_of_many_keeps_its_digits(name: str) -> None:
    for layout in range(6):
        check(name, 1 << 14, 3, layout, seed=0)
    with plain():
        check(name, 1 << 14, 3, layout=1, seed=0)


@pytest.mark.search
@given(
    st.sampled_from(sorted(CASES)),
    st.floats(0, 1),
    st.floats(0, 8),
    st.integers(0, 63),
    st.integers(0, 5),
    st.integers(0, 1 << 30),
)
@settings(deadline=None)
def test_any_number_of_rows_and_columns(
    name: str, share: float, columns: float, rare: int, layout: int, seed: int
) -> None:
    most = LARGE if SEARCH and rare == 63 else USUAL
    rows = 8 + share * (most - 9)
    check(name, int(2**rows), max(int(2 ** min(columns, most - rows)), 2), layout, seed)


@pytest.mark.search
@given(st.lists(st.integers(1, 300), min_size=1, max_size=4), st.data())
def test_any_axes_of_any_view(shape: list[int], data: st.DataObject) -> None:
    while np.prod(shape) > 1 << 18:
        shape[int(np.argmax(shape))] = 2
    x = drawn(np.random.default_rng(0), tuple(shape), data.draw(st.integers(0, 1)))
    x = x.transpose(data.draw(st.permutations(range(x.ndim))))
    steps = data.draw(st.lists(st.sampled_from([1, 2, -1, -3]), min_size=x.ndim, max_size=x.ndim))
    x = x[tuple(slice(None, None, step) for step in steps)]
    x = np.broadcast_to(x, (*data.draw(st.sampled_from([(), (1000,), (70, 2)])), *x.shape))
    axes = tuple(data.draw(st.sets(st.integers(-x.ndim, -1), min_size=1)))
    axis = data.draw(st.sampled_from([None, axes, axes[0]]))
    keepdims = data.draw(st.booleans())
    found, exact = summed(x, axis, keepdims), x.sum(axis=axis, keepdims=keepdims, dtype=np.float64)
    assert (found.shape, found.dtype) == (exact.shape, np.float32)
    assert (np.abs(found - exact) <= 4 * EPS * exact).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_more_ones_than_float32_can_count_one_by_one(axis: int) -> None:
    x = np.broadcast_to(np.ones(1, np.float32), (2**25, 2) if axis == 0 else (2, 2**25))
    assert (ops.sum(x, axis=axis).data == 2**25).all()
    leaf = Tensor(np.zeros((1, 2) if axis == 0 else (2, 1), np.float32), requires_grad=True)
    ops.broadcast_to(leaf, x.shape).backward(x)
    assert (leaf.grad == 2**25).all()


def test_the_variance_of_equal_columns_is_0() -> None:
    x = np.tile(np.array([100, -100], np.float32), (1 << 16, 1))
    assert (ops.var(x, axis=0).data == 0).all()
    assert (ops.std(x, axis=0).data == 0).all()


def test_integers_and_empty_arrays_are_summed_as_by_numpy() -> None:
    x = np.arange(600, dtype=np.int16).reshape(200, 3)
    assert ops.sum(x, axis=0).dtype == x.sum(axis=0).dtype
    np.testing.assert_array_equal(ops.sum(x, axis=0).data, x.sum(axis=0))
    assert ops.cumsum(x.astype(np.int8), axis=0).dtype == np.int64
    assert ops.sum(np.zeros((0, 3), np.float32), axis=0).data.tolist() == [0, 0, 0]


@pytest.mark.parametrize("plainly", [False, True])
@pytest.mark.parametrize("method", ["standard", "blocked"])
def test_attention_adds_the_weights_of_many_keys(method: str, plainly: bool) -> None:
    rng, found = np.random.default_rng(0), []
    arrays = [rng.standard_normal((1, 1, n, 8)) * 0.1 for n in (2, 1 << 16)] + [
        rng.uniform(0.5, 1.5, (1, 1, 1 << 16, 8))
    ]
    g = rng.uniform(0.5, 1.5, (1, 1, 2, 8))
    for dtype in (np.float32, np.float64):
        leaves = [Tensor(array.astype(dtype), requires_grad=True) for array in arrays]
        with plain(plainly and dtype == np.float32):
            out = ops.attention(*leaves, method=method)
            found.append([out.data, *(each.data for each in grad(out, leaves, g.astype(dtype)))])
    for which, ours, exact in zip(("value", "dq", "dk", "dv"), *found, strict=True):
        error = np.abs(ours - exact).max() / np.abs(exact).max() / EPS
        assert error < (400 if which == "dq" else 12), (which, error)  # dq adds terms that cancel


def test_the_norm_of_a_large_gradient_is_exact() -> None:
    parameter = Parameter(np.zeros((1 << 20) + 7, np.float32))
    parameter.grad = np.full(parameter.shape, 0.1, np.float32)
    exact = float(np.float32(0.1)) * np.sqrt(parameter.size)
    assert abs(clip_grad_norm(parameter, None) / exact - 1) < 4 * EPS
