"""Numerically difficult inputs of quick and plain ops: zeros, infinities, tails, padding and float16 sums."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Tensor, grad, ops, plain


@pytest.fixture(autouse=True, params=["quick", "plain"])
def form(request: pytest.FixtureRequest) -> Iterator[None]:
    with plain(request.param == "plain"):
        yield


def gradients(function: Any, *values: Any) -> list[Any]:
    """Return the gradients for an output gradient of ones, as lists."""
    leaves = [Tensor(np.asarray(value, dtype=np.float64), requires_grad=True) for value in values]
    with np.errstate(over="ignore"):
        out = function(*leaves)
        return [g.data.tolist() for g in grad(out, leaves, np.ones(out.shape))]


def test_the_gradient_of_logsumexp_sums_to_1() -> None:
    for create_graph in (False, True):
        for size in (1e8, -1e8, 1e300):
            x = Tensor(np.full(3, size), requires_grad=True)
            assert grad(ops.logsumexp(x), x, create_graph=create_graph).data.tolist() == [1 / 3, 1 / 3, 1 / 3]


def test_tails_keep_their_digits() -> None:
    for dtype in (np.float32, np.float64):
        x = np.array([-60.0, -20.0, 20.0], dtype)
        tail, rtol = np.exp(-np.abs(x.astype(np.float64))), max(4 * np.finfo(dtype).eps, 3e-9)  # e approximates e/(1+e)
        np.testing.assert_allclose(ops.sigmoid(Tensor(x)).data[:2], tail[:2], rtol=rtol)
        np.testing.assert_allclose(ops.softplus(Tensor(x)).data[:2], tail[:2], rtol=rtol)
        loss = ops.binary_cross_entropy_with_logits(Tensor(x[2:]), np.ones(1, dtype))
        np.testing.assert_allclose(loss.item(), tail[2], rtol=rtol)
    np.testing.assert_allclose(gradients(ops.logaddexp, [0.0], [-60.0]), [[1.0], [math.exp(-60)]], rtol=1e-12)


def test_derivatives_of_any_order_hold_at_0() -> None:
    orders = {ops.sigmoid: (0.25, 0, -0.125), ops.softplus: (0.5, 0.25, 0), ops.silu: (0.5, 0.5, 0)}
    for function, expected in orders.items():
        x = Tensor(np.array(0.0), requires_grad=True)
        y = function(x)
        for derivative in expected:
            y = grad(y, x, create_graph=True)
            assert y.item() == pytest.approx(derivative, abs=1e-15)


def test_softmax_of_huge_logits() -> None:
    x = Tensor(np.array([1e4, 1e4 - 1, -1e4]))
    np.testing.assert_allclose(ops.softmax(x).data, [1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0], rtol=1e-12)
    np.testing.assert_allclose(ops.log_softmax(x).data[2], -2e4 - math.log(1 + math.exp(-1)), rtol=1e-12)
    assert ops.softmax(Tensor(np.array([0.0, -np.inf, 0.0]))).data.tolist() == [0.5, 0.0, 0.5]


def test_erf_is_right_to_the_last_digits() -> None:
    x = np.concatenate([np.linspace(-7, 7, 20001), np.logspace(-300, 0, 1000), [1.0, -1.0, 6.0, np.inf, -np.inf]])
    for values, rtol, atol in ((x, 2.5e-15, 0), (x.astype(np.float32), 4e-7, 1e-40)):
        truth = np.array([math.erf(v) for v in values])
        np.testing.assert_allclose(ops.erf(Tensor(values)).data, truth, rtol=rtol, atol=atol)
    assert np.isnan(ops.erf(Tensor(np.array([np.nan]))).data).all()


def test_sums_of_float16_are_taken_in_float32() -> None:
    """In float16 a sum of ones would stop at 2048."""
    ones = Tensor(np.ones(5000, np.float16), requires_grad=True)
    assert (ops.sum(ones).item(), ops.mean(ones).item(), ops.cumsum(ones).data[-1]) == (5000, 1, 5000)
    ops.cumsum(ones).backward(np.ones(5000, np.float16))
    assert ones.grad[0] == 5000
    two, row = np.ones((5000, 2), np.float16), np.ones(2, np.float16)
    found = ops.einsum("ij->j", two), ops.einsum("ij,j->j", two, row), ops.einsum("ij,k->j", two, row)
    assert [sums.data[0] for sums in found] == [5000, 5000, 10000]
    column, ids = np.zeros((5000, 1), np.float16), np.zeros(5000, int)
    assert ops.scatter_add(row, ids, ones).data.tolist() == [5000, 1]
    for shape, function in (
        ((2,), lambda w: w * np.ones((5000, 2), np.float16)),  # a broadcast operand
        ((1, 2), lambda w: w * np.ones((5000, 2), np.float16)),
        ((2,), lambda b: ops.linear(column, np.zeros((2, 1), np.float16), b)),
        ((1,), lambda x: x[ids]),
        ((1, 1), lambda table: ops.embedding(ids, table)),
    ):
        x = Tensor(np.ones(shape, np.float16), requires_grad=True)
        out = function(x)
        out.backward(np.ones(out.shape, np.float16))
        assert set(x.grad.ravel().tolist()) == {5000}


def test_a_padding_row_of_an_embedding_gets_no_gradient_of_any_order() -> None:
    for padding_id in (1, -2):  # the same row, counted from the start and from the end
        table = Tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
        g = Tensor(np.ones((4, 2)), requires_grad=True)
        out = ops.embedding(np.array([0, 1, 1, 2]), table, padding_id)
        assert out.data.tolist() == [[0, 1], [2, 3], [2, 3], [4, 5]]
        found = grad(out, table, g, create_graph=True)
        assert found.data.tolist() == [[1, 1], [0, 0], [1, 1]]
        assert grad(found, g, np.ones((3, 2))).data.tolist() == [[1, 1], [0, 0], [0, 0], [1, 1]]


def test_indices_belong_to_the_call(fake_cupy) -> None:
    x, ids = Tensor(np.arange(3.0), requires_grad=True), np.array([0, 0, 1])
    table = Tensor(np.ones((3, 1)), requires_grad=True)
    parts = [x[ids].sum(), ops.take(x, ids).sum(), ops.embedding(ids, table).sum()]
    for xp in (np, fake_cupy):
        keys = xp.arange(3.0).reshape(1, 1, 3, 1)
        query, slopes = Tensor(keys, requires_grad=True), xp.ones(1)
        loss = ops.attention(query, keys, keys, alibi_slopes=slopes, method="blocked").sum()
        before = grad(loss, query, retain_graph=True).numpy()
        slopes[:] = 5
        np.testing.assert_array_equal(grad(loss, query).numpy(), before)
    ids[:] = 2
    for part in parts:
        part.backward()
    assert x.grad.tolist() == [4, 2, 0]
    assert table.grad.ravel().tolist() == [2, 1, 0]


def test_cross_entropy_depends_on_differences_of_logits_only() -> None:
    """Two equal logits of any size have the loss log 2."""
    for smoothing in (0.0, 0.1):
        for dtype, size in ((np.float16, 6e4), (np.float32, 1e30), (np.float64, 1e300)):
            logits = Tensor(np.full((3, 2), size, dtype), requires_grad=True)
            loss = ops.cross_entropy(logits, np.array([0, 1, 0]), label_smoothing=smoothing)
            assert loss.item() == pytest.approx(math.log(2), rel=1e-3 if dtype == np.float16 else 1e-6)
            slope = (0.5 - smoothing / 2) / 3
            np.testing.assert_allclose(grad(loss, logits).data[1], [slope, -slope], rtol=1e-3)


def test_padding_does_not_count_whatever_its_logits_are() -> None:
    logits = np.array([[-np.inf, 0.0, 0.0], [0.0, 0.0, 0.0]])
    for reduction, expected in (("mean", math.log(3)), ("sum", math.log(3)), ("none", [0, math.log(3)])):
        loss = ops.cross_entropy(Tensor(logits), np.array([-100, 1]), reduction=reduction)
        np.testing.assert_allclose(loss.data, expected)


def test_a_gradient_is_finite_where_a_step_of_it_is_not() -> None:
    tiny, zero = np.full(1, 5e-324), np.zeros(1)
    assert gradients(ops.divide, zero, tiny)[1] == [0.0]
    assert gradients(ops.arctan2, tiny, zero)[0] == [0.0]
    assert gradients(ops.arctan2, [1e-300], [1e-300]) == [[pytest.approx(5e299)], [pytest.approx(-5e299)]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble])
def test_an_infinite_gradient_does_not_reach_what_has_no_influence(dtype) -> None:
    one = np.ones((1, 1), dtype)
    for function in (
        ops.relu, lambda x: ops.maximum(x, 0.0), lambda x: ops.minimum(-x, 0.0), lambda x: ops.clip(x, 0.0, 1.0),
        lambda x: ops.linear_activation(x, one, activation="relu"),
    ):  # fmt: skip
        x = Tensor(-one, requires_grad=True)
        function(x).backward(one * dtype(np.inf))
        assert x.grad.tolist() == [[0.0]]


def test_attention_over_no_keys_or_no_features() -> None:
    def attend(queries: int, keys: int, width: int, **options: Any) -> list[Any]:
        shapes = ((2, 1, queries, width), (2, 1, keys, width), (2, 1, keys, 4))
        return gradients(lambda q, k, v: ops.attention(q, k, v, **options), *map(np.ones, shapes))

    for method in ("standard", "blocked"):
        for queries, keys, width in ((3, 0, 2), (0, 3, 2), (0, 0, 2)):
            for options in ({}, {"causal": True}, {"bias": np.zeros((queries, keys))}):
                assert not any(np.any(g) for g in attend(queries, keys, width, method=method, **options))
        # Without features all keys have equal weights.
        np.testing.assert_allclose(attend(3, 2, 0, method=method)[2], np.full((2, 1, 2, 4), 1.5))
    none = Tensor(np.zeros((1, 1, 0, 2)))
    out, weights = ops.attention(Tensor(np.ones((1, 1, 3, 2))), none, none, return_weights=np.True_)
    assert (out.data.tolist(), weights.shape) == ([[[[0, 0]] * 3]], (1, 1, 3, 0))
    no_batch, lengths = np.ones((0, 1, 3, 2)), np.zeros(0, int)
    for method in ("standard", "blocked"):
        options: dict[str, Any] = {"key_lengths": lengths, "return_weights": True, "method": method}
        assert ops.attention(no_batch, no_batch, no_batch, **options)[1].shape == (0, 1, 3, 3)


def test_attention_with_scores_far_below_zero_beside_hidden_keys() -> None:
    """The maximum of the scores leaves out the hidden keys."""
    query, key = (np.full((1, 1, 3, 1), size, np.float32) for size in (20, -20))
    value, mask = np.arange(3, dtype=np.float32).reshape(1, 1, 3, 1), np.array([[1, 1, 0], [0, 0, 0], [1, 1, 1]], bool)
    for method in ("standard", "blocked"):
        assert ops.attention(query, key, value, mask=mask, method=method).data.ravel().tolist() == [0.5, 0.0, 1.0]


def test_rows_without_features_are_normalised_in_silence() -> None:
    empty, nothing = Tensor(np.zeros((3, 0)), requires_grad=True), np.zeros(0)
    for out in (ops.layer_norm(empty, nothing, nothing), ops.rms_norm(empty, nothing)):
        assert grad(out, empty, np.zeros((3, 0))).shape == (3, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_where_of_many_elements_gives_the_bits_of_numpys(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 100, 120)).astype(dtype)
    x[:2], y[1:3] = [[np.nan], [np.inf]], -0.0
    mask = rng.random((100, 120)) < 0.5
    for a, b, condition in (
        (x, y, mask),
        (x, 0.5, mask),
        (-np.inf, y, mask),
        (x[0], y.T[:100, :1], mask),
        (x, y, mask[0]),
    ):
        expected = np.where(condition, a, b)
        assert ops.where(condition, a, b).data.tobytes() == expected.tobytes()
        assert expected.dtype == dtype
    leaf, other = Tensor(x, requires_grad=True), Tensor(y[0], requires_grad=True)
    g = rng.normal(size=x.shape).astype(dtype)
    ops.where(rng.integers(0, 3, x.shape) * mask, leaf, other).backward(g)  # a number is true unless it is 0
    assert ops.where([1, 0], 1.0, [2.0, 3.0]).data.tolist() == [1, 3]
    assert leaf.grad is not None
    assert other.grad is not None
    np.testing.assert_allclose(leaf.grad.sum(0) + other.grad, g.sum(0), rtol=1e-3 if dtype == np.float32 else 1e-9)


def test_third_and_fourth_powers_are_within_an_ulp() -> None:
    x = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    for power in (3, 4, 3.0):
        np.testing.assert_array_max_ulp(ops.power(x, power).data, (x.astype(float) ** power).astype(np.float32), 2)
    assert ops.power(np.array([2, -3]), 3).data.tolist() == [8, -27]
