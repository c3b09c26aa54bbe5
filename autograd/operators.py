"""Arithmetic and NumPy's methods on tensors: each method calls the op of the same name. NumPy's and CuPy's arrays have
these methods too, so a backward rule that uses them works for arrays and tensors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # the ops import this package; `bind` passes them in
    from . import ops as _ops
    from .tensor import Tensor


Method = Callable[[Any, Any], Any]


def _methods(op: str) -> tuple[Any, Method, Method]:
    """Return the methods of an operator: for `x + y` with a Tensor x, for `y + x` with another y, and for `x += y`."""

    def reflected(self: Any, other: Any) -> Tensor:
        return getattr(_ops, op)(other, self)

    def in_place(self: Any, other: Any) -> Tensor:
        return self._update(getattr(_ops, op), other)

    return next(called(op)), reflected, in_place


class _Op(str):
    """The name of an op, which replaces it as a method as soon as the ops exist: see `bind`."""


def called(names: str) -> Iterator[Callable[..., Tensor]]:
    """Yield a method for each op, which calls it on the tensor."""
    named: Any = map(_Op, names.split())
    return named


class Operators:
    """The operators and NumPy methods of `Tensor`."""

    __slots__ = ()

    # -- moving and casting ----------------------------------------------------------------------------------------

    def to(self, device: str) -> Tensor:
        """Return the tensor on `device` ("cpu", "cuda", "cuda:N"). The gradient is moved back."""
        return _ops.to_device(self, device)

    def astype(self, dtype: Any) -> Tensor:
        """Cast to another dtype. The gradient is cast back. A cast to integers or booleans has no gradient."""
        return _ops.astype(self, dtype)

    # -- arithmetic ------------------------------------------------------------------------------------------------

    __add__, __radd__, __iadd__ = _methods("add")
    __sub__, __rsub__, __isub__ = _methods("subtract")
    __mul__, __rmul__, __imul__ = _methods("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _methods("divide")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _methods("floor_divide")
    __mod__, __rmod__, __imod__ = _methods("remainder")
    __pow__, __rpow__, __ipow__ = _methods("power")
    __matmul__, __rmatmul__, __imatmul__ = _methods("matmul")

    def __neg__(self) -> Tensor:
        return _ops.negative(self)

    def __pos__(self: Any) -> Tensor:
        return self.copy()  # as in NumPy: elements that are set in it are its own

    def __abs__(self) -> Tensor:
        return _ops.abs(self)

    # -- NumPy's methods -------------------------------------------------------------------------------------------

    sum, mean, max, min, prod, var, std = called("sum mean max min prod var std")
    argmax, argmin, cumsum, clip, dot = called("argmax argmin cumsum clip dot")
    take, repeat, squeeze, flatten, swapaxes = called("take repeat squeeze ravel swapaxes")

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


def bind(ops: ModuleType, *classes: type) -> None:
    """Give the methods of these classes access to the ops, which their modules can't import: the ops import Tensor."""
    for owner in classes:
        vars(sys.modules[owner.__module__])["_ops"] = ops
        for name, value in list(vars(owner).items()):
            if isinstance(value, _Op):
                setattr(owner, name, getattr(ops, value))
