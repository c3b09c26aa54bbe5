"""Where formulas need care: zeros, infinities, tails, padding, float16 sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Generator, Tensor, grad, no_grad, ops


def gradient(function: Any, *values: Any, g: Any = None) -> list[Any]:
    leaves = [Tensor(np.asarray(v, dtype=np.float64), requires_grad=True) for v in values]
    out = function(*leaves)
    weights = np.ones(out.shape) if g is None else np.asarray(g, dtype=np.float64)
    return [t.data.tolist() for t in grad(out, leaves, weights)]


def test_powers_of_zero() -> None:
    assert gradient(lambda x: x**2, [0.0]) == [[0.0]]
    assert gradient(lambda x: x**1, [0.0]) == [[1.0]]
    assert gradient(lambda x: x**0, [0.0]) == [[0.0]]
    assert gradient(ops.power, [0.0, 0.0, 2.0], [0.0, 2.0, 3.0]) == [[0.0, 0.0, 12.0], [0.0, 0.0, 8 * math.log(2)]]


def test_norms_and_deviations_of_nothing_have_no_slope() -> None:
    assert gradient(ops.norm, [0.0, 0.0]) == [[0.0, 0.0]]
    assert gradient(lambda x: ops.norm(x, ord=3, axis=0), [0.0, 0.0]) == [[0.0, 0.0]]
    assert gradient(lambda x: ops.norm(x, ord=0.5, axis=0), [0.0, 4.0]) == [[0.0, 1.0]]
    assert gradient(ops.std, [2.0, 2.0, 2.0]) == [[0.0, 0.0, 0.0]]


def test_products_with_zeros_have_the_right_second_derivative() -> None:
    x = Tensor(np.array([0.0, 3.0, 0.0, 2.0]), requires_grad=True)
    first = grad(ops.prod(x), x, create_graph=True)
    assert first.data.tolist() == [0.0, 0.0, 0.0, 0.0]
    assert grad(first, x, np.array([1.0, 0.0, 0.0, 0.0])).data.tolist() == [0.0, 0.0, 6.0, 0.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_gradient_of_log_sum_exp_sums_to_one_however_large_the_numbers_are(create_graph: bool) -> None:
    for size in (1e8, -1e8, 1e300):
        x = Tensor(np.full(3, size), requires_grad=True)
        assert grad(ops.logsumexp(x), x, create_graph=create_graph).data.tolist() == [1 / 3, 1 / 3, 1 / 3]


def test_log_sum_exp_of_nothing_but_minus_infinity() -> None:
    x = Tensor(np.array([[-np.inf, -np.inf], [0.0, -np.inf]]), requires_grad=True)
    out = ops.logsumexp(x, axis=1)
    np.testing.assert_array_equal(out.data, [-np.inf, 0.0])
    out.backward(np.ones(2))
    np.testing.assert_array_equal(x.grad, [[0, 0], [1, 0]])
    assert gradient(ops.logaddexp, [-np.inf, np.inf], [-np.inf, 0.0]) == [[0.5, 1.0], [0.5, 0.0]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("function", "low", "high", "slopes"),
    [
        (ops.sigmoid, 0, 1, (0, 0)),
        (ops.softplus, 0, 1000, (0, 1)),
        (ops.log_sigmoid, -1000, 0, (1, 0)),
        (ops.silu, 0, 1000, (0, 1)),
        (ops.tanh, -1, 1, (0, 0)),
        (ops.erf, -1, 1, (0, 0)),
        (ops.elu, -1, 1000, (0, 1)),
        (ops.softsign, -1, 1, (0, 0)),
    ],
)
def test_nothing_overflows(function: Any, low: float, high: float, slopes: tuple[float, float], dtype: Any) -> None:
    x = Tensor(np.array([-1000, 1000], dtype=dtype), requires_grad=True)
    out = function(x)
    np.testing.assert_allclose(out.data, [low, high], rtol=2e-3, atol=1e-3)
    # 1000 squared is infinite in float16; exp(-inf) = 0 is right.
    with np.errstate(over="ignore" if dtype == np.float16 else "warn"):
        out.backward(np.ones(2, dtype))
    np.testing.assert_allclose(x.grad, slopes, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tails_keep_their_digits(dtype: Any) -> None:
    x = np.array([-60.0, -20.0, 20.0], dtype)
    tail = np.exp(-np.abs(x.astype(np.float64)))
    rtol = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(ops.sigmoid(Tensor(x)).data[:2], tail[:2], rtol=max(rtol, 3e-9))  # e/(1+e) is not e
    np.testing.assert_allclose(ops.softplus(Tensor(x)).data[:2], tail[:2], rtol=max(rtol, 3e-9))
    loss = ops.binary_cross_entropy_with_logits(Tensor(x[2:]), np.ones(1, dtype))
    np.testing.assert_allclose(loss.item(), tail[2], rtol=max(rtol, 3e-9))
    shares = gradient(ops.logaddexp, [0.0], [-60.0])
    np.testing.assert_allclose(shares, [[1.0], [tail[0]]], rtol=1e-12)


def test_derivatives_of_any_order_hold_at_zero() -> None:
    """Formulas that distinguish signs have kinks where the function has none."""
    orders = {ops.sigmoid: (0.25, 0, -0.125), ops.softplus: (0.5, 0.25, 0), ops.silu: (0.5, 0.5, 0)}
    for function, expected in orders.items():
        x = Tensor(np.array(0.0), requires_grad=True)
        y = function(x)
        for derivative in expected:
            y = grad(y, x, create_graph=True)
            assert y.item() == pytest.approx(derivative, abs=1e-15)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_far_out(approximate: str) -> None:
    out = ops.gelu(Tensor(np.array([-100.0, 100.0])), approximate)
    assert out.data.tolist() == [0.0, 100.0]


def test_softmax_of_huge_logits() -> None:
    x = Tensor(np.array([1e4, 1e4 - 1, -1e4]))
    np.testing.assert_allclose(ops.softmax(x).data, [1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0], rtol=1e-12)
    np.testing.assert_allclose(ops.log_softmax(x).data[2], -2e4 - math.log(1 + math.exp(-1)), rtol=1e-12)
    masked = ops.softmax(Tensor(np.array([0.0, -np.inf, 0.0])))
    assert masked.data.tolist() == [0.5, 0.0, 0.5]


def test_erf_is_right_to_the_last_digits() -> None:
    x = np.concatenate([np.linspace(-7, 7, 20001), np.logspace(-300, 0, 1000), [1.0, -1.0, 6.0, np.inf, -np.inf]])
    truth = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(ops.erf(Tensor(x)).data, truth, rtol=2.5e-15)
    single = x.astype(np.float32)
    truth = np.array([math.erf(v) for v in single])
    np.testing.assert_allclose(ops.erf(Tensor(single)).data, truth, rtol=4e-7, atol=1e-40)
    assert np.isnan(ops.erf(Tensor(np.array([np.nan]))).data).all()


def test_small_arguments_keep_their_digits() -> None:
    x = Tensor(np.array([1e-12]))
    np.testing.assert_allclose(ops.expm1(x).data, [1e-12 + 5e-25], rtol=1e-15)
    np.testing.assert_allclose(ops.log1p(x).data, [1e-12 - 5e-25], rtol=1e-15)


def test_sums_of_float16_are_taken_in_float32() -> None:
    ones = Tensor(np.ones(5000, np.float16), requires_grad=True)
    assert (ops.sum(ones).item(), ops.mean(ones).item(), ops.cumsum(ones).data[-1]) == (5000, 1, 5000)
    # A broadcast operand gets a sum of 5000 gradients of 1: in float16 the sum would stop at 2048.
    for shape in ((2,), (1, 2)):
        weight = Tensor(np.ones(shape, np.float16), requires_grad=True)
        (weight * np.ones((5000, 2), np.float16)).backward(np.ones((5000, 2), np.float16))
        assert weight.grad.ravel().tolist() == [5000, 5000]
    weight, bias = (Tensor(np.zeros(shape, np.float16), requires_grad=True) for shape in ((2, 1), (2,)))
    ops.linear(np.zeros((5000, 1), np.float16), weight, bias).backward(np.ones((5000, 2), np.float16))
    assert bias.grad.tolist() == [5000, 5000]
    one = Tensor(np.ones(1, np.float16), requires_grad=True)
    one[np.zeros(5000, int)].backward(np.ones(5000, np.float16))
    assert one.grad.tolist() == [5000]
    ops.cumsum(ones).backward(np.ones(5000, np.float16))
    assert ones.grad[0] == 5000
    table = Tensor(np.ones((1, 1), np.float16), requires_grad=True)
    ops.embedding(np.zeros(5000, int), table).backward(np.ones((5000, 1), np.float16))
    assert table.grad.tolist() == [[5000]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_python_and_numpy_numbers_are_weak(dtype: Any) -> None:
    x = Tensor(np.array([1.5, 2.0], dtype), requires_grad=True)
    results = [
        x + 1, 2.0 - x, x * 0.1, 1 / x, x**2, 2.0**x, x**0.5, x * np.float64(0.1), x % 0.7, x / np.sqrt(2.0),
        ops.maximum(x, 0.5), ops.where(x > 1.6, x, 0.0), ops.where(x > 1.6, 1.0, x), ops.clip(x, 0.0, 1.0),
        ops.masked_fill(x, np.array([True, False]), -1.5), ops.logaddexp(x, 0.1), ops.hypot(2.0, x),
        ops.arctan2(1.0, x), ops.leaky_relu(x, 0.3), ops.elu(x, 0.3), ops.softplus(x),
        ops.pad(x, 1, constant_values=0.1),
    ]  # fmt: skip
    for result in results:
        assert result.dtype == dtype
        x.grad = None
        result.backward(np.ones(result.shape, dtype), retain_graph=True)
        assert x.grad.dtype == dtype


def test_two_precisions_meet_in_the_wider_and_gradients_come_back_in_their_own() -> None:
    x, y = Tensor(np.ones(3, np.float32), requires_grad=True), Tensor(np.full(3, 2.0), requires_grad=True)
    for out in (x + y, x * y, x / y, x**y, ops.maximum(x, y), ops.concatenate([x, y]), ops.where([True] * 3, x, y)):
        assert out.dtype == np.float64
        x.grad = y.grad = None
        out.backward(np.ones(out.shape))
        assert (x.grad.dtype, y.grad.dtype) == (np.float32, np.float64)


def test_a_cast_carries_the_gradient_back_and_a_cast_to_integers_cuts_it() -> None:
    x = Tensor(np.array([1.0, 2.0]), requires_grad=True)
    half = x.astype(np.float16)
    half.backward(np.array([0.5, 0.25], np.float16))
    assert (half.dtype, x.grad.dtype, x.grad.tolist()) == (np.float16, np.float64, [0.5, 0.25])
    assert not x.astype(np.int64).requires_grad
    assert not (x > 1).requires_grad


def test_integers_and_booleans_follow_numpy() -> None:
    whole = Tensor(np.array([1, 2, 4]))
    assert whole.mean().item() == pytest.approx(7 / 3)
    assert ((whole > 1).sum().item(), (whole / 2).data.tolist()) == (2, [0.5, 1.0, 2.0])
    assert ops.reciprocal(whole).data.tolist() == [1.0, 0.5, 0.25]
    np.testing.assert_allclose(ops.softmax(whole).data.sum(), 1)
    assert (whole.var().dtype, ops.exp(whole).dtype, ops.tril(np.ones((2, 2), int)).dtype) == (
        np.float64,
        np.float64,
        np.int64,
    )


def test_a_padding_row_of_an_embedding_gets_no_gradient_of_any_order() -> None:
    for padding_id in (1, -2):  # the same row, counted from the start and from the end
        _check_padding_row(padding_id)


def _check_padding_row(padding_id: int) -> None:
    table = Tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
    g = Tensor(np.ones((4, 2)), requires_grad=True)
    out = ops.embedding(np.array([0, 1, 1, 2]), table, padding_id)
    assert out.data.tolist() == [[0, 1], [2, 3], [2, 3], [4, 5]]
    found = grad(out, table, g, create_graph=True)
    assert found.data.tolist() == [[1, 1], [0, 0], [1, 1]]
    assert grad(found, g, np.ones((3, 2))).data.tolist() == [[1, 1], [0, 0], [0, 0], [1, 1]]


def test_padding_and_label_smoothing_in_the_cross_entropy() -> None:
    logits = Tensor(np.log(np.array([[0.25, 0.75], [0.5, 0.5]])), requires_grad=True)
    loss = ops.cross_entropy(logits, np.array([1, -100]), label_smoothing=0.2)
    assert loss.item() == pytest.approx(-0.9 * math.log(0.75) - 0.1 * math.log(0.25))
    loss.backward()
    np.testing.assert_allclose(logits.grad, [[0.25 - 0.1, 0.75 - 0.9], [0, 0]], atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_mean_over_no_target_is_nan_and_has_no_gradient(dtype: Any, smoothing: float) -> None:
    logits, weight = (Tensor(np.ones((2, 2), dtype), requires_grad=True) for _ in range(2))
    padding, none = np.array([-100, -100]), np.zeros((0, 2))
    classes = np.array([0, 1], dtype)  # class weights: the first counts nothing
    losses = [
        ops.cross_entropy(logits, padding, label_smoothing=smoothing),
        ops.cross_entropy(logits, np.array([0, 0]), weight=classes, label_smoothing=smoothing),
        ops.linear_cross_entropy(logits, weight, None, padding, label_smoothing=smoothing),
        ops.cross_entropy(logits[:0], none[:, 0].astype(int), label_smoothing=smoothing),
        ops.cross_entropy(logits[:0], none, label_smoothing=smoothing),
    ]
    for number, loss in enumerate(losses):
        assert np.isnan(loss.item())
        if number != 1 or not smoothing:  # smoothed, the other class counts
            assert grad(loss, logits).data.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert ops.cross_entropy(logits, padding, reduction="sum").item() == 0
    assert ops.linear_cross_entropy(logits, weight, None, padding, reduction="sum").item() == 0


def test_binary_cross_entropy_of_certainties_is_finite() -> None:
    p, target = Tensor(np.array([0.0, 1.0, 0.0, 1.0]), requires_grad=True), np.array([0.0, 1.0, 1.0, 0.0])
    loss = ops.binary_cross_entropy(p, target, reduction="none")
    assert loss.data.tolist() == [0.0, 0.0, 100.0, 100.0]
    loss.backward(np.ones(4))
    assert p.grad.tolist() == [0.0, 0.0, -1e12, 1e12]


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_gradient_of_an_unused_output_is_zero(create_graph: bool) -> None:
    x = Tensor(np.arange(6.0), requires_grad=True)
    _, middle, _ = ops.split(x, 3)
    assert grad(middle, x, np.array([1.0, 2.0]), create_graph=create_graph).data.tolist() == [0, 0, 1, 2, 0, 0]
    x = Tensor(np.arange(8.0).reshape(1, 1, 8), requires_grad=True)
    _, key = ops.split_heads(x, heads=2, parts=2)
    found = grad(key, x, np.ones((1, 2, 1, 2)), create_graph=create_graph)
    assert found.data.ravel().tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_a_query_with_nothing_to_attend_to_gets_zeros() -> None:
    rng = np.random.default_rng(0)
    query, key, value = (Tensor(rng.standard_normal((1, 1, 3, 2)), requires_grad=True) for _ in range(3))
    mask = np.array([[True, True, False], [False, False, False], [True, True, True]])
    out = ops.attention(query, key, value, mask=mask)
    assert out.data[0, 0, 1].tolist() == [0, 0]
    found = grad(out, [query, key, value], np.ones(out.shape), create_graph=True)
    for g in found:
        assert np.isfinite(g.data).all()
    assert found[0].data[0, 0, 1].tolist() == [0, 0]
    # More queries than keys, causal: the first queries have positions before all keys.
    late = ops.attention(query, key[:, :, :1], value[:, :, :1], causal=True)
    assert late.data[0, 0, :2].tolist() == [[0, 0], [0, 0]]


def test_dropout_keeps_the_expectation_and_its_gradient_follows_the_mask() -> None:
    x = Tensor(np.ones(100_000, np.float32), requires_grad=True)
    out = ops.dropout(x, 0.3, generator=Generator(1))
    assert out.data.mean() == pytest.approx(1, abs=0.01)
    assert (out.data == 0).mean() == pytest.approx(0.3, abs=0.01)
    out.backward(np.ones(100_000, np.float32))
    np.testing.assert_array_equal(x.grad, out.data)
    again = ops.dropout(x, 0.3, generator=Generator(1))
    np.testing.assert_array_equal(again.data, out.data)


def test_indices_belong_to_the_call_not_to_the_caller() -> None:
    """If a batch's buffer of ids is overwritten before the backward pass, the gradient is still that of the old ids."""
    x, ids = Tensor(np.arange(3.0), requires_grad=True), np.array([0, 0, 1])
    table = Tensor(np.ones((3, 1)), requires_grad=True)
    parts = [x[ids].sum(), ops.take(x, ids).sum(), ops.embedding(ids, table).sum()]
    ids[:] = 2
    for part in parts:
        part.backward()
    assert x.grad.tolist() == [4, 2, 0]
    assert table.grad.ravel().tolist() == [2, 1, 0]


