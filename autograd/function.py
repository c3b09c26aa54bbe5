"""Function: one call of one operation, recorded so that it can be differentiated.

Each call creates a new object with the call's parameters, the values that the backward rule needs, and the origins of
the inputs. `forward` takes and returns plain arrays; `backward` is the rule for the gradients. This base class contains
the code that all ops share: recording, summing gradients over broadcast axes, and checking each gradient's shape and
dtype.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .backend import Array, array_module, as_array, device_of, is_array, native
from .changes import changes, overlap
from .origin import Origin, call_numbers, grad_enabled
from .sums import summed
from .tensor import Tensor

# The active observer, which then runs the forward and backward computation of every call.
observer: Any = None

_new = object.__new__
_ndarray = np.ndarray
_PLAIN = (int, float, complex)  # operands that `forward` takes as they are
_SMALL = 256  # elements of an array that is copied in less time than it takes to find out whether a rule keeps it


class Function:
    """The record of one call of an operation. Subclasses define `forward(*arrays)` and `backward(*output_gradients)`.

    `forward` can `save` inputs and outputs, and `keep` other values (masks, indices, statistics). `backward` uses these
    values as `saved`, which are Tensors if the backward pass is recorded, and `kept`. `backward` returns one gradient
    per input, or None for an input without a gradient. The gradient must be a new array, the incoming gradient or a
    view of the incoming gradient, but never a saved array. `backward` must not write into the incoming gradient, which
    other calls may share. `needs[i]` says whether input i requires a gradient. If the gradient of a float16 input is
    float32, the base class rounds it.
    """

    #: forward broadcasts its inputs against each other; gradients are summed to each input's shape.
    broadcasts: ClassVar[bool] = False
    #: The same function of the inputs, composed of small ops; defined by fused ops whose `backward` supports only
    #: arrays. It saves all its inputs; a backward pass that is recorded differentiates this function instead.
    composed: Any = None
    #: `backward` may itself add to the arrays in `collected`, instead of returning gradients that the engine adds to
    #: them.
    adds: ClassVar[bool] = False
    #: If the backward pass starts at a float16 result, the gradient arrives in float32: a loss scale may exceed
    #: float16's range.
    wide_start: ClassVar[bool] = False
    #: The name of this implementation of an op (`ops/registry.py`), and the plain one, if there are several.
    implementation: ClassVar[str] = ""
    plain_implementation: ClassVar[Any] = None

    inputs: Sequence[Origin | None] = ()
    #: Used with `adds`: each input's gradient from other calls if nothing else refers to it, else None.
    collected: Sequence[Array | None] = (None,) * 8
    number = -1  # the call's, once it is recorded
    output_count = 1
    hooks: dict[int, dict[int, Any]] | None = None  # output number -> hooks on that tensor's gradient
    _saved: tuple[Any, ...] | None = ()
    kept: tuple[Any, ...] = ()  # see `keep`
    _identities: list[int]  # ids of the input arrays, then of the outputs: they tell which one a saved array is
    _original: "Function | None" = None  # the call that this one is a copy of, for a recorded backward pass
    _wanted: Sequence[bool] | None = None  # the inputs whose gradients a pass needs, in the pass's copy of the call
    _seen: Any = None  # what the observer recorded about this call

    def forward(self, *arrays: Array) -> Any:
        raise NotImplementedError

    def backward(self, *gradients: Any) -> Any:
        raise NotImplementedError(f"{self.name} has no backward rule: define its method backward")

    def save(self, *values: Any) -> None:
        """Save inputs and outputs (the same array objects) for the backward rule; other arrays are for `keep`."""
        self._saved = values

    def keep(self, *values: Any) -> None:
        """Save values that have no gradient, such as masks, for the backward rule."""
        self.kept = values

    @property
    def saved(self) -> tuple[Any, ...]:
        saved = self._saved
        if saved is None:
            raise self.freed()
        return saved if self._original is None else tuple(map(self._restore, saved))

    @property
    def needs(self) -> Sequence[bool]:
        if self._wanted is not None:
            return self._wanted
        inputs = self.inputs
        if len(inputs) == 2:  # a loop takes three times as long, which matters for small arrays
            return inputs[0] is not None, inputs[1] is not None
        return [origin is not None for origin in inputs]

    @property
    def name(self) -> str:
        return type(self).__name__.removesuffix("OnCPU").removesuffix("OnDevice").removesuffix("InPlace")

    # -- the call --------------------------------------------------------------------------------------------------

    def __call__(self, *operands: Any) -> Any:
        arrays: list[Any] = []
        origins: list[Origin | None] = []
        record = scalars = False
        plain: tuple[int, ...] = ()  # the positions of arrays of the caller
        numbers = 0
        for operand in operands:
            if isinstance(operand, Tensor):
                array = operand.data
                arrays.append(array)
                if operand.requires_grad:
                    origin = operand._origin
                    if origin is None or (
                        origin.node is None and (origin.shape != array.shape or origin.dtype != array.dtype)
                    ):
                        origin = operand.origin
                    origins.append(origin)
                    record = True
                    continue
            else:
                if type(operand) is _ndarray and operand.dtype.isnative:
                    if operand.size <= _SMALL:
                        operand = operand.copy()  # the caller may fill it again
                    else:
                        plain += (len(arrays),)
                elif isinstance(operand, np.generic):
                    scalars = True
                elif isinstance(operand, _PLAIN):
                    numbers += 1
                else:
                    if isinstance(operand, list | tuple) and _holds_tensors(operand):
                        return self(*map(_stacked, operands))
                    operand = native(operand) if is_array(operand) else as_array(operand, f"{self.name}: operands")
                    plain += (len(arrays),)
                arrays.append(operand)
            origins.append(None)
        if numbers and not record and numbers == len(arrays):
            arrays = [as_array(x, self.name) for x in arrays]  # Python's own arithmetic has other rules
        if scalars:
            weaken(arrays)
        if record:
            record = grad_enabled.get()
            if len(arrays) > 1 and (arrays[0] is arrays[1] or len(arrays) > 2):
                _tell_apart(arrays, origins)
        try:
            output = self.forward(*arrays) if observer is None else observer.forward(self, arrays)
        except (ValueError, TypeError, IndexError) as error:
            raise _explain(self.name, error, arrays) from error
        if record:
            if self.number >= 0:
                raise RuntimeError(
                    f"{self.name}: a Function object can be called only once; create a new object for each call"
                )
            if plain and (self._saved or self.kept):
                self._copy_kept(plain, arrays)
            self.number = next(call_numbers)
            self.inputs = origins
            self._identities = [id(arrays[0]), id(arrays[1])] if len(arrays) == 2 else list(map(id, arrays))
        elif plain and grad_enabled.get():  # a later call may be recorded and keep the result
            output = tuple(_apart(x, arrays) for x in output) if type(output) is tuple else _apart(output, arrays)
        if type(output) is not tuple:
            return self._wrap(output, 0, record)
        self.output_count = len(output)
        return tuple([self._wrap(array, slot, record) for slot, array in enumerate(output)])

    def _copy_kept(self, plain: tuple[int, ...], arrays: list[Any]) -> None:
        """Copy the plain arrays that the backward rule keeps: the caller may fill a buffer again. (Tensors are not
        copied: the engine notices their changes.)
        """
        count, held = len(self._saved or ()), [*(self._saved or ()), *self.kept]
        for position in plain:
            array = arrays[position]
            if any(value is array for value in held):
                arrays[position] = array.copy()
                held = [arrays[position] if value is array else value for value in held]
        self._saved, self.kept = tuple(held[:count]), tuple(held[count:])

    def _wrap(self, array: Any, slot: int, record: bool) -> Tensor:
        """Return the Tensor of output number `slot`."""
        identity = id(array)
        if not isinstance(array, _ndarray) and not is_array(array):
            array = np.asarray(array)  # NumPy's arithmetic on 0-d arrays answers with scalars
        result = _new(Tensor)
        result.grad_or_rows = result._origin = None
        if record:
            if identity in self._identities:
                array = array[...]  # a separate view: flags set on it must not affect the input
            self._identities.append(identity)
            record = array.dtype.kind == "f" or self._recorded(array)
        result.data = array
        result.requires_grad = record
        if record:
            result._origin = Origin(array, self, slot)
            if isinstance(array, _ndarray):
                # A backward rule may need its values: writing into it raises instead of giving a wrong gradient.
                array.setflags(False)  # type: ignore[call-arg]  # writeable; a keyword takes twice as long
        return result

    def _recorded(self, array: Any) -> bool:
        """Return False for a result that can't have a gradient, such as an index or a comparison.
        Raises TypeError for a complex one.
        """
        if array.dtype.kind not in "iub":
            raise TypeError(f"{self.name}: a result of {array.dtype} can't carry a gradient; detach() the inputs")
        return False

    def _restore(self, value: Any) -> Any:
        """Return a saved input or output as a Tensor of the graph, for a recorded backward pass."""
        if not hasattr(value, "dtype"):
            return value
        if id(value) not in self._identities:
            raise RuntimeError(f"{self.name} saved an array that is no input and no output. Pass it to `keep` instead")
        position = self._identities.index(id(value))
        tensor = _new(Tensor)
        tensor.data, tensor.grad_or_rows = value if is_array(value) else np.asarray(value), None
        slot = position - len(self.inputs)
        tensor._origin = self.inputs[position] if slot < 0 else Origin(tensor.data, self._original, slot)
        tensor.requires_grad = tensor._origin is not None
        return tensor

    # -- what the engine calls -------------------------------------------------------------------------------------

    def input_gradients(
        self,
        gradients: list[Any],
        as_tensors: bool,
        composed: Callable[..., Any] | None = None,
        collected: Sequence[Array | None] | None = None,
        wanted: Sequence[bool] | None = None,
    ) -> list[Any]:
        """Return the input gradients, computed by `backward` or `composed`, after checking their shapes and dtypes. In
        `gradients`, the gradient of an unused output is None. The class documents `collected`. `wanted` says which
        inputs' gradients are wanted, by default all.
        """
        if self._saved is None:
            raise self.freed()
        if changes.last > self.number:
            self._refuse_if_changed()
        inputs, call = self.inputs, self
        if as_tensors:
            call = copy(self)  # other passes, also in other threads, may be using the call itself
            call._original = self
        elif collected is not None and observer is None:
            call = copy(self)
            call.collected = collected
        if wanted is not None:
            call = copy(self) if call is self else call
            call._wanted = wanted
        rule = call.backward if composed is None else partial(composed, call)
        try:
            results = rule(*gradients) if observer is None else observer.backward(call, rule, gradients)
        except (ValueError, TypeError, IndexError) as error:
            error.add_note(f"in {self.name}.backward")
            raise
        if type(results) is not tuple:
            results = (results,)
        if len(results) != len(inputs):
            raise RuntimeError(f"{self.name}.backward returned {len(results)} gradients for {len(inputs)} inputs")
        fitted = []
        for position, origin in enumerate(inputs):
            result = results[position]
            if origin is None or (wanted is not None and not wanted[position]):
                result = None
            elif result is not None:
                plain = type(result) is _ndarray and not as_tensors
                if not plain or result.shape != origin.shape or result.dtype != origin.dtype:
                    result = self._fitted(result, origin, gradients, as_tensors)
            fitted.append(result)
        return fitted

    def freed(self) -> RuntimeError:
        return RuntimeError(
            f"{self.name}: the graph was freed by an earlier backward pass. Pass retain_graph=True to that pass, or "
            "compute the result again before the second pass."
        )

    def held(self) -> Iterator[tuple[str, Any]]:
        """Yield a name and the array for every array that this call keeps for its backward rule."""
        identities = self._identities[: len(self.inputs)] if self.inputs else []
        for position, value in enumerate(self._saved or ()):
            if is_array(value):
                of_input = id(value) in identities
                yield (f"input {identities.index(id(value))}" if of_input else f"saved array {position}"), value
        own = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        for name, value in {"kept array": own.pop("kept", ()), **own}.items():
            for position, part in enumerate(value if isinstance(value, tuple | list) else (value,)):
                if is_array(part):
                    yield (f"{name} {position}" if isinstance(value, tuple | list) else name), part

    def _refuse_if_changed(self) -> None:
        held = list(self.held())
        index = changes.find([array for _, array in held], self.number)
        if index is not None:
            name, array = held[index]
            raise RuntimeError(
                f"{self.name}: {name} of shape {array.shape} was changed in place after the forward pass, so the "
                "gradient would be wrong. Change this array after backward(), or change a copy."
            )

    def _fitted(self, gradient: Any, origin: Origin, gradients: list[Any], as_tensors: bool) -> Any:
        """Return one input's gradient in the input's shape and dtype. Raises RuntimeError if this is impossible."""
        if as_tensors and not isinstance(gradient, Tensor):
            raise RuntimeError(
                f"{self.name}.backward supports only arrays, so its gradient can't be differentiated again"
            )
        if gradient.shape != origin.shape:
            if not self.broadcasts:
                raise RuntimeError(
                    f"{self.name}.backward returned a gradient of shape {gradient.shape} for an input of shape "
                    f"{origin.shape}; if forward broadcasts its inputs, set `broadcasts = True` to sum the gradient"
                )
            try:
                gradient = unbroadcast(gradient, origin.shape)
            except ValueError as error:
                raise RuntimeError(f"{self.name}.backward: {error}") from error
        if isinstance(gradient, np.generic):
            gradient = np.asarray(gradient)  # NumPy's arithmetic on 0-d arrays answers with scalars
        if gradient.dtype != origin.dtype:
            rounded = (origin.dtype, gradient.dtype) == (np.float16, np.float32)  # the rule computed in float32
            if not rounded and any(g is not None and g.dtype == origin.dtype for g in gradients):
                raise RuntimeError(
                    f"{self.name}.backward returned a gradient of {gradient.dtype} for an input of {origin.dtype}"
                )
            gradient = gradient.astype(origin.dtype)
        return gradient

    def release(self) -> None:
        """Free the saved values. A second backward pass through this call then raises an error."""
        self._saved = None
        self.kept = ()
        self.inputs = ()  # a long chain is freed link by link, not in one deep recursion

    def hooks_of(self, slot: int) -> dict[int, Any]:
        """Return the dictionary of hooks on output `slot`."""
        hooks: Any = self.__dict__.setdefault("hooks", {})  # threads may do this at the same time
        return hooks.setdefault(slot, {})


def run(function: Function, *operands: Any) -> Any:
    """Call `function` on `operands`. Record the call only if an operand is a Tensor, as in a recorded backward pass."""
    recorded = any(isinstance(operand, Tensor) for operand in operands)
    return function(*operands) if recorded else function.forward(*operands)


def unbroadcast(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Sum `gradient` (an array or a Tensor) over the axes along which an array of `shape` was broadcast.

    This is the adjoint of broadcasting: a value used n times gets the sum of n gradients. float16 is summed in float32.
    Raises ValueError if `shape` does not broadcast to the gradient's shape.
    """
    extra = len(gradient.shape) - len(shape)
    spread = gradient.shape[max(extra, 0) :]
    if extra < 0 or any(size not in (1, full) for size, full in zip(shape, spread, strict=True)):
        raise ValueError(f"shape {shape} does not broadcast to the gradient's shape {gradient.shape}")
    stretched = (extra + axis for axis, size in enumerate(shape) if size == 1 and spread[axis] != 1)
    axes = (*range(extra), *stretched)
    return summed(gradient, axes, keepdims=True).reshape(shape) if axes else gradient


