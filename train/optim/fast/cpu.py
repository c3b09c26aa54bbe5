"""Updates and norms in blocks that stay in the processor's cache between the passes over them, divided among threads.

Adam's update of a block works in place with NumPy, or in a compiled loop that reads and writes arrays once. It uses a
gradient of few rows (`RowGradient`) without converting it. The results are bit-equal to the plain ones.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....autograd.backend import array_module
from ....autograd.fast import compiled
from ....autograd.quick import PIECE, blocks, parallel_for, replaces
from ....autograd.row_gradient import RowGradient
from .. import optimizers


@replaces(optimizers.update_all)
def update_all(optimizer: optimizers.Optimizer, work: Sequence[optimizers.Work]) -> None:
    """Update all blocks of all parameters, divided among threads."""
    # The rule of another class may need whole arrays, and may not know gradients of few rows.
    own = type(optimizer)._update in (optimizers.SGD._update, optimizers.Adam._update)
    parts: list[tuple[list[Any], Any, slice, dict[str, Any]]] = []
    for parameter, moments, numbers in work:
        gradient = parameter.grad_or_rows if own and isinstance(optimizer, optimizers.Adam) else parameter.grad
        arrays = [parameter.data, *moments]
        if not (own and all(array.flags.c_contiguous for array in arrays)):
            # A transposed array, for example, has no flat view: its blocks would be copies, and the update would be
            # lost.
            optimizer._update(parameter.data, parameter.grad, *moments, **numbers)
            continue
        length = PIECE
        if isinstance(gradient, RowGradient):  # in blocks of whole rows
            length = max(PIECE // max(parameter.shape[1], 1), 1)
        else:
            gradient, *arrays = (array.reshape(-1) for array in (gradient, *arrays))
        starts = range(0, len(arrays[0]), length)
        parts += [(arrays, gradient, slice(start, start + length), numbers) for start in starts]

    def update(first: int, last: int) -> None:
        for arrays, gradient, block, numbers in parts[first:last]:
            w, *moments = (array[block] for array in arrays)
            optimizer._update(w, gradient[block], *moments, **numbers)

    parallel_for(array_module(optimizer.parameters[0].data), len(parts), update, cost=PIECE)


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
        rows = g.rows.astype(m.dtype, copy=False)
        m[g.ids] += rows * c1
        v[g.ids] += rows * rows * c2
        scratch = np.sqrt(v)
    else:
        xp, g = array_module(g), g.astype(m.dtype, copy=False)
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


@replaces(optimizers.squared_norms)
def squared_norms(gradients: Sequence[Any]) -> list[float]:
    """Compute the squared norms, divided among threads; the sum over an array does not depend on their number."""
    squares = [0.0] * len(gradients)

    def part(first: int, last: int) -> None:
        squares[first:last] = map(optimizers.squared_norm, gradients[first:last])

    if gradients:
        mean_size = sum(g.size for g in gradients) / len(gradients)
        parallel_for(array_module(gradients[0]), len(gradients), part, cost=optimizers.NORM_COST * mean_size)
    return squares


@replaces(optimizers.in_blocks)
def in_blocks(function: Callable[..., None], rows: Sequence[Sequence[Any]], cost: float) -> None:
    """Call the function for the blocks of all arrays, divided among threads."""
    pieces: list[Sequence[Any]] = []
    for arrays in rows:
        if all(isinstance(array, np.ndarray) and array.flags.c_contiguous for array in arrays):
            flat = [array.reshape(-1) for array in arrays]
            pieces += [[array[block] for array in flat] for block in blocks(0, flat[0].size)]
        else:
            pieces.append(arrays)

    def part(first: int, last: int) -> None:
        for arrays in pieces[first:last]:
            function(*arrays)

    if pieces:
        parallel_for(array_module(pieces[0][0]), len(pieces), part, cost=cost * PIECE)
