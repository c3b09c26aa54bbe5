"""New tensors: constants, float32 by default, and random numbers of the default generator; PyTorch's `gather`."""

from typing import Any

import numpy as np

from ...kinds import checked_op
from ..arguments import integers
from ..backend import as_array, device_of, is_array
from ..random import Generator, default_generator
from ..tensor import Tensor, array_of, constant_array, shape_of
from ..torch_names import one_or_many
from .indexing import getitem, take_along_axis
from .joining import concatenate
from .reduction import normalized_axes
from .registry import declare
from .shape import to_device

cat = concatenate


def _shape(name: str, sizes: tuple[Any, ...]) -> tuple[int, ...]:
    shape = tuple(np.atleast_1d(integers(f"{name}: sizes", one_or_many(sizes))).tolist())
    if any(size < 0 for size in shape):
        raise ValueError(f"{name}: sizes can't be negative: {shape}")
    return shape


@checked_op
def zeros(*sizes: Any, dtype: Any = np.float32, requires_grad: bool = False) -> Tensor:
    """Return zeros: zeros(2, 3) or zeros((2, 3))."""
    return Tensor(np.zeros(_shape("zeros", sizes), dtype), requires_grad)


@checked_op
def ones(*sizes: Any, dtype: Any = np.float32, requires_grad: bool = False) -> Tensor:
    """Return ones: ones(2, 3) or ones((2, 3))."""
    return Tensor(np.ones(_shape("ones", sizes), dtype), requires_grad)


@checked_op
def full(shape: Any, value: float, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor in which each element is `value`: float32 for a float, int64 for an integer, as in PyTorch."""
    dtype = dtype or (np.int64 if isinstance(value, int) else np.float32)
    return Tensor(np.full(_shape("full", (shape,)), value, dtype), requires_grad)


@checked_op
def arange(start: float, stop: float | None = None, step: float = 1, *, dtype: Any = None) -> Tensor:
    """Return the numbers from `start` (0 if only one number is given) to `stop`, exclusive: int64 if all are integers,
    else float32. Raises ValueError for a step of 0.
    """
    start, stop = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ValueError("arange: step can't be 0")
    whole = all(isinstance(number, int) for number in (start, stop, step))
    return Tensor(np.arange(start, stop, step).astype(dtype or (np.int64 if whole else np.float32)))


@checked_op
def rand(*sizes: Any, dtype: Any = np.float32, generator: Generator | None = None) -> Tensor:
    """Draw from the uniform distribution on [0, 1)."""
    return Tensor((generator or default_generator).numpy.random(_shape("rand", sizes), np.float32).astype(dtype))


@checked_op
def randn(*sizes: Any, dtype: Any = np.float32, generator: Generator | None = None) -> Tensor:
    """Draw from the standard normal distribution."""
    return Tensor((generator or default_generator).numpy.standard_normal(_shape("randn", sizes)).astype(dtype))


def rand_like(x: Any, *, dtype: Any = None, generator: Generator | None = None) -> Tensor:
    """Return `rand` of x's shape, device and dtype, or another floating `dtype`; no gradient flows through it."""
    return _like("rand_like", rand, x, dtype, generator)


def randn_like(x: Any, *, dtype: Any = None, generator: Generator | None = None) -> Tensor:
    """Return `randn` of x's shape, device and dtype, or another floating `dtype`; no gradient flows through it."""
    return _like("randn_like", randn, x, dtype, generator)


def _like(name: str, draw: Any, x: Any, dtype: Any, generator: Any) -> Tensor:
    array = array_of(x) if is_array(array_of(x)) else as_array(x, name)
    dtype = np.dtype(array.dtype if dtype is None else dtype)
    if dtype.kind != "f":
        raise TypeError(f"{name}: {dtype} has no fractions: give dtype, for example dtype='float32'")
    drawn = draw(shape_of(x), dtype=dtype, generator=generator)
    return drawn if isinstance(array, np.ndarray) else to_device(drawn, device_of(array))


@checked_op
def randint(low: int, high: Any, size: Any = None, *, generator: Generator | None = None) -> Tensor:
    """Draw integers from `low` (0 if it is left out) to `high`, exclusive. Raises ValueError unless low < high."""
    low, high, size = (0, low, high) if size is None else (low, high, size)
    bound = int(integers("randint: high", high))
    return Tensor((generator or default_generator).numpy.integers(low, bound, _shape("randint", (size,))))


@checked_op
def multinomial(
    probabilities: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Draw indices (..., num_samples) from distributions (..., classes), whose weights need not sum to 1.

    Raises ValueError for weights that are negative, not finite or all 0 in a row, or if there are too few of them to
    draw without replacement.
    """
    weights = np.asarray(constant_array(probabilities, "multinomial: probabilities"), np.float64)
    rows, numpys = weights.reshape(-1, weights.shape[-1]), (generator or default_generator).numpy
    if not (np.isfinite(rows).all() and (rows >= 0).all() and rows.any(axis=1).all()):
        raise ValueError("multinomial: the weights of each row must be finite, not negative and not all 0")
    if num_samples < 1 or (not replacement and num_samples > (rows > 0).sum(axis=1).min(initial=num_samples)):
        raise ValueError(f"multinomial: can't draw {num_samples} different classes from each row")
    drawn = [numpys.choice(len(row), num_samples, replacement, row / row.sum()) for row in rows]
    return Tensor(np.array(drawn, np.int64).reshape(*weights.shape[:-1], num_samples))


def _gather_reference(x: np.ndarray, axis: int, index: Any) -> np.ndarray:
    out, moved = np.empty(np.shape(index), x.dtype), np.moveaxis(x, axis, 0)
    for place in np.ndindex(out.shape):
        out[place] = moved[(index[place], *np.delete(place, axis))]
    return out


@declare(_gather_reference)
def gather(x: Any, axis: int, index: Any) -> Tensor:
    """Compute out[i, j, k] = x[i, index[i, j, k], k] (for axis 1), for an index that is at most as large as x along the
    other axes. Unlike in `take_along_axis`, axes do not broadcast. Raises ValueError for an index of another form.
    """
    shape, index = shape_of(x), integers("gather: index", index)
    (axis,) = normalized_axes(axis, len(shape))
    part = tuple(slice(None) if a == axis else slice(size) for a, size in enumerate(index.shape))
    if index.ndim != len(shape) or any(size > shape[a] and a != axis for a, size in enumerate(index.shape)):
        raise ValueError(f"gather: an index of shape {index.shape} does not fit x of shape {shape}")
    return take_along_axis(getitem(x, part), index, axis)
