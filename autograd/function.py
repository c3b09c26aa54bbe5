"""Function: one call of one operation, recorded so that it can be differentiated.

A fresh object per call is the context: it holds the call's parameters, what the backward rule needs, and where the
inputs came from. `forward` takes and returns raw arrays; `backward` stands beneath it. What all ops have in common
is done here, once: recording, summing a broadcast gradient back, and checking each gradient's shape and dtype.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .backend import Array, array_module, device_of, is_array
from .engine import grad, is_grad_enabled
from .tensor import Origin, Tensor, call_numbers

# Operands that `forward` takes as they are. Python scalars stay weak: float32 * 2.0 is float32.
_PLAIN = (np.ndarray, int, float, bool, complex)


class Function:
    """One call of an operation. Subclasses define `forward(*arrays)` and `backward(*output_gradients)`.

    `forward` may `save` inputs and outputs (differentiable: seen as Tensors when the gradient is recorded) and `keep`
    anything else (masks, indices, statistics); `backward` finds them in `saved` and `kept` and returns one gradient
    an input, None where there is none. A gradient is a fresh array, the incoming gradient or a view of it; never a
    saved array. `needs[i]` tells whether input i wants a gradient at all.
    """

    #: forward broadcasts its inputs against each other: gradients are summed back to each input's shape.
    broadcasts: ClassVar[bool] = False
    inputs: tuple[Origin | None, ...]
    number: int
    _sources: tuple[int | None, ...]
    _versions: tuple[int | None, ...]
    _saved: tuple[Any, ...] | None = ()
    _kept: tuple[Any, ...] = ()
    hooks: dict[int, dict[int, Any]] | None = None  # output number -> hooks on that tensor's gradient
    output_count = 1
    _recorded = False
    _as_tensors = False

    def forward(self, *arrays: Array) -> Any:
        raise NotImplementedError

    def backward(self, *gradients: Any) -> Any:
        raise NotImplementedError

    #: A fused op whose `backward` works on arrays only gives the same function of its inputs in small ops here, and
    #: saves all its inputs: when the gradient is to be recorded, it is taken through these.
    composed: Any = None

    def save(self, *values: Any) -> None:
        """Hold inputs and outputs (the very arrays) for the backward rule."""
        self._saved = values

    def keep(self, *values: Any) -> None:
        """Hold values that carry no gradient of their own for the backward rule."""
        self._kept = values

    @property
    def saved(self) -> tuple[Any, ...]:
        saved = self._saved
        assert saved is not None
        return tuple(map(self._restore, range(len(saved)))) if self._as_tensors else saved

    @property
    def kept(self) -> tuple[Any, ...]:
        return self._kept

    @property
    def needs(self) -> tuple[bool, ...]:
        return tuple(origin is not None for origin in self.inputs)

    @property
    def name(self) -> str:
        return type(self).__name__

    def __call__(self, *inputs: Any) -> Any:
        arrays: list[Any] = []
        origins: list[Origin | None] = []
        needs_grad = False
        for value in inputs:
            if isinstance(value, Tensor):
                arrays.append(value.data)
                if value.requires_grad:
                    needs_grad = True
                    origins.append(value._origin or value.origin)
                else:
                    origins.append(None)
            else:
                arrays.append(value if isinstance(value, _PLAIN) else _as_operand(value))
                origins.append(None)
        if needs_grad and len(set(map(id, arrays))) < len(arrays):
            _tell_apart(arrays, origins)
        try:
            output = self.forward(*arrays)
        except (ValueError, TypeError, IndexError) as error:
            raise _explain(self.name, error, arrays) from error
        if type(output) is not tuple:
            return self._wrap(output, 0, arrays, origins, needs_grad and is_grad_enabled())
        self.output_count = len(output)
        record = needs_grad and is_grad_enabled()
        return tuple(self._wrap(array, slot, arrays, origins, record) for slot, array in enumerate(output))

    def _wrap(self, array: Any, slot: int, arrays: list, origins: list, record: bool) -> Tensor:
        """Make the tensor for one output and, the first time, the node for the call."""
        result = Tensor.__new__(Tensor)
        result.grad = None
        result.requires_grad = False
        result._origin = None
        if not isinstance(array, np.ndarray) and not is_array(array):
            scalar, array = array, np.asarray(array)  # NumPy reductions answer with scalars
            if self._saved:
                self._saved = tuple(array if value is scalar else value for value in self._saved)
        if not record or array.dtype.kind != "f":
            result.data = array
            return result
        if not self._recorded:
            self._record(arrays, origins)
        if any(array is operand for operand in arrays):
            array = array[...]  # an own view: what is set on it must not reach the input
        if isinstance(array, np.ndarray):
            # A backward rule may need it as it is now: writing into it raises instead of falsifying a gradient.
            array.flags.writeable = False
        if self._saved:
            self._sources = tuple(
                -1 - slot if value is array else source
                for value, source in zip(self._saved, self._sources, strict=True)
            )
        result.data = array
        result.requires_grad = True
        result._origin = Origin(array, self, slot)
        if array.base is not None:
            result._origin.changes = _changes_of_viewed(array, arrays, origins)
        return result

    def _record(self, arrays: list, origins: list) -> None:
        self._recorded = True
        self.inputs = tuple(origins)
        self.number = next(call_numbers)
        self._sources = tuple(_index_of(value, arrays) for value in self._saved or ())
        self._versions = tuple(None if o is None or o.changes is None else o.changes[0] for o in origins)

    def _restore(self, position: int) -> Any:
        """A saved value as a Tensor that still knows its origin, for a backward pass that is recorded."""
        assert self._saved is not None
        value, source = self._saved[position], self._sources[position]
        if source is None or not is_array(value):
            return value
        tensor = Tensor.__new__(Tensor)
        tensor.data, tensor.grad = value, None
        origin = self.inputs[source] if source >= 0 else Origin(value, self, -1 - source)
        tensor.requires_grad, tensor._origin = origin is not None, origin
        return tensor

    # -- what the engine calls -------------------------------------------------------------------------------------

    def input_gradients(self, gradients: list[Any], as_tensors: bool) -> list[Any]:
        """Run `backward` on the output gradients (None where an output was not used) and check what it returns."""
        if self._saved is None:
            raise RuntimeError(
                f"{self.name}: the graph was freed by an earlier backward pass. Pass retain_graph=True to that pass, "
                "or compute the result again before the second one."
            )
        for source in {s for s in self._sources if s is not None and s >= 0}:
            origin = self.inputs[source]
            if origin is not None and origin.changes is not None and origin.changes[0] != self._versions[source]:
                raise RuntimeError(
                    f"{self.name}: its input {source} of shape {origin.shape} was changed in place after the forward "
                    "pass, so its gradient would be wrong. Change it after backward(), or change a copy."
                )
        self._as_tensors = as_tensors
        results = self._backward_composed(*gradients) if as_tensors and self.composed else self.backward(*gradients)
        self._as_tensors = False
        if type(results) is not tuple:
            results = (results,)
        if len(results) != len(self.inputs):
            raise RuntimeError(f"{self.name}.backward returned {len(results)} gradients for {len(self.inputs)} inputs")
        output_dtype = next(g.dtype for g in gradients if g is not None)
        return [
            None if origin is None or result is None else self._checked(result, origin, output_dtype)
            for result, origin in zip(results, self.inputs, strict=True)
        ]

    def _backward_composed(self, *gradients: Any) -> tuple[Any, ...]:
        # Through aliases, newer than every input: the walk stops at them. One input may be computed from another, or be
        # the same tensor, and each is owed its own part only.
        tensors = [Alias()(tensor) for tensor in self.saved]
        wanted = [tensor for tensor, needed in zip(tensors, self.needs, strict=True) if needed]
        found = iter(grad(self.composed(*tensors), wanted, gradients[0], create_graph=True))
        return tuple(next(found) if needed else None for needed in self.needs)

    def _checked(self, gradient: Any, origin: Origin, output_dtype: np.dtype) -> Any:
        if isinstance(gradient, np.generic):
            gradient = np.asarray(gradient)  # NumPy's arithmetic on 0-d arrays answers with scalars
        if gradient.shape != origin.shape:
            if not self.broadcasts:
                raise RuntimeError(
                    f"{self.name}.backward returned a gradient of shape {gradient.shape} for an input {origin.shape}"
                )
            gradient = unbroadcast(gradient, origin.shape)
        if gradient.dtype != origin.dtype:
            if output_dtype == origin.dtype:
                raise RuntimeError(f"{self.name}.backward returned {gradient.dtype} for an input of {origin.dtype}")
            gradient = gradient.astype(origin.dtype)
        return gradient

    def release(self) -> None:
        """Let go of what was saved; a second backward pass through this call raises."""
        self._saved = None
        self._kept = ()
        self.inputs = ()  # a long chain comes apart link by link, not in one deep recursion

    def hooks_of(self, slot: int) -> dict[int, Any]:
        """The hooks on output `slot`, to add to."""
        if self.hooks is None:
            self.hooks = {}
        return self.hooks.setdefault(slot, {})


class Alias(Function):
    """The same values under a new name: a place in the graph where a walk can stop."""

    def forward(self, x):
        return x[...]

    def backward(self, g):
        return g


def run(function: Function, *operands: Any) -> Any:
    """Within a backward rule: record the call if an operand is a Tensor, else only compute it."""
    recorded = any(isinstance(operand, Tensor) for operand in operands)
    return function(*operands) if recorded else function.forward(*operands)


def raw(value: Any) -> Any:
    """The array of a Tensor, anything else as it is: for masks and indices, through which no gradient flows."""
    return value.data if isinstance(value, Tensor) else value


def unbroadcast(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Sum `gradient` (an array or a Tensor) over the axes along which `shape` was broadcast to its shape.

    The adjoint of broadcasting: a value used n times collects n gradients.
    """
    extra = len(gradient.shape) - len(shape)
    stretched = tuple(
        axis + extra for axis, size in enumerate(shape) if size == 1 and gradient.shape[axis + extra] != 1
    )
    if axes := tuple(range(extra)) + stretched:
        gradient = gradient.sum(axis=axes, keepdims=True)
    return gradient.reshape(shape)


