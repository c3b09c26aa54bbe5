"""Adam's update in place with NumPy, or in a compiled loop that reads and writes arrays once. Their bits are equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....autograd.backend import array_module
from ....autograd.fast import compiled
from ....autograd.quick import replaces
from ....autograd.row_gradient import RowGradient
from .. import optimizers


@replaces(optimizers.adam)
def adam(w: Any, g: Any, m: Any, v: Any, numbers: tuple[float, ...]) -> None:
    """Make Adam's update of large contiguous float32 arrays, if Numba is installed. `g` may be a RowGradient."""
    rows = g.rows if isinstance(g, RowGradient) else g
    arrays = [w, rows, m, v]
    if compiled.unsupported_reason(arrays, {}) or not all(array.flags.c_contiguous for array in arrays):
        in_place(w, g, m, v, numbers)
        return
    loops, scalars = compiled.loops(), [np.float32(number) for number in numbers]
    if isinstance(g, RowGradient):
        loops.adam_rows(w, g.ids, rows, m, v, *scalars)
    else:
        loops.adam(*(array.reshape(-1) for array in arrays), *scalars)


def in_place(w: Any, g: Any, m: Any, v: Any, numbers: tuple[float, ...]) -> None:
    """Make Adam's update with one extra array, which holds first a multiple of g, then of its square, then the step."""
    b1, c1, b2, c2, eps, rate, keep = numbers
    m *= b1
    v *= b2
    if isinstance(g, RowGradient):
        m[g.ids] += g.rows * c1
        v[g.ids] += g.rows * g.rows * c2
        scratch = np.sqrt(v)
    else:
        xp = array_module(g)
        scratch = g * c1
        m += scratch
        xp.multiply(g, g, out=scratch)
        scratch *= c2
        v += scratch
        xp.sqrt(v, out=scratch)
    scratch += eps
    array_module(m).divide(m, scratch, out=scratch)
    scratch *= rate
    if keep != 1:
        w *= keep
    w -= scratch
