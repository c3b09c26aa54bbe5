"""Elementwise arithmetic, with NumPy's broadcasting.

In each `backward`, `g` is the gradient of the loss at the op's output, d(loss)/d(output), and the result is the
gradient at its inputs. The base class sums the gradient over broadcast axes.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..backend import array_module, as_array
from ..function import Function
from ..operands import weaken
from ..tensor import Tensor, array_of, only_python_numbers
from .registry import declare


class Add(Function):
    broadcasts = True

    def forward(self, x, y):
        return x + y

    def backward(self, g):
        return g, g


@declare(np.add)
def add(x: Any, y: Any) -> Tensor:
    """Compute x + y, elementwise."""
    return Add()(x, y)


class Subtract(Function):
    broadcasts = True

    def forward(self, x, y):
        return x - y

    def backward(self, g):
        return g, -g if self.needs[1] else None


@declare(np.subtract)
def subtract(x: Any, y: Any) -> Tensor:
    """Compute x - y, elementwise."""
    return Subtract()(x, y)


class Multiply(Function):
    broadcasts = True

    def forward(self, x, y):
        # A Python number gets no gradient, so the other factor is not needed.
        self.save(None if type(y) is float else x, None if type(x) is float else y)
        return x * y

    def backward(self, g):
        x, y = self.saved
        needs_x, needs_y = self.needs
        return g * y if needs_x else None, g * x if needs_y else None


@declare(np.multiply)
def multiply(x: Any, y: Any) -> Tensor:
    """Compute x * y, elementwise."""
    return Multiply()(x, y)


class Divide(Function):
    """q = x / y; dx = g / y, dy = -(g q) / y. (y^2 can underflow and 1 / y overflow.)"""

    broadcasts = True
    float16 = "widened"

    def forward(self, x, y):
        self.save(x, y)
        return x / y

    def backward(self, g):
        x, y = self.saved
        needs_x, needs_y = self.needs
        return g / y if needs_x else None, -(g * (x / y)) / y if needs_y else None


@declare(np.divide)
def divide(x: Any, y: Any) -> Tensor:
    """Compute x / y, elementwise. Integers give float64, as in NumPy."""
    return Divide()(x, y)


class Power(Function):
    """x**y; dx = g y x**(y-1), dy = g x**y log x. dx is 0 where y = 0, and dy is 0 where x = 0 and y >= 0. 0**-1 and
    its derivative are infinite.
    """

    broadcasts = True
    float16 = "widened"

    def forward(self, x, y):
        self.save(x, y)
        return raised(x, y)

    def backward(self, g):
        x, y = self.saved
        xp = array_module(g)
        needs_x, needs_y = self.needs
        gradient_x = gradient_y = None
        if needs_x:
            gradient_x = g * _power_slope(x, y, xp)
        if needs_y:
            zero = (array_of(x) == 0) & (array_of(y) >= 0)
            logarithm = xp.log(xp.where(zero, 1.0, x)).astype(g.dtype)  # of a Python number it is float64
            gradient_y = g * xp.where(zero, 0.0, x**y * logarithm)
        return gradient_x, gradient_y


def raised(x: Any, y: Any) -> Any:
    """Return x**y. NumPy computes a third or fourth power as any power, which takes thirty times as long."""
    if type(y) in (int, float) and y in (3, 4) and isinstance(x, np.ndarray) and x.dtype.kind == "f":
        square = x * x
        return square * x if y == 3 else square * square
    return x**y


def _power_slope(x: Any, y: Any, xp: Any) -> Any:
    """Compute y x**(y-1). The result is 0 where y = 0, even if x = 0 and x**(y-1) is infinite."""
    if isinstance(y, int | float):
        return y * (x if y == 2 else raised(x, y - 1)) if y else xp.zeros_like(x)
    constant = array_of(y) == 0
    return xp.where(constant, 0.0, y * x ** xp.where(constant, 1.0, y - 1).astype(x.dtype))


@declare(np.power)
def power(x: Any, y: Any) -> Tensor:
    """Raise x to the power y, elementwise."""
    return Power()(x, y)


class Elementwise(Function):
    """A function of one argument, whose class `elementwise` creates from the function's rules."""

    value: ClassVar[Any]
    of_numpy: ClassVar[Any] = None  # NumPy's function, which is the value for an array on the CPU
    gradient: ClassVar[Any]
    needed: ClassVar[slice]  # of (x, y)

    def forward(self, x):
        xp = array_module(x)
        y = self.of_numpy(x) if xp is np and self.of_numpy is not None else self.value(x, xp)
        self._saved = (x, y)[self.needed]  # as `save` does; for small arrays, the time of the call would matter
        return y

    def backward(self, g):
        (value,) = self.saved or (None,)
        return self.gradient(g, value, array_module(g))