def _apart(array: Any, operands: list[Any]) -> Any:
    """Return the result of a call that is not recorded, in memory of its own: not a view of the caller's arrays."""
    if getattr(array, "base", None) is None:
        for operand in operands:
            if array is operand:
                return array.copy()
        return array
    return array.copy() if any(is_array(x) and overlap(array, x) for x in operands) else array


def _holds_tensors(values: Any) -> bool:
    return any(isinstance(v, Tensor) or (isinstance(v, list | tuple) and _holds_tensors(v)) for v in values)


def _stacked(value: Any) -> Any:
    """Stack lists of Tensors along a new axis, as NumPy does with lists of arrays."""
    if isinstance(value, list | tuple) and _holds_tensors(value):
        parts = [_stacked(part) for part in value]
        return array_module(*parts).stack(parts)
    return value


def _tell_apart(arrays: list[Any], origins: list[Origin | None]) -> None:
    """Replace an array that two tensors share, such as x and Tensor(x.data), by a view, a separate Python object. Saved
    arrays are matched to their tensors by object identity, and perhaps only one of the two tensors has a gradient.
    """
    first: dict[int, int] = {}
    for position, array in enumerate(arrays):
        other = first.setdefault(id(array), position)
        if origins[other] is not origins[position] and is_array(array):
            arrays[position] = array[...]


