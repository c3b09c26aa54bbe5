"""Tensor: construction, dtypes, operations with numbers and arrays, and errors."""

import json

import numpy as np
import pytest

from handloom.autograd import Parameter, Tensor, grad, no_grad, ops
from handloom.autograd.backend import DeviceError

FLOAT32 = Tensor(np.ones((2, 3), np.float32), requires_grad=True)
FLOAT64 = Tensor(np.ones((2, 3)), requires_grad=True)


# -- construction -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        *((floats, np.float32) for floats in (1.5, [1.0, 2.0])),
        *((data, np.float64) for data in (np.ones(2), np.float64(2.0), memoryview(np.ones(2)))),
        *(([[1, 2], [3, 4]], np.int64), (True, np.bool_), (np.ones(2, np.float16), np.float16), (1j, np.complex128)),
    ],
)
def test_dtype_of_new_tensors(data, dtype) -> None:
    assert Tensor(data).dtype == dtype
    assert not Tensor(data).requires_grad


def test_what_cannot_be_a_tensor() -> None:
    for data in ("text", ["1.0"], None, object()):
        with pytest.raises(TypeError, match="not numeric"):
            Tensor(data)
    with pytest.raises(ValueError, match="different lengths"):
        Tensor([[1.0], [1.0, 2.0]])
    with pytest.raises(ValueError, match="dimension"):
        Tensor(json.loads("[" * 100 + "]" * 100))


@pytest.mark.parametrize("data", [[1, 2], [True], 1j])
def test_only_real_floating_point_has_a_gradient(data) -> None:
    with pytest.raises(TypeError, match=r"can't require a gradient: use a real floating dtype.* .astype\('float32'\)"):
        Tensor(data, requires_grad=True)
    with pytest.raises(TypeError, match="can't require a gradient"):
        Tensor(data).requires_grad_()
    assert Tensor([1, 2], requires_grad=True, dtype=np.float32).requires_grad


def test_an_array_is_shared_and_not_copied() -> None:
    array = np.ones(3)
    assert Tensor(array).data is array
    assert np.shares_memory(Tensor(Tensor(array)).data, array)
    assert Parameter(array).requires_grad


def test_requires_grad_of_leaves_and_results() -> None:
    x = Tensor([1.0])
    assert x.requires_grad_() is x
    y = x * 2
    assert x.is_leaf
    assert not y.is_leaf
    with pytest.raises(RuntimeError, match=r"requires_grad can only be set on a leaf; use detach\(\)"):
        y.requires_grad_(False)
    x.requires_grad_(False)
    assert not (x * 2).requires_grad


def test_views_of_its_content() -> None:
    x = Tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    assert (x.shape, x.ndim, x.size, len(x), x.device) == ((2, 3), 2, 6, 2, "cpu")
    assert x.numpy() is x.data
    assert [float(row.sum().item()) for row in x] == [3.0, 12.0]
    assert float(x[1, 2]) == 5.0
    assert int(x[0, 1]) == 1
    assert bool(x[0, 1])
    with pytest.raises(TypeError, match="0-d"):
        len(x.sum())
    assert repr(Tensor([1.5])) == "Tensor([1.5], dtype=float32)"
    assert repr((x * 2).sum()) == "Tensor(30., dtype=float64, requires_grad=True, from=Sum)"


def test_comparisons_are_elementwise_and_tensors_hash_by_identity() -> None:
    x, y = Tensor([1.0, 2.0]), Tensor([2.0, 2.0])
    for got, expected in (
        (x < y, [True, False]),
        (x <= 1.0, [True, False]),
        (x > np.array([0.0, 3.0]), [True, False]),
        (x >= y, [False, True]),
        (x == y, [False, True]),
        (x != y, [True, False]),
    ):
        np.testing.assert_array_equal(got.data, expected)
    assert len({x, y, x}) == 2
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x == y)


def test_a_gradient_that_is_set_is_copied() -> None:
    """Backward passes add in place: without the copy, another tensor's gradient or the caller's array would change."""
    x, y = (Tensor(np.ones(2), requires_grad=True) for _ in range(2))
    given = np.array([5.0, 6.0])
    x.grad = given
    y.grad = x.grad
    (x * y * 10).sum().backward()
    np.testing.assert_array_equal(x.grad, [15.0, 16.0])
    np.testing.assert_array_equal(y.grad, [15.0, 16.0])
    np.testing.assert_array_equal(given, [5.0, 6.0])
    own = x.grad
    x.grad *= 2
    assert x.grad is own
    x.grad = grad((x * 3).sum(), x)
    np.testing.assert_array_equal(x.grad, [3.0, 3.0])