def elementwise(
    name: str,
    saved: str,
    gradient: Callable[[Any, Any, Any], Any],
    text: str,
    *,
    value: Callable[[Any, Any], Any] | None = None,
    reference: Callable[..., Any] | None = None,
) -> Callable[[Any], Tensor]:
    """Create the public elementwise function y = f(x) from its backward rule.

    Args:
        name: the name of the call in a graph; the function's name is the same in lower case.
        saved: the value that the gradient needs, "x", "y" or "".
        gradient: function (g, saved, xp) -> dx, from the gradient g of y; for Tensors it is recorded.
        text: the docstring of the function.
        value: function (x, xp) -> y of an array x of the namespace xp; by default the function of this name in xp.
        reference: see `declare`; by default NumPy's function of this name.
    """
    own = name.lower()
    of_numpy: Any = getattr(np, own, None)
    needed = {"x": slice(0, 1), "y": slice(1, 2), "": slice(0)}[saved]
    rules = {"gradient": staticmethod(gradient), "needed": needed}
    if value is None:
        value, rules["of_numpy"] = lambda x, xp: getattr(xp, own)(x), staticmethod(of_numpy)
    rules["value"] = staticmethod(value)
    kind: Any = type(name, (Elementwise,), {**rules, "__doc__": text, "__module__": gradient.__module__})

    def function(x: Any) -> Tensor:
        return kind()(x)

    function.__name__ = function.__qualname__ = own
    function.__doc__, function.__module__ = text, gradient.__module__
    vars(function).update(kind=kind, gradient=gradient)  # for code that plants a mistake or shows the rule
    return declare(reference or of_numpy)(function)


def no_slope(g: Any, _: Any, xp: Any) -> Any:
    """Compute the gradient of a function that is constant between its jumps."""
    return xp.zeros_like(g)


reciprocal = elementwise(
    "Reciprocal", "y", lambda g, y, xp: -g * y * y,
    "1 / x, elementwise. Integers give float64 (NumPy's function truncates them).",
    value=lambda x, xp: 1.0 / x, reference=lambda x: np.divide(1.0, x),
)  # fmt: skip
negative = elementwise("Negative", "", lambda g, _, xp: -g, "-x.", value=lambda x, xp: -x)
# (2 * g) * x may overflow where 2 * (g * x) doesn't.
square = elementwise("Square", "x", lambda g, x, xp: 2 * (g * x), "x * x.", value=lambda x, xp: x * x)
# np.abs as the reference is not analytic, as complex-step derivatives require.
abs = elementwise(
    "Abs", "x", lambda g, x, xp: g * xp.sign(x), "Absolute value, elementwise; the gradient at 0 is 0.",
    reference=lambda x: np.where(np.real(x) > 0, x, -x),
)  # fmt: skip
sign = elementwise("Sign", "", no_slope, "-1, 0 or 1, elementwise; the gradient is 0 everywhere.")
floor = elementwise("Floor", "", no_slope, "The largest integer not above x; the gradient is 0 everywhere.")
ceil = elementwise("Ceil", "", no_slope, "The smallest integer not below x; the gradient is 0 everywhere.")
trunc = elementwise("Trunc", "", no_slope, "x without its fraction; the gradient is 0 everywhere.")
rint = elementwise("Rint", "", no_slope, "The nearest integer, halves to even; the gradient is 0 everywhere.")


