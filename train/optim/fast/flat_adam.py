"""The whole update as one operation on flat arrays, for fp16 or fp32 training that never waits for the device.

Parameters become views of one array of float32 weights; their float16 copies, for the passes of fp16 training, and
Adam's moments are in further flat arrays. The loss scale, the number of updates and the decision to skip a step that
overflowed are numbers on the device. Source: Micikevicius et al. 2018, arXiv 1710.03740, sections 3.1 and 3.2.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ....autograd import Parameter, Tensor
from ....autograd.backend import array_module, is_array
from ....autograd.changes import changes
from ....autograd.kernels.update import PARTS, STATE, adam, add_parts, new_state, prepare_update, read_state
from ....autograd.quick import replaces
from .. import optimizers
from ..loss_scaling import holding
from ..optimizers import Adam

_NEVER = 2**31 - 1
# Parameters begin at multiples of this many elements: 16 bytes in float16, an alignment at which cuBLAS is fastest.
_STEP = 8


def _rounded(size: int) -> int:
    return -(-size // _STEP) * _STEP


class FlatAdam:
    """Adam or AdamW over all parameters in three kernels. A parameter without a gradient has the gradient 0.

    The `data` of the parameters become views of one array. With `half`, the passes use float16 copies of them and of
    the `constants`, a loss scale that doubles after `interval` good steps, and its minimum `least`. `gradient` is the
    sum that `backward` has accumulated since the last step, `settings` (2,) are the learning rate and a factor of it.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        *,
        half: bool = False,
        constants: Iterable[Tensor] = (),
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        loss_scale: float = 2.0**15,
        interval: int = 1000,
        least: float = 1.0,
    ):
        given = list(parameters)
        if {(p.dtype, p.device) for p in given} != {(np.dtype(np.float32), given[0].device if given else None)}:
            raise ValueError("FlatAdam: at least one parameter is needed; all must be float32, on one device")
        # Matrices first: a weight decay covers the beginning of the array.
        self.parameters = sorted(given, key=lambda p: p.ndim < 2)
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        self.half, self.interval, self.least = half, interval if half else _NEVER, least
        xp = self.xp = array_module(given[0].data)
        starts: list[int] = [0, *np.cumsum([_rounded(p.size) for p in self.parameters]).tolist()]
        self._starts, size = starts[:-1], starts[-1]
        spans = np.array([(start, p.size) for start, p in zip(self._starts, self.parameters, strict=True)], np.int64)
        self._spans = xp.asarray(spans)  # (start, size) of each
        self.weights = xp.zeros(size, np.float32)
        for parameter, own in zip(self.parameters, self.views(self.weights), strict=True):
            own[...] = parameter.data
            parameter.data = own
        self.copy = self.weights.astype(np.float16) if half else self.weights
        self.m, self.v = xp.zeros_like(self.weights), xp.zeros_like(self.weights)
        self.decayed = sum(_rounded(p.size) for p in self.parameters if p.ndim > 1)
        self.state = new_state(xp, loss_scale if half else 1.0)
        self.gradient = xp.zeros_like(self.copy)
        self.settings = xp.zeros(2, np.float32)
        # The tensors that hold other arrays during the passes, and these arrays.
        self._halves: list[tuple[Tensor, Any]] = []
        if half:
            self._halves += zip(self.parameters, self.views(self.copy), strict=True)
        self._halves += [(tensor, tensor.data.astype(np.float16)) for tensor in constants if half]

    def views(self, flat: Any) -> list[Any]:
        """Return the parts of a flat array that belong to each of `parameters`, in their shapes."""
        return [flat[a : a + p.size].reshape(p.shape) for p, a in zip(self.parameters, self._starts, strict=True)]

    def passes(self) -> AbstractContextManager[None]:
        """Context manager for the forward and backward passes: in fp16 training it provides the float16 weights."""
        return holding(self._halves)

    def backward(self, loss: Tensor, share: Any = 1.0) -> None:
        """Add the gradient of `share`, a number or 0-d array, times the loss and the loss scale to `gradient`."""
        share = share.astype(np.float32, copy=False).reshape(loss.shape) if is_array(share) else np.float32(share)
        start = self.xp.empty(loss.shape, np.float32)
        with np.errstate(over="ignore", invalid="ignore"):  # overflows are expected: the loss scale handles them
            self.xp.multiply(self.state[:1].reshape(loss.shape), share, out=start)
            loss.backward(start)
            for first in range(0, len(self.parameters), PARTS):
                group = self.parameters[first : first + PARTS]
                add_parts(self.gradient, self._spans, first, [parameter.grad for parameter in group])
                for parameter in group:
                    parameter.grad = None

    def apply(self, max_norm: float | None = None) -> None:
        """Update all parameters from the gradient and set it to zero; skip the update if the gradient overflowed."""
        prepare_update(
            self.gradient, self.state, self.settings, max_norm=max_norm, interval=self.interval, least=self.least
        )
        adam(
            self.weights, self.gradient, self.m, self.v, self.copy, self.state, self.settings,
            betas=self.betas, eps=self.eps, weight_decay=self.weight_decay, decayed=self.decayed,
        )  # fmt: skip
        self.gradient.fill(0)

    def read(self, state: Any = None) -> dict[str, float]:
        """Return the fields of the state, or of a copy of it, by name. This waits for the device."""
        return read_state(self.state if state is None else state)

    def write_state(self, **values: float) -> None:
        """Set fields of the state on the device, by name."""
        state = np.array([tuple({**read_state(self.state), **values}[name] for name in STATE.names or ())], STATE)
        self.state[...] = self.xp.asarray(state.view(np.float32))

    def overflowed(self) -> Any:
        """Return which gradients overflowed, (parameters,) booleans on the device, between `backward` and `step`."""
        finite = self.xp.empty(len(self.parameters), bool)
        for number, part in enumerate(self.views(self.gradient)):
            finite[number] = self.xp.isfinite(part).all()
        return ~finite

    def weights_changed(self) -> None:
        """Update the state after other code has written into the parameters."""
        if self.half:
            self.copy[...] = self.weights.astype(self.copy.dtype)
        self.mark_changed()

    def mark_changed(self) -> None:
        """Tell the engine that the arrays of the parameters have changed."""
        for array in {id(array): array for array in (self.weights, self.copy)}.values():
            changes.note(array)


