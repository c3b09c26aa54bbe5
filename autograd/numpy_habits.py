"""NumPy's functions and methods for tensors. Those that don't work raise an error that names an alternative.

NumPy's functions accept a tensor that does not require a gradient. They raise an error if a gradient would be lost.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .backend import array_module, is_array

if TYPE_CHECKING:
    from .tensor import Tensor

#: NumPy's aliases of functions that handloom has.
_ALIASES = {"amax": "max", "amin": "min", "around": "round", "round_": "round", "concat": "concatenate"}
_IN_PLACE = {"fill", "partition", "put", "resize", "setfield"}


def _bitwise(symbol: str, function: Callable[..., Any]) -> tuple[Callable[..., Tensor], ...]:
    """Return the methods of an operator: for `x & y` with a Tensor x, for `y & x` with another y, and for `x &= y`."""

    def method(self: Any, other: Any) -> Tensor:
        return self._bitwise(symbol, function, self, other)

    def in_place(self: Any, other: Any) -> Tensor:
        return self._update(function, other)

    return method, method, in_place


class NumPyHabits:
    """The part of `Tensor` for compatibility with NumPy."""

    __slots__ = ()
    # `array + tensor` goes to Tensor.__radd__ instead of looping over the elements. (An `__array_ufunc__` of None would
    # do that too, but then NumPy's own message for np.exp(tensor) does not say what to write.)
    __array_priority__ = 1000.0

    if TYPE_CHECKING:
        data: Any
        requires_grad: bool
        detach: Callable[[], Tensor]
        _update: Callable[..., Tensor]

    # -- NumPy's functions -----------------------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.requires_grad:
            raise TypeError(
                "a Tensor that requires a gradient is not converted to a NumPy array implicitly: the gradient would be "
                "lost; write ops.exp(x) for np.exp(x), ops.stack(list) for np.array(list), or x.numpy() if you need "
                "only the values"
            )
        array = np.array(self.data, dtype=dtype, copy=copy)
        if array is self.data:
            array = array[...]  # writes to it would not be noticed
            array.flags.writeable = False
        return array

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        wanted: list[bool] = []
        result = function(*_as_arrays(args, wanted), **_as_arrays(kwargs, wanted))
        if any(wanted) and not _is_discrete(result):
            path = f"{function.__module__}.{function.__name__}".replace("numpy", "np", 1)
            instead = _op_named(_ALIASES.get(function.__name__, function.__name__), self)
            raise TypeError(
                f"{path} does not compute gradients, so the Tensor's gradient would be lost: write "
                f"{instead or 'functions of handloom.autograd.ops'}, or pass x.numpy() if you need only the values"
            )
        return result

    # -- integers and booleans, which have no gradient ----------------------------------------------------------------

    # The order of the operands does not matter.
    __and__, __rand__, __iand__ = _bitwise("&", operator.and_)
    __or__, __ror__, __ior__ = _bitwise("|", operator.or_)
    __xor__, __rxor__, __ixor__ = _bitwise("^", operator.xor)

    def __invert__(self) -> Tensor:
        return self._bitwise("~", operator.invert, self)

    def _bitwise(self, symbol: str, function: Callable[..., Any], *operands: Any) -> Tensor:
        arrays = [operand.data if isinstance(operand, NumPyHabits) else operand for operand in operands]
        arrays = [np.asarray(array) if isinstance(array, list | tuple) else array for array in arrays]
        for array in arrays:
            if np.result_type(array).kind not in "biu":
                raise TypeError(
                    f"{symbol} needs booleans or integers, not {np.result_type(array)}: compare first, as in "
                    "(x > 0) & (y > 0)"
                )
        return self._constant(function(*arrays))

    def any(self, axis: Any = None, keepdims: bool = False, *, dim: Any = None, keepdim: bool = False) -> Tensor:
        """Return True where any element along `axis` differs from 0, else False."""
        axis = dim if axis is None else axis
        return self._constant(self.data.any(axis=axis, keepdims=keepdims or keepdim))

    def all(self, axis: Any = None, keepdims: bool = False, *, dim: Any = None, keepdim: bool = False) -> Tensor:
        """Return True where all elements along `axis` differ from 0, else False."""
        axis = dim if axis is None else axis
        return self._constant(self.data.all(axis=axis, keepdims=keepdims or keepdim))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __index__(self) -> int:
        array = self.data
        if array.ndim or array.dtype.kind not in "iu":
            raise TypeError(f"only a 0-d integer Tensor can be used as an index, not {array.dtype}{list(array.shape)}")
        return int(array)

    def _constant(self, array: Any) -> Tensor:
        made = self.detach()
        made.data = array if is_array(array) else np.asarray(array)  # a reduction of NumPy's gives a scalar
        return made

    # -- rounding and text ------------------------------------------------------------------------------------------

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def round(self, decimals: int = 0) -> Tensor:
        return array_module(self).round(self, decimals)

    def __round__(self, decimals: int | None = None) -> Tensor:
        return self.round(decimals or 0)

    def __format__(self, form: str) -> str:
        if not form:
            return str(self)
        if self.data.ndim:
            raise TypeError(
                f"format: {form!r} formats one number, not a Tensor of shape {self.data.shape}: select an element, or "
                "write np.array2string(x.numpy(), precision=...)"
            )
        return format(self.data.item(), form)

    # -- more methods of NumPy's arrays -------------------------------------------------------------------------------

    def copy(self) -> Tensor:
        """Return a copy of the tensor in new memory; the gradient passes through the copy."""
        return array_module(self).astype(self, self.data.dtype)

    def ravel(self) -> Tensor:
        return array_module(self).ravel(self)

    def tolist(self) -> Any:
        return self.data.tolist()


class Missing:
    """An attribute that arrays of NumPy or PyTorch have and tensors lack. Access to it raises AttributeError with an
    alternative. (A `__getattr__` would also work, but would make access to every other attribute slower.)
    """

    def __init__(self, name: str, instead: str = ""):
        self.name, self.instead = name, instead

    def __get__(self, tensor: Any, kind: type) -> Any:
        instead = f"write x.numpy().{self.name} if you need only the values"
        if self.instead:
            instead = f"write {self.instead}"
        elif self.name in _IN_PLACE:
            instead = "assign elements by x[...] = y"
        elif tensor is not None and (op := _op_named(self.name, tensor)):
            instead = f"write {op}"
        raise AttributeError(f"{kind.__name__!r} object has no attribute {self.name!r}: {instead}")


for _name in dir(np.ndarray):
    if _name[0] != "_" and _name not in vars(NumPyHabits):  # Tensor's own methods take precedence
        setattr(NumPyHabits, _name, Missing(_name))


def _op_named(name: str, tensor: NumPyHabits) -> str | None:
    """Return an expression that calls handloom's op `name`, or None if there is no such op."""
    return f"ops.{name}(x)" if callable(getattr(array_module(tensor), name, None)) else None


def _as_arrays(value: Any, wanted: list[bool]) -> Any:
    """Replace each tensor in arguments by a read-only array, and append the tensor's `requires_grad` to `wanted`."""
    if isinstance(value, NumPyHabits):
        wanted.append(value.requires_grad)
        array = value.data[...]
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
        return array
    if isinstance(value, list | tuple):
        parts = [_as_arrays(part, wanted) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, dict):
        return {name: _as_arrays(part, wanted) for name, part in value.items()}
    return value


def _is_discrete(result: Any) -> bool:
    """Return whether a function's result can't have a gradient, such as a shape, a comparison, an index or a text."""
    if isinstance(result, list | tuple):
        return all(map(_is_discrete, result))
    if is_array(result) or isinstance(result, np.generic):
        return result.dtype.kind in "biuSU"
    return isinstance(result, bool | int | str | np.dtype)