class Round(Function):
    def __init__(self, decimals):
        self.decimals = decimals

    def forward(self, x):
        return array_module(x).round(x, self.decimals)

    def backward(self, g):
        return array_module(g).zeros_like(g)


@declare(np.round)
def round(x: Any, decimals: int = 0) -> Tensor:
    """Round x to `decimals` decimals, with halves to even. The gradient is 0 everywhere."""
    return Round(decimals)(x)


class FloorDivide(Function):
    """floor(x / y), with gradients of 0 everywhere, since the function is constant between its jumps."""

    broadcasts = True

    def forward(self, x, y):
        return x // y

    def backward(self, g):
        zeros = array_module(g).zeros_like(g)
        return tuple(zeros if needed else None for needed in self.needs)


@declare(np.floor_divide)
def floor_divide(x: Any, y: Any) -> Tensor:
    """Return the largest integer not above x / y, elementwise. The gradients are 0 everywhere."""
    return FloorDivide()(x, y)


class Remainder(Function):
    """x - y floor(x / y); dx = g, dy = -g floor(x / y)."""

    broadcasts = True

    def forward(self, x, y):
        self.save(x, y)
        return x % y

    def backward(self, g):
        x, y = map(array_of, self.saved)
        return g, -g * (x // y) if self.needs[1] else None


@declare(np.remainder)
def remainder(x: Any, y: Any) -> Tensor:
    """Compute x mod y with the sign of y, elementwise."""
    return Remainder()(x, y)


class AsType(Function):
    float16 = "mixed"

    def __init__(self, dtype):
        try:
            self.dtype = np.dtype("V" if dtype is None else dtype).newbyteorder("=")
        except TypeError:
            self.dtype = np.dtype("V")
        if self.dtype.kind not in "fiubc":
            raise TypeError(f"astype: dtype must be the dtype of numbers, not {dtype!r:.60}")

    def forward(self, x):
        self.input_dtype = x.dtype
        return x.astype(self.dtype)

    def backward(self, g):
        return g.astype(self.input_dtype)


@declare(lambda x, dtype: x.astype(dtype))
def astype(x: Any, dtype: Any) -> Tensor:
    """Cast to `dtype`; the gradient is cast back. The result of a cast to integers or booleans has no gradient."""
    return AsType(dtype)(x)


def promoted(*operands: Any) -> tuple[Any, ...]:
    """Convert the operands (None stays None) to their common dtype by NumPy's rules.
    Integers and booleans become float64. Single numbers are weak, as in arithmetic, and so are nested lists of Python's
    numbers.

    This is for ops whose implementations require operands of a single floating dtype. The gradient of a cast operand is
    cast back.
    """
    first = getattr(operands[0], "dtype", np.dtype(object))
    if first.kind == "f":
        for x in operands:
            if x is not None and getattr(x, "dtype", 0) != first:  # a dtype equals None if it is float64
                break
        else:
            return operands
    known = (np.generic, int, float, type(None))
    weak = [isinstance(x, list | tuple) and only_python_numbers(x) for x in operands]
    operands = tuple(x if isinstance(x, known) or hasattr(x, "dtype") else as_array(x, "operands") for x in operands)
    given = [
        x.dtype.type(0).item() if is_weak and x.dtype.kind in "iubfc" else array_of(x)
        for x, is_weak in zip(operands, weak, strict=True)
        if x is not None
    ]
    weaken(given)
    dtype = np.result_type(*(getattr(x, "dtype", x) for x in given))
    dtype = np.dtype(np.float64) if dtype.kind in "iub" else dtype
    operands = tuple(np.asarray(x) if isinstance(x, int | float) else x for x in operands)
    return tuple(x if x is None or x.dtype == dtype else astype(x, dtype) for x in operands)


def zeros_like(x: Any) -> Tensor:
    """Return zeros of x's shape and dtype; no gradient flows through them."""
    x = array_of(x)
    return Tensor(array_module(x).zeros_like(x))


def ones_like(x: Any) -> Tensor:
    """Return ones of x's shape and dtype; no gradient flows through them."""
    x = array_of(x)
    return Tensor(array_module(x).ones_like(x))