def test_setting_elements() -> None:
    x = Tensor(np.zeros(4), requires_grad=True)
    value = Tensor(np.array(2.0), requires_grad=True)
    y = x * 3
    y[1:3] = value
    assert y.data.tolist() == [0, 2, 2, 0]
    y.backward(np.array([1.0, 10.0, 100.0, 1000.0]))
    assert (x.grad.tolist(), value.grad.item()) == ([3, 0, 0, 3000], 110)
    with no_grad():
        x[0] = 7.0
    assert x.data.tolist() == [7, 0, 0, 0]


def test_functions_take_plain_arrays_lists_and_numbers() -> None:
    assert ops.add([1.0, 2.0], 1).data.tolist() == [2.0, 3.0]
    assert ops.sum(np.ones(3)).item() == 3
    assert ops.einsum("i,i->", np.ones(3), np.ones(3)).item() == 3
    assert ops.concatenate([np.ones(1), Tensor(np.zeros(1))]).data.tolist() == [1, 0]
    assert ops.embedding([[1]], np.eye(2)).data.tolist() == [[[0, 1]]]
    assert ops.take(np.array([5.0, 6.0]), [1, 1]).data.tolist() == [6, 6]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_cross_entropy_of_large_logits_keeps_its_digits(smoothing: float) -> None:
    """It depends on differences only: log 2, whatever is added to both logits."""
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


