"""Function: one call of one operation, recorded so that it can be differentiated.

Each call creates a new object with the call's parameters, the values that the backward rule needs, and the origins of
the inputs. `forward` takes and returns plain arrays; `backward` is the rule for the gradients. This base class contains
the code that all ops share: recording, summing gradients over broadcast axes, and checking each gradient's shape and
dtype.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .backend import Array, is_array
from .changes import changes, refuse_if_changed
from .gradient import fitted
from .half import any_half, forward_in_float32, widened
from .operands import apart, copy_kept, explained, unpacked
from .origin import Origin, call_numbers, grad_enabled
from .tensor import Tensor

# The active observer, which then runs the forward and backward computation of every call.
observer: Any = None

_new = object.__new__
_ndarray = np.ndarray


class Function:
    """The record of one call of an operation. Subclasses define `forward(*arrays)` and `backward(*output_gradients)`.

    `forward` can `save` inputs and outputs, and `keep` other values (masks, indices, statistics). `backward` uses these
    values as `saved`, which are Tensors if the backward pass is recorded, and `kept`. `backward` returns one gradient
    per input, or None for an input without a gradient. The gradient must be a new array, the incoming gradient or a
    view of the incoming gradient, but never a saved array. `backward` must not write into the incoming gradient, which
    other calls may share. `needs[i]` says whether input i requires a gradient.
    """

    #: forward broadcasts its inputs against each other; gradients are summed to each input's shape.
    broadcasts: ClassVar[bool] = False
    #: How float16 is computed. "kept": by rules for float16. "widened": the base class gives `forward` and `backward`
    #: float32 in place of float16, and rounds their results. "mixed": by own rules, with gradients of float32 too. The
    #: gradient of a float16 result of the last two kinds may arrive in float32, since a loss scale may exceed
    #: float16's range. Sums have a policy of their own (`sums.py`).
    float16: ClassVar[str] = "kept"

    inputs: Sequence[Origin | None] = ()
    number = -1  # the call's, once it is recorded
    output_count = 1
    hooks: dict[int, dict[int, Any]] | None = None  # output number -> hooks on that tensor's gradient
    _saved: tuple[Any, ...] | None = ()
    kept: tuple[Any, ...] = ()  # see `keep`
    _identities: list[int]  # ids of the input arrays, then of the outputs: they tell which one a saved array is
    _original: "Function | None" = None  # the call that this one is a copy of, for a recorded backward pass
    _wanted: Sequence[bool] | None = None  # the inputs whose gradients a pass needs, in the pass's copy of the call
    _half = False  # whether float16 was widened in this call
    _seen: Any = None  # what the observer recorded about this call

    def forward(self, *arrays: Array) -> Any:
        raise NotImplementedError

    def backward(self, *gradients: Any) -> Any:
        raise NotImplementedError(f"{self.name} has no backward rule: define its method backward")

    def recorded_backward(self, *gradients: Any) -> Any:
        """Return `backward` for Tensors. Ops whose `backward` supports only arrays compute it in another way."""
        return self.backward(*gradients)

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
        if self._original is not None:
            saved = tuple(map(self._restore, saved))
        return tuple(map(widened, saved)) if self._half else saved

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
        arrays, origins, borrowed = unpacked(self, operands)
        try:
            if observer is not None:
                output = observer.forward(self, arrays)
            elif self.float16 == "widened" and any_half(arrays):
                output = forward_in_float32(self, arrays)
            else:
                output = self.forward(*arrays)
        except (ValueError, TypeError, IndexError) as error:
            raise explained(self.name, error, arrays) from error
        record = origins is not None
        if origins is not None:
            if self.number >= 0:
                raise RuntimeError(
                    f"{self.name}: a Function object can be called only once; create a new object for each call"
                )
            if borrowed:
                copy_kept(self, borrowed, arrays)
            self.number, self.inputs = next(call_numbers), origins
            self._identities = [id(arrays[0]), id(arrays[1])] if len(arrays) == 2 else list(map(id, arrays))
        elif borrowed and grad_enabled.get():  # a later call may be recorded and keep the result
            output = apart(output, arrays)
        if type(output) is not tuple:
            return self._wrap(output, 0, record)
        self.output_count = len(output)
        return tuple([self._wrap(array, slot, record) for slot, array in enumerate(output)])

    def evaluate(self, *arrays: Any) -> Any:
        """Return forward(*arrays), computed as `float16` says."""
        if self.float16 == "widened" and any_half(arrays):
            return forward_in_float32(self, arrays)
        return self.forward(*arrays)

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
        self, gradients: list[Any], as_tensors: bool, wanted: Sequence[bool] | None = None
    ) -> list[Any]:
        """Return the input gradients, computed by the backward rule, after checking their shapes and dtypes. In
        `gradients`, the gradient of an unused output is None. `wanted` says which inputs' gradients are wanted, by
        default all.
        """
        if self._saved is None:
            raise self.freed()
        if changes.last > self.number:
            refuse_if_changed(self)
        inputs, call = self.inputs, self
        if as_tensors or wanted is not None:
            call = _new(type(self))  # other passes, also in other threads, may be using the call itself
            vars(call).update(vars(self))
            call._original, call._wanted = self if as_tensors else None, wanted
        if self._half:
            gradients = list(map(widened, gradients))
        rule = call.recorded_backward if as_tensors else call.backward
        try:
            results = rule(*gradients) if observer is None else observer.backward(call, rule, gradients)
        except (ValueError, TypeError, IndexError) as error:
            error.add_note(f"in {self.name}.backward")
            raise
        if type(results) is not tuple:
            results = (results,)
        if len(results) != len(inputs):
            raise RuntimeError(f"{self.name}.backward returned {len(results)} gradients for {len(inputs)} inputs")
        checked = []
        for position, origin in enumerate(inputs):
            result = results[position]
            if origin is None or (wanted is not None and not wanted[position]):
                result = None
            elif result is not None:
                plain = type(result) is _ndarray and not as_tensors
                if not plain or result.shape != origin.shape or result.dtype != origin.dtype:
                    result = fitted(self, result, origin, gradients, as_tensors)
            checked.append(result)
        return checked

    def freed(self) -> RuntimeError:
        return RuntimeError(
            f"{self.name}: the graph was freed by an earlier backward pass. Pass retain_graph=True to that pass, or "
            "compute the result again before the second pass."
        )

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
    return function(*operands) if recorded else function.evaluate(*operands)
