"""Adam's update as a compiled loop, which reads and writes each array once; bit-equal to the plain one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....autograd.fast import compiled
from ....autograd.quick import replaces
from ....autograd.row_gradient import RowGradient
from .. import optimizers


@replaces(optimizers.adam)
def adam(w: Any, g: Any, m: Any, v: Any, numbers: tuple[float, ...]) -> None:
    """Adam's update of large contiguous float32 arrays, if Numba is installed; else the plain implementation."""
    rows = g.rows if isinstance(g, RowGradient) else g
    arrays = [w, rows, m, v]
    if compiled.unsupported_reason(arrays, {}) or not all(array.flags.c_contiguous for array in arrays):
        optimizers.adam.__wrapped__(w, g, m, v, numbers)  # type: ignore[attr-defined]
        return
    loops, scalars = compiled.loops(), [np.float32(number) for number in numbers]
    if isinstance(g, RowGradient):
        loops.adam_rows(w, g.ids, rows, m, v, *scalars)
    else:
        loops.adam(*(array.reshape(-1) for array in arrays), *scalars)