def weaken(arrays: list[Any]) -> None:
    """Replace a NumPy scalar by a Python scalar: float32 * np.sqrt(2.0) and float32 / mask.sum() are float32."""
    if any(is_array(array) and array.dtype.kind in "fc" for array in arrays):
        arrays[:] = [array.item() if isinstance(array, np.generic) else array for array in arrays]


def _explain(name: str, error: Exception, arrays: list[Any]) -> Exception:
    """Return an error of the same type, with a message that names the op and its operands."""
    devices = {device_of(a) for a in arrays if is_array(a)}
    if len(devices) > 1:
        cure = f"the operands are on different devices ({', '.join(sorted(devices))}): move one with .to(device)"
    else:
        uneven = "inhomogeneous" in str(error)
        cure = "nested lists have different lengths: pad the shorter lists" if uneven else str(error)
    # NumPy's own subclasses (for an axis out of bounds, for dtypes that don't cast) need more than a message.
    kind = next(kind for kind in (ValueError, TypeError, IndexError) if isinstance(error, kind))
    return kind(f"{name}({described(arrays)}): {cure}")


def described(arrays: Sequence[Any]) -> str:
    """Return the dtypes and shapes of arrays, and numbers as they are, as text for messages."""
    return ", ".join(f"{a.dtype}{list(a.shape)}" if hasattr(a, "shape") else repr(a) for a in arrays)
