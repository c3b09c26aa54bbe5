"""Arithmetic and NumPy's methods on tensors: each method calls the op of the same name. NumPy's and CuPy's arrays have
these methods too, so a backward rule that uses them works for arrays and tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # the ops import this package; `bind` passes them in
    from . import ops as _ops
    from .tensor import Tensor

Method = Callable[..., Any]


def _method(op: str) -> Method:
    """Return the method that calls an op: `x.sum(axis=0)` is `ops.sum(x, axis=0)`."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        return getattr(_ops, op)(self, *args, **kwargs)

    call.__doc__ = f"Return ops.{op} of this tensor; see its docstring."
    return call


def _methods(op: str) -> tuple[Method, Method, Method]:
    """Return the methods of an operator: for `x + y` with a Tensor x, for `y + x` with another y, and for `x += y`."""

    def forward(self: Any, other: Any) -> Tensor:
        return getattr(_ops, op)(self, other)

    def reflected(self: Any, other: Any) -> Tensor:
        return getattr(_ops, op)(other, self)

    def in_place(self: Any, other: Any) -> Tensor:
        return self._update(getattr(_ops, op), other)

    return forward, reflected, in_place


class Operators:
    """The operators and NumPy methods of `Tensor`."""

    __slots__ = ()

    # -- arithmetic ------------------------------------------------------------------------------------------------

    __add__, __radd__, __iadd__ = _methods("add")
    __sub__, __rsub__, __isub__ = _methods("subtract")
    __mul__, __rmul__, __imul__ = _methods("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _methods("divide")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _methods("floor_divide")
    __mod__, __rmod__, __imod__ = _methods("remainder")
    __pow__, __rpow__, __ipow__ = _methods("power")
    __matmul__, __rmatmul__, __imatmul__ = _methods("matmul")

    __neg__, __abs__ = map(_method, ("negative", "abs"))

    def __pos__(self: Any) -> Tensor:
        return self.copy()  # as in NumPy: elements that are set in it are its own

    # -- NumPy's methods ---------------------------------------------------------------------------------------------

    to, astype, flatten = map(_method, ("to_device", "astype", "ravel"))
    sum, mean, max, min, prod, var, std = map(_method, ("sum", "mean", "max", "min", "prod", "var", "std"))
    argmax, argmin, cumsum, clip, dot = map(_method, ("argmax", "argmin", "cumsum", "clip", "dot"))
    take, repeat, squeeze, swapaxes = map(_method, ("take", "repeat", "squeeze", "swapaxes"))

    def reshape(self, *shape: Any) -> Tensor:
        return _ops.reshape(self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Tensor:
        one = len(axes) == 1 and not isinstance(axes[0], int | np.integer)
        return _ops.transpose(self, axes[0] if one else axes or None)

    @property
    def T(self) -> Tensor:  # noqa: N802  (NumPy's name)
        return _ops.transpose(self)

    @property
    def mT(self) -> Tensor:  # noqa: N802
        """The tensor with its last two axes exchanged, as in NumPy 2."""
        return _ops.swapaxes(self, -1, -2)


def bind(ops: ModuleType) -> None:
    """Give the methods access to the ops, which this module can't import because the ops import Tensor."""
    globals().update(_ops=ops)
