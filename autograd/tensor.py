"""Tensor: an array and its origin.

Operations return values, not views: an operation never changes an array that another tensor could use. Indexing,
broadcasting and dtypes follow NumPy, and Python scalars are weakly typed (float32 * 2.0 is float32).
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from . import operators
from .backend import as_array, device_of, is_array, native, register_namespace, to_device
from .changes import changes
from .numpy_habits import NumPyHabits
from .operators import Operators
from .origin import Leaf, Origin, call_numbers, is_grad_enabled, leaf_lock
from .row_gradient import RowGradient, as_dense
from .torch_names import TorchNames

if TYPE_CHECKING:  # a Tensor's methods call modules that import this one; `bind` passes them in
    from . import engine as _engine
    from . import ops as _ops


def _comparison(compare: Callable[[Any, Any], Any]) -> operators.Method:
    def compared(self: Tensor, other: Any) -> Tensor:
        return Tensor(compare(self.data, array_of(other)))

    return compared


class HookHandle:
    """A registered hook; `remove()`, or a call, ends its calls."""

    def __init__(self, hook: Callable[..., Any], remove: Callable[[], Any]):
        self.hook, self._remove = hook, remove

    def remove(self) -> None:
        self._remove()

    __call__ = remove


class Tensor(Operators, TorchNames, NumPyHabits):
    """An array that records the operations on it, so that gradients can be computed.

    Args:
        data: a NumPy or CuPy array, a Tensor, a number, or nested lists of Tensors and numbers. An array is shared, not
            copied, unless its byte order is not native. Python floats become float32; arrays keep their dtype.
        requires_grad: whether to compute a gradient for this leaf. Only real floating-point arrays can have a gradient.

    Attributes:
        data: the array. The array of a recorded operation's result is read-only, since a backward rule can need it.
        grad: None, or an array of the tensor's shape and dtype, to which `backward` adds. An array assigned to `grad`
            is copied.
        grad_or_rows: the same gradient, as an array or, for the table of an embedding, as a `RowGradient`, which uses
            less memory.
        requires_grad: True for a leaf whose gradient is to be computed, and for every recorded result that depends on
            such a leaf.

    Raises TypeError for data that is not numeric, or for `requires_grad` on integers, booleans or complex numbers.
    """

    __slots__ = ("__weakref__", "_origin", "data", "grad_or_rows", "requires_grad")

    data: Any
    grad_or_rows: Any
    requires_grad: bool
    _origin: Origin | None

    def __init__(self, data: Any, requires_grad: bool = False, *, dtype: Any = None):
        if isinstance(data, Tensor):
            data = data.data[...]  # a separate view: the array object distinguishes two inputs of a call
        if not is_array(data):
            plain = only_python_numbers(data)
            data = as_array(data, "Tensor: data")
            if data.dtype == np.float64 and plain and dtype is None:
                data = data.astype(np.float32)
        if dtype is not None:
            data = data.astype(dtype, copy=False)
        data = native(data)
        if data.dtype.kind not in "fiubc":
            raise TypeError(f"Tensor: data of dtype {data.dtype} is not numeric")
        if requires_grad:
            _check_differentiable(data.dtype)
        self.data = data
        self.grad_or_rows = None
        self.requires_grad = requires_grad
        self._origin = None

    # -- properties ------------------------------------------------------------------------------------------------

    @property
    def grad(self) -> Any:
        gradient = self.grad_or_rows
        if isinstance(gradient, RowGradient):
            with leaf_lock:  # a backward pass in another thread may be adding to it
                gradient = self.grad_or_rows = as_dense(self.grad_or_rows)
        return gradient

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is None or value is self.grad_or_rows:  # x.grad *= 2 sets the same array again
            self.grad_or_rows = value
            return
        value = array_of(value)
        if not is_array(value) or value.shape != self.shape or value.dtype != self.dtype:
            kind = f"{value.dtype}{list(value.shape)}" if is_array(value) else type(value).__name__
            raise ValueError(
                f"the grad of a Tensor {self.dtype}{list(self.shape)} must have the same dtype and shape; it can't be "
                f"{kind}"
            )
        self.grad_or_rows = native(value).copy()  # passes add to it in place

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def size(self) -> int:
        return self.data.size

    @property
    def device(self) -> str:
        """The tensor's device, "cpu" or "cuda:N"."""
        return device_of(self.data)

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor is a leaf: True unless it is the recorded result of an operation."""
        return self._origin is None or self._origin.node is None

    @property
    def origin(self) -> Origin:
        """The origin of a tensor that requires a gradient. For a leaf, the origin is created on first access."""
        with leaf_lock:  # threads that first use a parameter at the same time must agree on one
            origin = self._origin
            if origin is None:
                origin = self._origin = Leaf(self)
            elif isinstance(origin, Leaf) and (origin.shape != self.data.shape or origin.dtype != self.data.dtype):
                # `data` was replaced by an array of another form; earlier recorded gradients don't fit it.
                renewed = self._origin = Leaf(self)
                renewed.number, renewed.hooks = origin.number, origin.hooks
                return renewed
            return origin

    def __repr__(self) -> str:
        kind = type(self).__name__
        text = np.array2string(np.asarray(to_device(self.data, "cpu")), separator=", ", prefix=f"{kind}(")
        device = "" if self.device == "cpu" else f", device='{self.device}'"
        node = "" if self.is_leaf else f", from={self.origin.node.name}"
        return f"{kind}({text}, dtype={self.dtype}{device}{', requires_grad=True' if self.requires_grad else ''}{node})"

    def _repr_html_(self) -> str:
        from ..notebook import tensor_html

        return tensor_html(self)

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("a 0-d Tensor has no len()")
        return self.data.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.data)

    def __float__(self) -> float:
        return float(self.data)

    def __int__(self) -> int:
        return int(self.data)

    def item(self) -> Any:
        """Return the value of a tensor with one element as a Python number."""
        return self.data.item()

    def numpy(self) -> np.ndarray:
        """Return the values as a NumPy array, which shares the memory of a tensor on the CPU."""
        return to_device(self.data, "cpu")

    # -- gradients -------------------------------------------------------------------------------------------------

    def backward(self, gradient: Any = None, *, retain_graph: bool = False) -> None:
        """Add the derivative of sum(gradient * self) to `.grad` of every leaf on which this tensor depends."""
        _engine.backward(self, gradient, retain_graph=retain_graph)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set whether a leaf requires a gradient. Raises RuntimeError for a recorded result."""
        if not self.is_leaf:
            raise RuntimeError("requires_grad can only be set on a leaf; use detach() to cut a result from its graph")
        if requires_grad:
            _check_differentiable(self.dtype)
        self.requires_grad = requires_grad
        return self

    def detach(self) -> Tensor:
        """Return a Tensor that is not part of the graph. It shares the values' memory with this tensor."""
        return Tensor(self)

    def register_hook(self, hook: Callable[[Any], Any]) -> HookHandle:
        """Call `hook(gradient)` when this tensor's gradient is complete, in every backward pass.

        The hook gets the gradient as a read-only array, or as a Tensor under create_graph. It can return a new gradient
        of the same shape and dtype, which replaces the old gradient. Hooks run in the order in which they were
        registered. `remove()` of the returned handle ends its calls. Raises RuntimeError if this tensor requires no
        gradient.
        """
        if not self.requires_grad:
            raise RuntimeError("register_hook: this tensor requires no gradient, so the hook would never be called")
        origin = self.origin
        # A result's hooks are stored in its call, since the origin of a saved output may be recreated.
        hooks = origin.hooks if isinstance(origin, Leaf) else origin.node.hooks_of(origin.slot)
        key = next(call_numbers)
        hooks[key] = hook
        return HookHandle(hook, lambda: hooks.pop(key, None))

    def mark_changed(self) -> None:
        """Record an in-place change of the array, after which a backward pass that needs old values raises an error."""
        changes.note(self.data)

    def __copy__(self) -> Tensor:
        return copy.deepcopy(self)  # as NumPy's arrays do: the numbers are copied

    def __getstate__(self) -> tuple[Any, Any, bool]:
        """Return the state for copy, deepcopy and pickle. A copy is a separate leaf in separate memory."""
        if not self.is_leaf:
            raise RuntimeError("the recorded result of an operation can't be copied with its graph: use detach()")
        return self.data, self.grad, self.requires_grad

    def __setstate__(self, state: tuple[Any, Any, bool]) -> None:
        self.data, self.grad_or_rows, self.requires_grad = state
        self._origin = None

    # -- comparisons -----------------------------------------------------------------------------------------------

    # They give boolean tensors, elementwise, and cut the graph. (So a Tensor hashes by identity.)

    __lt__, __le__ = _comparison(operator.lt), _comparison(operator.le)
    __gt__, __ge__ = _comparison(operator.gt), _comparison(operator.ge)
    __eq__, __ne__ = _comparison(operator.eq), _comparison(operator.ne)

    __hash__ = object.__hash__

    # -- indexing --------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Tensor:
        return _ops.getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Set elements at an index, as in NumPy.

        The tensor becomes the result of `setitem` on its old value and `value`: other references keep the old value,
        and both the old value and `value` get gradients. Only under `no_grad`, the array of a leaf that requires a
        gradient is changed in place. Raises RuntimeError where a gradient would be lost silently: for a leaf that
        requires a gradient while operations are recorded, and for a recorded result while they are not recorded.
        """
        self._refuse_to_lose_gradient("setting elements of", "set them", "x * 1, or use setitem(x, index, value)")
        if self.requires_grad and self.is_leaf:
            if isinstance(self.data, np.ndarray) and not self.data.flags.writeable:
                raise RuntimeError(
                    "the array of this tensor is read-only, since it is also that of a recorded result, for example: "
                    "change a copy, such as y.detach().copy()"
                )
            self.data[_ops.indexing.plain_index(index, self)] = array_of(value)
            self.mark_changed()
        else:
            self._become(_ops.setitem(self, index, value))

    def _refuse_to_lose_gradient(self, change: str, do: str, result: str) -> None:
        """Raise RuntimeError if a change in place would cut this tensor from its gradient or its graph."""
        if not self.requires_grad:
            return
        if self.is_leaf and is_grad_enabled():
            raise RuntimeError(
                f"{change} a leaf that requires a gradient would cut it from its own gradient: {do} under no_grad(), "
                f"or in a result of x such as {result}"
            )
        if not self.is_leaf and not is_grad_enabled():
            raise RuntimeError(
                f"{change} a recorded result under no_grad() would cut it from its graph: {do} outside no_grad(), or "
                "in x.detach()"
            )

    def _become(self, result: Tensor) -> None:
        """Become `result` for everyone who refers to this tensor. A graph that saved the old array keeps it."""
        self.data, self.requires_grad, self._origin = result.data, result.requires_grad, result._origin

    def _update(self, op: Callable[[Any, Any], Tensor], other: Any) -> Tensor:
        """Change this tensor by `x -= y`, and so on for other operators, as `__setitem__` does, and return it. The
        shape and the dtype stay. Under no_grad, the array of a leaf that requires a gradient, or of a Parameter, is
        changed in place.
        """
        self._refuse_to_lose_gradient("an update in place of", "update it", "y = x * 1")
        result = op(self, other)
        if result.shape != self.shape:
            raise ValueError(f"an update in place can't change the shape from {self.shape} to {result.shape}")
        if not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise TypeError(f"an update in place can't convert {result.dtype} to {self.dtype}: use astype first")
        if isinstance(self, Parameter) or (self.requires_grad and self.is_leaf):
            self[...] = result
        else:
            self._become(result if result.dtype == self.dtype else result.astype(self.dtype))
        return self


class Parameter(Tensor):
    """A leaf that belongs to a module and that an optimiser updates. A read-only array is copied."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True, *, dtype: Any = None):
        super().__init__(data, requires_grad, dtype=dtype)

    def __setattr__(self, name: str, value: Any) -> None:
        # A parameter is changed in place. The result of an op is read-only, and so is a scalar, which NumPy's
        # arithmetic makes of an array without axes.
        if name != "requires_grad" and isinstance(value, np.ndarray | np.generic) and not value.flags.writeable:
            value = np.array(value)
        super().__setattr__(name, value)


