"""Every op takes what NumPy users pass: arrays in the other byte order, and NumPy scalars as numbers and axes."""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Tensor, grad, ops
from handloom.autograd.catalogue import CATALOGUE
from tests.support.derivatives import called


def swapped(value: Any) -> Any:
    """Return the same numbers in the other byte order."""
    if isinstance(value, np.ndarray):
        return value.astype(value.dtype.newbyteorder("S"))
    return type(value)(map(swapped, value)) if isinstance(value, tuple | list) else value


def numpy_scalars(value: Any) -> Any:
    """Replace Python numbers by NumPy scalars; like Python floats, float64 scalars don't change dtypes."""
    for kind, scalar in ((bool, np.bool_), (int, np.int64), (float, np.float64)):
        if isinstance(value, kind):
            return scalar(value)
    if isinstance(value, slice):
        return slice(*map(numpy_scalars, (value.start, value.stop, value.step)))
    return type(value)(map(numpy_scalars, value)) if isinstance(value, tuple | list) else value


def forms_agree(name: str, changed: Callable[[Any], Any], dtype: Any) -> None:
    """Check that `changed`, applied to all arguments and output gradients, keeps values and gradients bit-equal."""
    spec = CATALOGUE[name]
    for number, sample in enumerate(spec.samples(np.random.default_rng(zlib.crc32(name.encode())), dtype, count=8)):
        results = []
        for form in (lambda value: value, changed):
            args = [form(a) for a in sample.args]
            places = [i for i in (sample.differentiable or ())[number % 2 :] if isinstance(args[i], np.ndarray)]
            kwargs = {key: form(value) for key, value in sample.kwargs.items()}
            leaves, outputs = called(spec.function, args, places, kwargs)
            recorded = [out for out in outputs if out.requires_grad]
            rng = np.random.default_rng(0)
            cotangents = [form(rng.normal(size=out.shape).astype(out.dtype)) for out in recorded]
            found = grad(recorded, leaves, cotangents) if recorded else []
            results.append([tensor.data for tensor in (*outputs, *found)])
        for own, other in zip(*results, strict=True):
            np.testing.assert_array_equal(own, other, err_msg=str(sample), strict=True)


@pytest.mark.parametrize("name", CATALOGUE)
def test_both_byte_orders(name: str) -> None:
    """Arrays may have either byte order as leaves, constant operands, indices, masks and output gradients."""
    forms_agree(name, swapped, np.float64)


@pytest.mark.parametrize("name", CATALOGUE)
def test_numpy_scalars_for_pythons_numbers(name: str) -> None:
    forms_agree(name, numpy_scalars, np.float32)


SMOOTH = ["sigmoid", "softplus", "log_sigmoid", "silu", "mish", "glu", "swiglu", "softmax", "log_softmax", "logsumexp"]
NETWORKS = ["layer_norm", "residual_layer_norm", "rms_norm", "attention", "dropout_add", "linear"]
LOSSES = ["mse_loss", "l1_loss", "cross_entropy", "linear_cross_entropy", "binary_cross_entropy_with_logits"]


@pytest.mark.parametrize("kind", [np.uint8, np.int64, bool])
@pytest.mark.parametrize("name", [*SMOOTH, *NETWORKS, *LOSSES, "linear_activation", "norm"])
def test_integers_become_float64_where_differences_would_wrap_around_or_results_be_truncated(name, kind) -> None:
    spec = CATALOGUE[name]
    for sample in spec.samples(np.random.default_rng(0), count=8):
        wanted = [i for i in sample.differentiable or () if isinstance(sample.args[i], np.ndarray)]
        args = list(sample.args)
        for i in wanted:
            args[i] = np.abs(3 * args[i]).astype(kind)
        if name == "cross_entropy" and len(wanted) > 1:
            continue  # integer targets mean class ids
        whole = spec.function(*args, **sample.kwargs)
        for i in wanted:
            args[i] = args[i].astype(np.float64)
        real = spec.function(*args, **sample.kwargs)
        for a, b in zip(*(out if isinstance(out, tuple) else (out,) for out in (whole, real)), strict=True):
            assert a.dtype == np.float64
            np.testing.assert_allclose(a.data, b.data, rtol=1e-12)


def test_integers_of_numpy_where_the_catalogue_draws_none() -> None:
    x, two = Tensor(np.arange(12.0).reshape(2, 6), requires_grad=True), np.int64(2)
    assert [part.shape for part in ops.split(x, two, axis=np.int64(1))] == [(2, 3), (2, 3)]
    assert ops.tile(x, two).shape == (2, 12)
    assert ops.repeat(x, np.uint8(2)).shape == (24,)
    assert ops.repeat(x[:0], [], axis=0).shape == (0, *x.shape[1:])
    assert ops.tensordot(x, x, axes=two).item() == ops.sum(x * x).item()
    assert ops.broadcast_to(np.float32(1), np.int64(3)).shape == ops.broadcast_to(1.0, 3).shape == (3,)
    assert ops.stack([1, x[0, 2]]).data.tolist() == [*ops.reshape(1.0, 1).data, *ops.expand_dims(2, 0).data] == [1, 2]
    assert ops.moveaxis(x, [0, 1], [1, 0]).shape == ops.transpose(x, np.array([1, 0])).shape == (6, 2)
    assert ops.roll(x, [1, 2], (0, 1)).data[1, 2] == 0
    assert ops.norm(x, ord=np.int64(3), axis=0).data[0] == pytest.approx(6)
    flat = x.reshape(np.int64(12))
    assert (flat.transpose(np.int64(0)).shape, flat[two].item(), x.transpose(None).shape) == ((12,), 2, (6, 2))
    ops.roll(x, [1, 2], (0, 1)).backward(np.ones((2, 6)))


def test_subclasses_of_arrays_mean_their_numbers() -> None:
    """For np.matrix, * would be the matrix product."""
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]]).view(np.matrix)  # np.matrix itself warns that it is deprecated
    for square in (ops.multiply(matrix, matrix), Tensor(matrix) * matrix, Tensor(matrix) ** 2):
        assert type(square.data) is np.ndarray
        assert square.data.tolist() == [[1, 4], [9, 16]]
    assert ops.sum(matrix, axis=0).shape == (2,)
    x = Tensor(matrix, requires_grad=True)
    x.grad, y = matrix, x * matrix
    y.register_hook(lambda g: g.view(np.matrix))
    (y * matrix).backward(matrix)
    assert (type(x.grad), x.grad.tolist()) == (np.ndarray, [[2, 10], [30, 68]])  # x + x^3
    masked = np.ma.array([0, 1], mask=[True, False])
    calls: list[Any] = [Tensor, ops.sum, x[0].backward, lambda m: Tensor(np.ones(2)) * m, lambda ids: ops.take(x, ids)]
    calls += [lambda target: ops.cross_entropy(x, target), lambda w: ops.cross_entropy(x, [0, 1], weight=w)]
    for call in calls:
        with pytest.raises(TypeError, match="masked array would lose its mask"):
            call(masked)