@pytest.mark.parametrize("value", [np.ones(3), np.ones((1, 2)), np.ones(2, np.float32), [1.0, 1.0], 0, Tensor([1.0])])
def test_only_an_array_like_the_tensors_own_is_its_gradient(value) -> None:
    x = Tensor(np.ones(2), requires_grad=True)
    with pytest.raises(ValueError, match=r"grad of a Tensor float64\[2\] must have .* it can't be "):
        x.grad = value
    assert x.grad is None


# -- dtypes -----------------------------------------------------------------------------------------------------------

OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    "maximum": ops.maximum,
    "where": lambda a, b: ops.where(np.array([True, False, True]), a, b),
}
WEAK = [2, 2.0, True, np.float64(2.0), np.int64(2), np.float32(2.0), np.float16(2.0), np.bool_(True)]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("scalar", WEAK, ids=lambda s: f"{type(s).__name__}")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_scalars_are_weak(operation, scalar, dtype) -> None:
    """Neither Python nor NumPy scalars promote: x / mask.sum() and x * np.sqrt(d) keep the dtype of x."""
    x = Tensor(np.ones((2, 3), dtype), requires_grad=True)
    for result in (OPERATIONS[operation](x, scalar), OPERATIONS[operation](scalar, x)):
        assert result.dtype == dtype
        result.backward(np.ones(result.shape, dtype))
        assert x.grad.dtype == dtype
    numbers, loss = [[1, 0, 0], [0.0, 1.0, 0.0]], ops.binary_cross_entropy_with_logits
    losses = [ops.mse_loss(x.sum(), scalar), ops.l1_loss(x, numbers), ops.cross_entropy(x, numbers)]
    losses += [loss(x, numbers, weight=numbers, pos_weight=numbers), ops.layer_norm(x, *numbers)]
    assert {loss.dtype for loss in losses} == {np.dtype(dtype)}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_arrays_promote_as_in_numpy(operation) -> None:
    function = OPERATIONS[operation]
    for other in (FLOAT64, FLOAT64.data, Tensor(np.array(1.0)), np.arange(1, 4), np.array(1.0)):
        result = function(FLOAT32, other)
        plain = other.data if isinstance(other, Tensor) else other
        assert result.dtype == np.result_type(FLOAT32.data, plain) == np.float64
        FLOAT32.grad = None
        result.backward(np.ones(result.shape))
        assert FLOAT32.grad.dtype == np.float32


def test_casting_to_integers_cuts_the_graph_and_complex_numbers_are_refused() -> None:
    assert not FLOAT32.astype(np.int64).requires_grad
    assert not (FLOAT32 > 0).requires_grad
    with pytest.raises(TypeError, match=r"Multiply: a result of complex64 can't carry a gradient"):
        FLOAT32 * 1j
    with no_grad():
        assert (FLOAT32 * 1j).dtype == np.complex64


# -- with NumPy -------------------------------------------------------------------------------------------------------


def test_arrays_on_the_left() -> None:
    x = Tensor(np.full(3, 2.0), requires_grad=True)
    a = np.arange(1.0, 4.0)
    for result, expected in (
        (a + x, a + 2), (a - x, a - 2), (a * x, a * 2), (a / x, a / 2), (a**x, a**2), (a % x, a % 2), (a @ x, 12.0),
    ):  # fmt: skip
        assert isinstance(result, Tensor)
        assert result.requires_grad
        np.testing.assert_array_equal(result.data, expected)


# -- errors -----------------------------------------------------------------------------------------------------------


def test_devices() -> None:
    x = Tensor(np.ones(2), requires_grad=True)
    assert x.to("cpu").device == "cpu"
    for name in ("gpu", "cuda:x", "cuda:-1", "cuda:", "CPU", ""):
        with pytest.raises(DeviceError, match=f"unknown device '{name}': use 'cpu', 'cuda' or 'cuda:N'"):
            x.to(name)
