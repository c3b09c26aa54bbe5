"""What the backward pass does with one gradient: fit it to its input, add it to those of other uses, call hooks."""

from typing import Any

import numpy as np

from .backend import array_module, is_array, native
from .half import HALF
from .origin import Origin
from .row_gradient import SelfAdding
from .sums import unbroadcast
from .tensor import Tensor


def fitted(call: Any, gradient: Any, origin: Origin, gradients: list[Any], as_tensors: bool) -> Any:
    """Return one input's gradient in the input's shape and dtype. Raises RuntimeError if this is impossible."""
    if as_tensors and not isinstance(gradient, Tensor):
        raise RuntimeError(f"{call.name}.backward supports only arrays, so its gradient can't be differentiated again")
    if gradient.shape != origin.shape:
        if not call.broadcasts:
            raise RuntimeError(
                f"{call.name}.backward returned a gradient of shape {gradient.shape} for an input of shape "
                f"{origin.shape}; if forward broadcasts its inputs, set `broadcasts = True` to sum the gradient"
            )
        try:
            gradient = unbroadcast(gradient, origin.shape)
        except ValueError as error:
            raise RuntimeError(f"{call.name}.backward: {error}") from error
    if isinstance(gradient, np.generic):
        gradient = np.asarray(gradient)  # NumPy's arithmetic on 0-d arrays answers with scalars
    if gradient.dtype != origin.dtype:
        rounded = (origin.dtype, gradient.dtype) == (HALF, np.float32)  # the rule computed in float32
        if not rounded and any(g is not None and g.dtype == origin.dtype for g in gradients):
            raise RuntimeError(
                f"{call.name}.backward returned a gradient of {gradient.dtype} for an input of {origin.dtype}"
            )
        gradient = gradient.astype(origin.dtype)
    return gradient


class Gradient:
    """A gradient being accumulated. If `owned`, only this object refers to its array, which may be changed in place."""

    __slots__ = ("owned", "value")

    def __init__(self, value: Any, owned: bool):
        # A comparison of types takes less time than isinstance, which matters for small arrays.
        self.value = value if type(value) is np.ndarray or not isinstance(value, SelfAdding) else value.first()
        self.owned = owned

    def add(self, value: Any, owned: bool) -> None:
        if isinstance(value, SelfAdding):
            self.value, self.owned = value.plus(self.value, self.owned), True
        elif isinstance(self.value, SelfAdding):
            self.value, self.owned = self.value.plus(value, owned), True
        elif self.owned:
            self.value += value
        elif owned:
            value += self.value
            self.value, self.owned = value, True
        elif isinstance(self.value, Tensor):
            self.value = self.value + value
        else:
            # The first gradient may be shared (a + b hands one array to both), so the sum gets its own buffer.
            xp = array_module(self.value)
            self.value = xp.add(self.value, value, out=xp.empty_like(self.value))
            self.owned = True

    def finished(self, hooks: dict[int, Any]) -> Any:
        """Return the gradient after calling its hooks. The result shares no memory with other arrays."""
        if hooks:
            return run_hooks(hooks, self.value).copy()
        return self.value if self.owned else self.value.copy()


def is_unshared(value: Any, incoming: list[Any], outgoing: list[Any]) -> bool:
    """Return whether `value` is a new array for one input only, which may be changed in place."""
    if isinstance(value, Tensor) or value.base is not None:
        return False
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        return False
    for other in incoming:
        if other is value:
            return False
    uses = 0
    for other in outgoing:
        if other is value or (other is not None and other.base is value):
            uses += 1
    return uses == 1


def run_hooks(hooks: dict[int, Any] | None, value: Any) -> Any:
    """Call the hooks on a complete gradient, an array or a Tensor, and return it, or what they put in its place."""
    for hook in list((hooks or {}).values()):
        value = shown = value if isinstance(value, Tensor) or is_array(value) else np.asarray(value)
        if isinstance(value, np.ndarray):
            shown = value[...]  # read-only: another tensor's gradient may be the same array
            shown.flags.writeable = False
        elif isinstance(value, Tensor):
            shown = separate(value)
        changed = hook(shown)
        if changed is None:
            continue
        dtype, shape = (getattr(changed, name, None) for name in ("dtype", "shape"))
        if shape != value.shape or dtype != value.dtype:
            kind = type(changed).__name__ if shape is None else f"{dtype}{list(shape)}"
            raise ValueError(
                f"a gradient hook returned {kind} for a gradient of "
                f"{value.dtype}{list(value.shape)}: return the same shape and dtype, or None for no change"
            )
        if isinstance(value, Tensor):
            value = changed if isinstance(changed, Tensor) else Tensor(changed)
        else:
            value = changed.data if isinstance(changed, Tensor) else changed
            value = native(value) if is_array(value) else np.asarray(value)  # arithmetic on 0-d arrays gives scalars
    return value


def separate(value: Any) -> Tensor:
    """Return a new Tensor of a gradient. If elements are set in it, no other Tensor changes."""
    if not isinstance(value, Tensor):
        return Tensor(value)
    if not value.requires_grad:
        return Tensor(value.data.copy())
    result = Tensor(value.data)
    result.requires_grad, result._origin = True, value.origin
    return result
