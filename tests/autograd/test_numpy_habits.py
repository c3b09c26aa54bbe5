"""NumPy idioms on a Tensor give NumPy's result, or an error of one line that says what to write instead."""

import operator

import numpy as np
import pytest

from handloom.autograd import Parameter, Tensor, ops

VALUES = np.array([[0.5, 1.5, 2.5], [3.5, -4.5, 5.5]])


def leaf(values=VALUES) -> Tensor:
    return Tensor(np.array(values), requires_grad=True)


# -- booleans and integers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [operator.and_, operator.or_, operator.xor])
@pytest.mark.parametrize("other", [True, np.bool_(True), [True, False, True], np.array([True, False, True])])
def test_booleans_combine_as_in_numpy(function, other) -> None:
    left, right = leaf() > 1, VALUES > 1
    for made, expected in (
        (function(left, other), function(right, other)),
        (function(other, left), function(other, right)),
        (function(left, Tensor(other)), function(right, other)),
    ):
        assert type(made) is Tensor
        assert not made.requires_grad
        np.testing.assert_array_equal(made.data, expected)
    np.testing.assert_array_equal((~left).data, ~right)


@pytest.mark.parametrize("call", [lambda x: x & True, lambda x: 1 | x, lambda x: (x > 0) ^ 0.5, lambda x: ~x])
def test_bits_of_floating_numbers_are_refused(call) -> None:
    with pytest.raises(TypeError, match=r"needs booleans or integers, not float64: compare first, as in \(x > 0\) &"):
        call(leaf())


def test_any_and_all() -> None:
    x = leaf() > 1
    assert x.any()
    assert not x.all()
    for name in ("any", "all"):
        for kwargs in ({"axis": 0}, {"axis": 1, "keepdims": True}, {"axis": (0, 1)}):
            expected = getattr(VALUES > 1, name)(**kwargs)
            np.testing.assert_array_equal(getattr(x, name)(**kwargs).data, expected)
    assert Parameter(VALUES).any()
    assert 1.5 in leaf()
    assert 7 not in leaf()


# -- quotients and rounding ------------------------------------------------------------------------------------------