def _tell_apart(arrays: list, origins: list) -> None:
    """Give an array that two different tensors share (x and x.detach()) a second identity.

    What is saved is traced to its origin by identity, and only one of the two may lead to a gradient.
    """
    first: dict[int, int] = {}
    for position, array in enumerate(arrays):
        other = first.setdefault(id(array), position)
        if origins[other] is not origins[position] and is_array(array):
            arrays[position] = array[...]


def _changes_of_viewed(array: Any, arrays: list, origins: list) -> list[int] | None:
    """The counter of changes of the leaf that `array` is a view of, if it is one."""
    for operand, origin in zip(arrays, origins, strict=True):
        if origin is not None and origin.changes is not None:
            xp = array_module(array)
            if xp.may_share_memory(array, operand):
                return origin.changes
    return None


def _index_of(value: Any, arrays: list) -> int | None:
    for index, array in enumerate(arrays):
        if value is array:
            return index
    return None


def _as_operand(value: Any) -> Any:
    return value if isinstance(value, np.generic) or is_array(value) else np.asarray(value)


def _explain(name: str, error: Exception, arrays: list) -> Exception:
    """The same kind of error, naming the op and its operands."""
    operands = ", ".join(f"{a.dtype}{list(a.shape)}" if hasattr(a, "shape") else repr(a) for a in arrays)
    devices = {device_of(a) for a in arrays if is_array(a)}
    if len(devices) > 1:
        cure = f"the operands are on different devices ({', '.join(sorted(devices))}): move one with .to(device)"
    else:
        cure = str(error)
    # NumPy's own subclasses (of an axis out of bounds, of dtypes that don't cast) take more than a message.
    kind = next(kind for kind in (ValueError, TypeError, IndexError) if isinstance(error, kind))
    return kind(f"{name}({operands}): {cure}")
