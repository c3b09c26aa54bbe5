"""The update of all parameters on the device in three launches: the gradient norm; loss scale and step count; Adam.

All parameters are in one array; so are all gradients, and each of Adam's two moments. The loss scale of fp16 training,
the step count, the learning rate and the decision to skip a step that overflowed are on the device. The host therefore
never waits for the device, and a captured graph uses the current values of these numbers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend import Array, array_module
from .loading import launch, load_kernel

_THREADS = 256
_BLOCKS = 1056  # eight for each multiprocessor of a large device
PARTS = 32  # as in adam.cu

#: The device's memory between steps, as `struct State` of adam.cu.
STATE = np.dtype(
    [
        ("loss_scale", "f4"), ("multiplier", "f4"), ("norm", "f4"),
        ("good", "i4"), ("steps", "i4"), ("skipped", "i4"), ("failed", "i4"),
    ]
)  # fmt: skip


def new_state(xp: Any, loss_scale: float = 1.0) -> Array:
    """Return the state before the first step, an array (7,) of 32-bit values on the device."""
    state = np.zeros(1, STATE)
    state["loss_scale"] = loss_scale
    return xp.asarray(state.view(np.float32))


def read_state(state: Array) -> dict[str, float]:
    """Copy the state to the host, unless it is there, and return its values by name. This waits for the device."""
    host = (state if isinstance(state, np.ndarray) else state.get()).view(STATE)[0]
    return {name: host[name].item() for name in STATE.names or ()}


def add_parts(flat: Array, places: Array, first: int, parts: Sequence[Array | None]) -> None:
    """Add up to PARTS arrays to parts of `flat`, which has the same dtype. Array k is added to the elements that row
    first + k of `places`, (start, size) int64, selects. None is skipped.
    """
    parts = [None if part is None else array_module(part).ascontiguousarray(part) for part in parts]
    largest = max((part.size for part in parts if part is not None), default=0)
    if largest:
        grid = max(min(-(-largest // (8 * _THREADS)), _BLOCKS // 4), 1), len(parts)
        args = flat, places, np.int32(first), *parts, *([None] * (PARTS - len(parts)))
        launch(load_kernel("adam.cu", "add_parts", HALF=flat.dtype == np.float16), grid, (_THREADS,), args)


def prepare_update(
    gradient: Array,
    state: Array,
    settings: Array,
    *,
    max_norm: float | None = None,
    interval: int = 1000,
    least: float = 1.0,
) -> None:
    """Write into `state` the norm of the flat `gradient`, its factor, whether to skip the step, and the next loss
    scale.

    Args:
        state: the array made by `new_state`, which is modified in place.
        settings: (2,) float32: the learning rate, and a factor of the gradient in addition to 1 / loss scale.
        max_norm: maximum of the gradient's norm, to which a larger gradient is scaled down; None for no maximum.
        interval, least: number of steps without overflow before the loss scale doubles, and the minimum of the loss
            scale.
    """
    blocks = max(min(-(-gradient.size // _THREADS), _BLOCKS), 1)
    partial = array_module(gradient).empty(blocks, np.float32)
    half = gradient.dtype == np.float16
    args: tuple[Any, ...] = (gradient, partial, np.int64(gradient.size))
    launch(load_kernel("adam.cu", "squared_norm", HALF=half), (blocks,), (_THREADS,), args, 128)
    bound = np.float32(np.inf if max_norm is None else max_norm)
    args = (partial, np.int32(blocks), state, settings, bound, np.int32(interval), np.float32(least))
    launch(load_kernel("adam.cu", "prepare_update", HALF=half), (1,), (_THREADS,), args, 128)


def adam(
    weights: Array,
    gradient: Array,
    m: Array,
    v: Array,
    copy: Array,
    state: Array,
    settings: Array,
    *,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float = 0.0,
    decayed: int = 0,
) -> None:
    """Update flat float32 weights and moments by Adam. `copy` receives the weights in the gradient's dtype.

    `settings` are the settings of `prepare_update`. Weight decay applies to the first `decayed` elements. If
    `prepare_update` decided to skip the step, nothing changes.
    """
    blocks = max(min(-(-weights.size // _THREADS), _BLOCKS), 1)
    numbers = map(np.float32, (*betas, eps, weight_decay))
    args = (weights, gradient, m, v, copy, state, settings, np.int64(weights.size), np.int64(decayed), *numbers)
    launch(load_kernel("adam.cu", "adam", HALF=gradient.dtype == np.float16), (blocks,), (_THREADS,), args)
