"""Check each row of the conventions table in docs/autograd_reference.md for quick and plain implementations."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Parameter, Tensor, checkpoint, grad, ops, plain
from handloom.train.optim.optimizers import Adam

DOCS = Path(__file__).parents[3] / "docs" / "autograd_reference.md"
NAN, INF = np.nan, np.inf
ROWS: dict[str, Callable[[], None]] = {}


def row(case: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def enter(check: Callable[[], None]) -> Callable[[], None]:
        ROWS[case] = check
        return check

    return enter


def value_and_gradients(function: Any, *values: Any) -> list[Any]:
    """Return the result, then the gradients for an output gradient of ones, as lists."""
    leaves = [Tensor(np.asarray(value, dtype=np.float64), requires_grad=True) for value in values]
    with np.errstate(all="ignore"):
        out = function(*leaves)
        found = grad(out, leaves, np.ones(out.shape))
    return [out.data.tolist(), *(g.data.tolist() for g in found)]


def check(function: Any, values: Any, expected: Any) -> None:
    for found, wanted in zip(value_and_gradients(function, *values), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@row("`maximum`, `minimum` of equal numbers")
def _() -> None:
    for function in (ops.maximum, ops.minimum):
        check(function, ([1.0, INF], [1.0, INF]), ([1, INF], [0.5, 0.5], [0.5, 0.5]))


@row("`maximum`, `minimum` if one operand is NaN")
def _() -> None:
    for function in (ops.maximum, ops.minimum):
        check(function, ([NAN, 1.0, NAN], [1.0, NAN, NAN]), ([NAN] * 3, [1, 1, 1], [1, 1, 1]))


@row("`max`, `min` of several equal elements")
def _() -> None:
    for function in (ops.max, ops.min):
        check(lambda x: function(x, axis=0), ([2.0, 2.0, 2.0, 2.0],), (2, [0.25] * 4))  # noqa: B023


@row("`max`, `min` if elements are NaN")
def _() -> None:
    for function in (ops.max, ops.min):
        check(function, ([1.0, NAN, 2.0, NAN],), (NAN, [0, 0.5, 0, 0.5]))


@row("order of equal elements in `argmax`, `argmin`, `sort`, `argsort`, `topk`")
def _() -> None:
    x = np.array([[1.0, 2.0, 1.0, 2.0], [0.0, -0.0, 0.0, -1.0]])
    assert ops.argmax(x, axis=1).data.tolist() == [1, 0]
    assert ops.argmin(x, axis=1).data.tolist() == [0, 3]
    assert ops.argsort(x).data.tolist() == [[0, 2, 1, 3], [3, 0, 1, 2]]
    assert ops.topk(x, 3)[1].data.tolist() == [[1, 3, 0], [0, 1, 2]]
    assert ops.topk(x, 3, largest=False)[1].data.tolist() == [[0, 2, 1], [3, 0, 1]]
    assert ops.topk(x.T, 1, axis=0)[1].data.tolist() == [[1, 0]]
    check(ops.sort, ([1.0, 1.0],), ([1, 1], [1, 1]))
    check(lambda v: ops.topk(v, 1)[0], ([3.0, 3.0],), ([3], [1, 0]))


@row("order of NaN")
def _() -> None:
    x = np.array([1.0, NAN, INF, NAN])
    np.testing.assert_array_equal(ops.sort(x).data, [1, INF, NAN, NAN])
    assert (ops.argmax(x).item(), ops.argmin(x).item()) == (1, 1)
    assert ops.topk(x, 3)[1].data.tolist() == [1, 3, 2]
    assert ops.topk(x, 3, largest=False)[1].data.tolist() == [0, 2, 1]


@row("`relu`, `abs`, `sign` at 0")
def _() -> None:
    for function in (ops.relu, ops.abs, ops.sign):
        check(function, ([0.0, -0.0],), ([0, 0], [0, 0]))


@row("`relu` at NaN, alone or after `linear`")
def _() -> None:
    check(ops.relu, ([NAN, 1.0, -1.0],), ([NAN, 1, 0], [1, 1, 0]))
    layer = partial(ops.linear_activation, np.zeros((1, 1)), np.zeros((2, 1)))
    check(layer, ([NAN, -1.0],), ([[NAN, 0]], [1, 0]))


@row("`clip` of an x that is equal to a bound")
def _() -> None:
    check(lambda x: ops.clip(x, -1, 1), ([-1.0, 1.0, 2.0],), ([-1, 1, 1], [1, 1, 0]))


@row("`clip` of an x that is NaN")
def _() -> None:
    check(lambda x: ops.clip(x, -1, 1), ([NAN],), ([NAN], [1]))


@row("`clip` with a lower bound above the upper bound")
def _() -> None:
    check(ops.clip, ([0.0], [1.0], [-1.0]), ([-1], [0], [0], [1]))


@row("`x ** 0`")
def _() -> None:
    check(lambda x: x**0, ([0.0, 2.0, NAN],), ([1, 1, 1], [0, 0, 0]))
    check(lambda x: ops.power(x, np.zeros(3)), ([0.0, 2.0, NAN],), ([1, 1, 1], [0, 0, 0]))


@row("`0 ** y`")
def _() -> None:
    value, _, slope = value_and_gradients(ops.power, [0.0, 0.0, 0.0, -0.0], [2.0, 0.0, -1.0, -3.0])
    assert (value, slope) == ([0, 1, INF, -INF], [0, 0, -INF, INF])


@row("`norm`, `std`, `hypot`, `arctan2` at 0")
def _() -> None:
    check(ops.norm, ([0.0, 0.0],), (0, [0, 0]))
    check(lambda x: ops.norm(x, ord=3, axis=0), ([0.0, 0.0],), (0, [0, 0]))
    check(lambda x: ops.norm(x, ord=0.5, axis=0), ([0.0, 4.0],), (4, [0, 1]))
    check(ops.std, ([2.0, 2.0],), (0, [0, 0]))
    check(ops.hypot, ([0.0], [0.0]), ([0], [0], [0]))
    check(ops.arctan2, ([0.0], [0.0]), ([0], [0], [0]))


@row("`logsumexp` of an empty array, or of an array in which all elements are -infinity")
def _() -> None:
    check(ops.logsumexp, ([-INF, -INF],), (-INF, [0, 0]))
    check(ops.logsumexp, ([],), (-INF, []))
    check(lambda x: ops.logsumexp(x, axis=1), (np.zeros((2, 0)),), ([-INF, -INF], np.zeros((2, 0))))
    check(ops.logaddexp, ([-INF, INF], [-INF, 0.0]), ([-INF, INF], [0.5, 1], [0.5, 0]))


@row("`sum`, `prod`, `mean`, `max` of an empty array")
def _() -> None:
    nothing = np.zeros(0)
    assert (ops.sum(nothing).item(), ops.prod(nothing).item()) == (0, 1)
    with pytest.warns(RuntimeWarning):
        assert np.isnan(ops.mean(nothing).item())
    with pytest.raises(ValueError, match="zero-size"):
        ops.max(nothing)


@row("`var`, `std` of n <= ddof numbers")
def _() -> None:
    for function in (ops.var, ops.std):
        for values, ddof, expected in (([2.0], 1, NAN), ([2.0, 1.0], 2, INF)):
            with pytest.warns(RuntimeWarning):
                np.testing.assert_array_equal(function(np.array(values), ddof=ddof).item(), expected)


@row("reduction of a 0-d array along axis 0 or -1")
def _() -> None:
    norms = [lambda x, axis: ops.norm(x, axis=axis), lambda x, axis: ops.norm(x, 3, axis)]
    for function in (ops.sum, ops.mean, ops.prod, ops.max, ops.min, ops.logsumexp, *norms):
        for axis in (0, -1):
            check(lambda x: function(x, axis=axis), (3.0,), (3, 1))  # noqa: B023
        with pytest.raises((ValueError, IndexError), match="axis"):
            function(np.array(3.0), axis=1)


@row("`sort`, `argsort`, `topk` of a 0-d array")
def _() -> None:
    for call in (ops.sort, ops.argsort, lambda x: ops.topk(x, 1)):
        with pytest.raises(ValueError, match=r"(sort|topk): axis -1 is out of bounds"):
            call(np.array(3.0))


@row("`cross_entropy`, mean over zero targets")
def _() -> None:
    for dtype, smoothing in ((np.float32, 0.0), (np.float16, 0.1)):
        logits, weight = (Tensor(np.ones((2, 2), dtype), requires_grad=True) for _ in range(2))
        padding, none, options = np.array([-100, -100]), np.zeros((0, 2)), {"label_smoothing": smoothing}
        classes = np.array([0, 1], dtype)  # class weights: class 0 has the weight 0
        losses = [
            ops.cross_entropy(logits, np.array([0, 0]), weight=classes, **options),
            ops.cross_entropy(logits, padding, **options),
            ops.linear_cross_entropy(logits, weight, None, padding, **options),
            ops.cross_entropy(logits[:0], none[:, 0].astype(int), **options),
            ops.cross_entropy(logits[:0], none, **options),
        ]
        assert np.isnan([loss.item() for loss in losses]).all()
        for loss in losses[bool(smoothing) :]:  # with smoothing, class 1 counts in the first loss
            assert grad(loss, logits).data.tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert ops.cross_entropy(logits, padding, reduction="sum").item() == 0
        assert ops.linear_cross_entropy(logits, weight, None, padding, reduction="sum").item() == 0
    # For the Trainer: tests/train/test_trainer.py, test_a_batch_without_targets_ends_the_run_with_a_word


@row("`binary_cross_entropy` of probabilities 0 and 1")
def _() -> None:
    p, target = Tensor(np.array([0.0, 1.0, 0.0, 1.0]), requires_grad=True), np.array([0.0, 1.0, 1.0, 0.0])
    loss = ops.binary_cross_entropy(p, target, reduction="none")
    assert loss.data.tolist() == [0.0, 0.0, 100.0, 100.0]
    loss.backward(np.ones(4))
    assert p.grad.tolist() == [0.0, 0.0, -1e12, 1e12]


@row("attention of a query that may attend to no key")
def _() -> None:
    x = [[[[1.0, 2.0]]]]
    for method in ("standard", "blocked"):
        function = lambda q, k, v: ops.attention(q, k, v, mask=np.array([[False]]), method=method)  # noqa: B023, E731
        check(function, (x, x, x), (np.zeros((1, 1, 1, 2)),) * 4)


@row("operands of several dtypes")
def _() -> None:
    def arrays(*shapes: tuple[int, ...]) -> list[Tensor]:
        """Return Tensors of ones in float16, float32 and float64, in this order."""
        dtypes = (np.float16, np.float32, np.float64)
        return [Tensor(np.ones(s, d), requires_grad=True) for s, d in zip(shapes, dtypes, strict=False)]

    square, heads, vector = (2, 2), (1, 1, 2, 2), (2,)
    calls: list[tuple[Any, list[Tensor], Any]] = [
        (ops.add, arrays(square, square), np.float32),
        (ops.matmul, arrays(square, square), np.float32),
        (lambda *t: ops.concatenate(t), arrays(square, square, square), np.float64),
        (ops.merge_heads, arrays(heads, heads), np.float32),
        (ops.linear, arrays(square, square), np.float32),
        (ops.linear, arrays(square, square, vector), np.float64),
        (ops.linear_activation, arrays(square, square, vector), np.float64),
        (lambda *t: ops.linear_activation(*t, activation="gelu"), arrays(square, square), np.float32),
        (lambda x, w: ops.linear_cross_entropy(x, w, None, np.array([0, 1])), arrays(square, square), np.float32),
        (ops.layer_norm, arrays(square, vector, vector), np.float64),
        (lambda x, r, w: ops.residual_layer_norm(x, r, w, w), arrays(square, square, vector), np.float64),
        (ops.rms_norm, arrays(square, vector), np.float32),
        (ops.dropout_add, arrays(square, square), np.float32),
        (ops.attention, arrays(heads, heads, heads), np.float64),
        (lambda *t: ops.attention(*t, method="blocked"), arrays(heads, heads, heads), np.float64),
        (lambda q, b: ops.attention(q, q, q, bias=b), arrays(heads, heads), np.float32),
        (lambda x, t: ops.cross_entropy(x, t), arrays(square, square), np.float32),
        (ops.mse_loss, arrays(square, square), np.float32),
    ]
    for function, tensors, dtype in calls:
        out = function(*tensors)
        assert out.dtype == dtype
        found = grad(out, tensors, np.ones(out.shape, dtype))
        assert [g.dtype for g in found] == [t.dtype for t in tensors]


@row("an op on an array and a Python or NumPy scalar")
def _() -> None:
    x = Tensor(np.ones(2, np.float32))
    for number in (2, 2.0, np.float64(2), np.int64(2)):
        assert {(x * number).dtype, (number / x).dtype, (x**number).dtype} == {np.dtype(np.float32)}
    assert (x * np.full(2, 2.0)).dtype == np.float64


@row("`/`, `mean`, `exp` of integers")
def _() -> None:
    x = np.array([1, 2])
    assert {ops.divide(x, 2).dtype, ops.mean(x).dtype, ops.exp(x).dtype} == {np.dtype(np.float64)}


@row("float16")
def _() -> None:
    # test_whole_range.py tests the whole range.
    large = Tensor(np.array([300.0, 300.0], np.float16), requires_grad=True)
    zero = np.zeros(2, np.float16)
    assert ops.mse_loss(large * 0.5, zero).item() == 22496  # 22,500, rounded; 300^2 is beyond 65,504
    assert grad(ops.gelu(large, "tanh"), large, np.ones(2, np.float16)).data.tolist() == [1, 1]


@row("`tanh`, `sigmoid`, `gelu`, `softmax` and losses where they saturate")
def _() -> None:
    x = Tensor(np.array([-12.0], np.float32), requires_grad=True)
    assert 0 <= grad(ops.tanh(x), x).item() <= 2.0**-22  # exactly 1.5e-10
    assert abs(ops.gelu(x).item()) <= 12 * 2.0**-22
    rare = ops.cross_entropy(np.array([[0, 30]], np.float32), [1]).item()
    assert 0 <= rare <= 2.0**-19  # exactly 9e-14


@row("an intermediate number beyond the range of the dtype: scores and logits, or a product in a gradient")
def _() -> None:
    q, k = np.full((1, 1, 1, 1), 1e30, np.float32), np.full((1, 1, 2, 1), -1e30, np.float32)
    x = Tensor(np.array([1e30, -1e3], np.float32), requires_grad=True)
    with np.errstate(all="ignore"):
        for out in (ops.attention(q, k, k), ops.attention(q, k, k, mask=np.ones((1, 2), bool))):
            assert np.nan_to_num(out.item()) == 0
        assert np.isnan(grad(ops.glu(x), x, np.full(1, 1e10, np.float32)).data[1])


@row("`layer_norm`, `rms_norm`, `std`, `norm` of rows whose squares are beyond the range of the dtype")
def _() -> None:
    x, one = np.array([[1e20, -1e20], [3e38, 3e37]], np.float32), np.ones(2, np.float32)
    for op in (lambda x: ops.layer_norm(x, one, one * 0), ops.rms_norm, lambda x: ops.std(x, axis=1)):
        np.testing.assert_allclose(op(x).data, op(x.astype(np.float64)).data, rtol=1e-6)


@row("sums along any axis")
def _() -> None:
    x = np.full((1 << 16, 4), 0.1, np.float32)
    for axis in (0, 1, None):
        exact = x.astype(np.float64).sum(axis=axis)
        np.testing.assert_allclose(ops.sum(x, axis=axis).data, exact, rtol=4 * np.finfo(np.float32).eps)


@row("arrays in a foreign byte order")
def _() -> None:
    foreign = np.ones(2, np.dtype(np.float64).newbyteorder("S"))
    assert Tensor(foreign).dtype == ops.add(foreign, 1).dtype == np.float64


@row("result of a checkpointed function that needs no gradient")
def _() -> None:
    x = Tensor(np.array([1.0, 2.0]), requires_grad=True)
    value, index, constant = checkpoint(lambda t: (t * t, ops.argmax(t), t.detach() * 2), x)
    assert (value.requires_grad, index.requires_grad, constant.requires_grad) == (True, False, False)
    value.backward(np.ones(2))
    assert x.grad.tolist() == [2, 4]


@row("`Adam` for a parameter that gets its first gradient late")
def _() -> None:
    early, late = Parameter(np.zeros(1)), Parameter(np.zeros(1))
    adam = Adam([early, late], lr=1.0)
    for step in range(1, 1002):
        early.grad, late.grad = np.ones(1), np.ones(1) if step > 1000 else None
        adam.step()
    assert late.item() == pytest.approx(-1)


def test_every_row_is_tested() -> None:
    section = DOCS.read_text(encoding="utf-8").partition("## Conventions\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| .* \|.*\|$", section, re.MULTILINE)
    assert rows[0] == "case"
    assert rows[1:] == list(ROWS)


@pytest.mark.parametrize("plainly", [False, True])
@pytest.mark.parametrize("case", ROWS)
def test_convention(case: str, plainly: bool) -> None:
    with plain(plainly):
        ROWS[case]()