def test_a_gradient_is_finite_where_only_a_step_of_it_would_not_be() -> None:
    tiny, zero = np.full(1, 5e-324), np.zeros(1)
    with np.errstate(over="ignore"):
        assert gradient(ops.divide, zero, tiny)[1] == [0.0]
        assert gradient(ops.arctan2, tiny, zero)[0] == [0.0]
    assert gradient(ops.arctan2, [1e-300], [1e-300]) == [[pytest.approx(5e299)], [pytest.approx(-5e299)]]


@pytest.mark.parametrize("method", ["standard", "blocked"])
def test_attention_over_no_keys_or_no_features(method: str) -> None:
    def attend(queries: int, keys: int, width: int, **options: Any) -> list[Any]:
        shapes = ((2, 1, queries, width), (2, 1, keys, width), (2, 1, keys, 4))
        return gradient(lambda q, k, v: ops.attention(q, k, v, method=method, **options), *map(np.ones, shapes))

    for queries, keys, width in ((3, 0, 2), (0, 3, 2), (0, 0, 2)):
        for options in ({}, {"causal": True}, {"bias": np.zeros((queries, keys))}):
            assert not any(np.any(g) for g in attend(queries, keys, width, **options))
    np.testing.assert_allclose(attend(3, 2, 0)[2], np.full((2, 1, 2, 4), 1.5))  # nothing tells the keys apart
    none = Tensor(np.zeros((1, 1, 0, 2)))
    out, weights = ops.attention(Tensor(np.ones((1, 1, 3, 2))), none, none, return_weights=True)
    assert (out.data.tolist(), weights.shape) == ([[[[0, 0]] * 3]], (1, 1, 3, 0))


def test_rows_without_features_are_normalised_in_silence() -> None:
    empty, nothing = np.zeros((3, 0)), np.zeros(0)
    for function in (ops.layer_norm, ops.rms_norm):
        inputs = (empty, nothing, nothing)[: 3 if function is ops.layer_norm else 2]
        assert [np.shape(g) for g in gradient(function, *inputs)] == [x.shape for x in inputs]