def _check_differentiable(dtype: np.dtype) -> None:
    if dtype.kind != "f":
        raise TypeError(f"a tensor of {dtype} can't require a gradient: use a real floating dtype: .astype('float32')")


def only_python_numbers(value: Any) -> bool:
    """Return whether these nested lists contain only Python numbers, which, unlike NumPy's numbers, have no dtype."""
    if isinstance(value, list | tuple):
        return all(map(only_python_numbers, value))
    return isinstance(value, int | float | complex) and not isinstance(value, np.generic)


def array_of(value: Any) -> Any:
    """Return the array of a Tensor, or another value unchanged: for masks and indices, which have no gradient."""
    return value.data if isinstance(value, Tensor) else value


def shape_of(value: Any, name: str = "operands") -> tuple[int, ...]:
    """Return the shape of a Tensor, an array, a number or nested lists; ValueError, with `name`, for ragged lists."""
    shape = getattr(value, "shape", None)
    return as_array(value, name).shape if shape is None else shape


def is_recorded(*operands: Any) -> bool:
    """Return whether a call with these operands is recorded for a backward pass."""
    return is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in operands)


def constant_array(value: Any, name: str) -> Any:
    """Return the array of an argument that gets no gradient: a Tensor, an array, or nested lists. Raises TypeError for
    a Tensor that requires a gradient, which would be lost; ValueError for nested lists of different lengths.
    """
    if isinstance(value, Tensor) and value.requires_grad and is_grad_enabled():
        raise TypeError(f"{name}: a Tensor that requires a gradient would get none here: pass its .detach()")
    array = array_of(value)
    return native(array) if is_array(array) else as_array(array, name)


def bind(ops: ModuleType, engine: ModuleType) -> None:
    """Give Tensor's methods access to the ops and the engine, which import Tensor. `autograd/__init__.py` calls this
    function before any Tensor can be made.
    """
    globals().update(_engine=engine)
    operators.bind(ops, Tensor, Operators, TorchNames)
    register_namespace(Tensor, ops)
    register_namespace(Parameter, ops)