def test_quotients_and_remainders() -> None:
    x = leaf()
    for other in (2, 2.0, np.float64(2), np.array([1.0, 2.0, -3.0]), Tensor(np.array([1.0, 2.0, -3.0]))):
        plain = other.data if isinstance(other, Tensor) else other
        for made, expected in (
            (x // other, VALUES // plain),
            (other // x, plain // VALUES),
            (divmod(x, other)[1], VALUES % plain),
            (divmod(other, x)[0], plain // VALUES),
        ):
            assert isinstance(made, Tensor)
            np.testing.assert_array_equal(made.data, expected)
    q, r = divmod(x, 2.0)
    (q * 2 + r).sum().backward()
    np.testing.assert_array_equal(x.grad, np.ones((2, 3)))
    assert (Tensor([7, -7]) // 2).data.tolist() == [3, -4]
    assert (Tensor(np.ones(2, np.float32)) // np.float64(2)).dtype == np.float32


# -- text ------------------------------------------------------------------------------------------------------------


def test_one_number_is_formatted_as_a_number() -> None:
    x = leaf()
    assert f"{x.mean():.3f}" == f"{VALUES.mean():.3f}"
    assert f"{Tensor([7])[0]:03d}" == "007"
    assert f"{x}" == str(x) == repr(x)
    with pytest.raises(TypeError, match=r"'\.3f' formats one number, not a Tensor of shape \(2, 3\): .*2string"):
        f"{x:.3f}"


# -- lists -----------------------------------------------------------------------------------------------------------


def test_lists_of_tensors_are_stacked() -> None:
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    total = ops.mean([a * 2, b]) + ops.sum([[a, b], [b, np.ones(2)]], axis=(0, 1))[1] + ops.add([b[0], 2.0], a.sum())[0]
    total.backward()
    np.testing.assert_array_equal(a.grad, [0.5 + 1, 0.5 + 1 + 1])
    np.testing.assert_array_equal(b.grad, [0.25 + 1, 0.25 + 2])
    assert ops.maximum([1.0, 5.0], a).data.tolist() == [1.0, 5.0]


def test_tensors_made_of_lists() -> None:
    a = Tensor(np.array([1.0, 2.0]))
    for dtype, lists in (
        (np.float64, ([a, a], [a[0], 2], [np.ones(2), np.ones(2)], [np.float64(1)])),
        (np.float16, ([np.float16(1)],)),
        (np.float32, ([1.0, 2], [])),
    ):
        assert {Tensor(values).dtype for values in lists} == {np.dtype(dtype)}
    np.testing.assert_array_equal(Tensor([a, a * 2]).data, [[1, 2], [2, 4]])
    with pytest.raises(TypeError, match=r"ops\.stack\(list\) for np\.array\(list\)"):
        Tensor([leaf(), leaf()])


# -- NumPy's functions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (lambda x: np.mean(x), r"np\.mean does not compute gradients.* write ops\.mean\(x\)"),
        (lambda x: np.amax(x), r"np\.\w*max does not compute gradients.* write ops\.max\(x\)"),
        (lambda x: np.concatenate([x.detach(), x]), r"ops\.concatenate"),
        (lambda x: np.where(x > 0, x, 0), r"ops\.where"),
        (lambda x: np.zeros_like(x), r"ops\.zeros_like"),
        (lambda x: np.linalg.norm(x), r"np\.linalg\.norm does not compute gradients.* ops\.norm"),
        (lambda x: np.fft.fft(x), r"np\.fft\.fft does not compute gradients.* functions of handloom\.autograd\.ops"),
        (lambda x: np.meshgrid(x), "functions of handloom"),
        (lambda x: np.copyto(np.zeros((2, 3)), x), "functions of handloom"),
        (lambda x: np.exp(x), r"ops\.exp\(x\) for np\.exp\(x\)"),
        (lambda x: np.add(1.0, x), r"ops\.exp\(x\) for np\.exp\(x\)"),
        (lambda x: np.array([x, x]), r"ops\.stack\(list\)"),
        (lambda x: np.asarray(x), r"is not converted to a NumPy array implicitly.*x\.numpy\(\)"),
    ],
)
def test_numpys_functions_refuse_what_would_lose_a_gradient(call, instead) -> None:
    with pytest.raises(TypeError, match=instead):
        call(leaf())


def test_numpys_functions_see_a_constant_as_an_array() -> None:
    x = Tensor(VALUES)
    for function in (np.mean, np.exp, np.std, np.linalg.norm, np.isnan, np.ravel, np.array, np.asarray):
        np.testing.assert_array_equal(function(x), function(VALUES))
    np.testing.assert_array_equal(np.concatenate([x, VALUES]), np.concatenate([VALUES, VALUES]))
    np.testing.assert_array_equal(np.clip(x, a_min=1, a_max=2), np.clip(VALUES, 1, 2))
    np.testing.assert_array_equal(np.maximum(x, 2), np.maximum(VALUES, 2))
    with pytest.raises(ValueError, match="read-only"):
        np.put(x, [0], [9.0])
    np.testing.assert_array_equal(x.data, VALUES)


def test_numpys_functions_without_a_gradient_to_lose() -> None:
    x = leaf()
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((2, 3), 2, 6)
    assert np.allclose(x, VALUES)
    assert np.array_equal(x, VALUES)
    assert np.result_type(x, np.float32) == np.float64
    assert np.argmax(x) == 5
    assert np.argwhere(x > 5).tolist() == [[1, 2]]
    assert np.array2string(x[0, 0]) == "0.5"


# -- names -----------------------------------------------------------------------------------------------------------


def test_clip_takes_numpys_older_names() -> None:
    x = leaf()
    np.testing.assert_array_equal(ops.clip(x, a_min=1, a_max=2).data, np.clip(VALUES, 1, 2))
    np.testing.assert_array_equal(ops.clip(x, a_max=2).data, np.clip(VALUES, None, 2))
    for kwargs in ({"min": 1, "a_min": 1}, {"max": 1, "a_max": 1}):
        with pytest.raises(ValueError, match="a_min is another name of min"):
            ops.clip(x, **kwargs)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("trace", r"write ops\.trace\(x\)$"),
        ("argsort", r"write ops\.argsort\(x\)$"),
        ("sort", r"write ops\.sort\(x\)$"),
        ("fill", r"assign elements by x\[\.\.\.\] = y$"),
        ("nonzero", r"write x\.numpy\(\)\.nonzero if you need only the values$"),
        ("shapes", r"'Tensor' object has no attribute 'shapes'$"),
        ("linear", r"no attribute 'linear'$"),
        ("__array_interface__", "no attribute '__array_interface__'$"),
    ],
)
def test_what_a_tensor_lacks(name, instead) -> None:
    assert not hasattr(leaf(), name)
    with pytest.raises(AttributeError, match=instead):
        getattr(leaf(), name)