@replaces(optimizers.flat_form)
def flat_form(optimizer: Any, *, constants: Iterable[Tensor] = (), **options: Any) -> FlatAdam | None:
    """Return a FlatAdam that continues from the state of `optimizer` and shares its moments; `options` are FlatAdam's.

    Return None for other optimisers than Adam and AdamW, also for a class derived from them with its own rule, for
    learning rates or weight decays of groups, for parameters that are not float32 on one device, and if a parameter
    requires no gradient: FlatAdam would apply the weight decay to it.
    """
    parameters, decay = optimizer.parameters, common_decay(optimizer)
    kinds = {(p.dtype, p.device, p.requires_grad) for p in parameters}
    other, first = type(optimizer)._update is not Adam._update, parameters[0]
    if other or decay is None or len(kinds) > 1 or not first.requires_grad or first.dtype != np.float32:
        return None
    flat = FlatAdam(
        parameters, betas=optimizer.betas, eps=optimizer.eps, weight_decay=decay, constants=constants, **options
    )
    flat.write_state(steps=optimizer.steps)
    for name, whole in (("m", flat.m), ("v", flat.v)):
        own = {id(p): view for p, view in zip(flat.parameters, flat.views(whole), strict=True)}
        row = optimizer._state[optimizer.moments.index(name)]
        for number, parameter in enumerate(parameters):
            own[id(parameter)][...] = row[number]
            row[number] = own[id(parameter)]
    return flat


def common_decay(optimizer: optimizers.Optimizer) -> float | None:
    """Return the weight decay of all matrices, or None if a group has its own rate or decay."""
    decay = max(optimizer._decays)
    usual = [decay if parameter.ndim > 1 else 0.0 for parameter in optimizer.parameters]
    return decay if set(optimizer._lr_scales) == {1.0} and optimizer._decays == usual else None
