"""Leaf tensors, and numerical derivatives to compare gradients with."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from handloom.autograd import Tensor
from handloom.nn import Module

STEP = 1e-3  # of the five-point formula: truncation and rounding errors are both about 1e-12 with this step


def leaf(values: Any, dtype: Any = np.float64) -> Tensor:
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


class Computed(Module):
    """A function of a model, as a module with the model's parameters: `gradcheck` varies only parameters of modules."""

    def __init__(self, model: Module, function: Callable[..., Tensor]):
        self.model, self.forward = model, function


def as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def called(function: Any, args: Sequence[Any], places: Sequence[int], options: Any) -> tuple[list[Tensor], Any]:
    """Call an op with leaves of the arrays at `places`. Return the leaves and a tuple of the outputs."""
    leaves = {place: Tensor(args[place], requires_grad=True) for place in places}
    return list(leaves.values()), as_tuple(function(*(leaves.get(i, a) for i, a in enumerate(args)), **options))


def contracted(function: Callable[..., Any], cotangents: Sequence[np.ndarray]) -> Callable[..., Any]:
    """Return a function that computes a number, the sum of output times cotangent over all floating point outputs."""

    def number(*args: Any) -> Any:
        outputs = [out for out in map(np.asarray, as_tuple(function(*args))) if out.dtype.kind in "fc"]
        return sum((g * out).sum() for g, out in zip(cotangents, outputs, strict=True))

    return number


def _replaced(args: Sequence[Any], position: int, array: np.ndarray) -> list[Any]:
    return [*args[:position], array, *args[position + 1 :]]


def complex_step(number: Callable[..., Any], args: Sequence[Any], position: int) -> np.ndarray:
    """Return d number / d args[position] of an analytic function as Im f(x + ih) / h, which is exact up to rounding.

    Squire and Trapp 1998, SIAM Review 40, page 110.
    """
    x = args[position]
    gradient = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        stepped = x.astype(complex)
        stepped[index] += 1e-30j
        gradient[index] = number(*_replaced(args, position, stepped)).imag / 1e-30
    return gradient


def five_point(number: Callable[[float], float]) -> float:
    """Return the derivative of `number` at 0, with an error of fourth order in STEP."""
    return (8 * (number(STEP) - number(-STEP)) - (number(2 * STEP) - number(-2 * STEP))) / (12 * STEP)


def difference_quotient(number: Callable[..., Any], args: Sequence[Any], position: int) -> np.ndarray:
    """Return d number / d args[position] by the five-point formula, for a smooth function of real numbers only."""
    x = args[position]
    gradient = np.zeros(x.shape)
    for index in np.ndindex(x.shape):

        def along(t: float, index: tuple[int, ...] = index) -> float:
            stepped = x.copy()
            stepped[index] += t
            return float(number(*_replaced(args, position, stepped)))

        gradient[index] = five_point(along)
    return gradient
