"""Compute products of few rows with large weight matrices in compiled code.

The weights are cut into blocks of 16 columns, which are divided among the threads of a `team`. For a block and a tile
of up to 6 rows (12 with AVX-512), all sums stay in registers while the weights of the block are read once, in the order
of memory. So a few rows take no longer than reading the weights, and many rows come close to the processor's peak. A
BLAS first copies the matrices into this order, which takes as long as a product of few rows.

Each sum is added in the order of the inner dimension and in one rounding per product (fused multiply-add). So the bits
of a row do not depend on the other rows or on the number of threads.

It needs Numba (the extra `fast`).
"""

from typing import Any

import numpy as np

from ....autograd.fast.loops import inlined
from .team import FLOAT, PARTS, floats, integers, intrinsic, ir, job, run, types
from .team import usable as usable

WIDTH = 16  # columns of a block of weights: one vector register of AVX-512, two of AVX2, four of NEON


def _tile_rows() -> int:
    """Return the number of rows whose sums, with a vector of weights, fill the registers: 32 with AVX-512, else 16."""
    if types is None:
        return 1
    from llvmlite import binding

    try:
        return 12 if binding.get_host_cpu_features().get("avx512f") else 6
    except RuntimeError:  # LLVM can't ask this processor
        return 6


#: Rows of a tile.
ROWS = _tile_rows()


@intrinsic
def _multiply_tile(context, rows, x, inner, block, out):
    """Compute out (rows, WIDTH) = x (rows, inner) @ block (inner, WIDTH), given as addresses, for 1 to ROWS rows."""

    def write(context, builder, signature, arguments):
        rows, x, inner, block, out = arguments
        done = builder.append_basic_block("done")
        cases = builder.switch(rows, done)
        for count in range(1, ROWS + 1):
            here = builder.append_basic_block(f"rows_{count}")
            cases.add_case(ir.IntType(64)(count), here)
            builder.position_at_end(here)
            _write_tile(builder, count, x, inner, block, out)
            builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), write


def _write_tile(builder: Any, rows: int, x: Any, inner: Any, block: Any, out: Any) -> None:
    """Generate the loop over the inner dimension for this number of rows."""
    from numba.core import cgutils

    integer, real, vector = ir.IntType(64), ir.FloatType(), ir.VectorType(ir.FloatType(), WIDTH)
    name, undefined = f"llvm.fma.v{WIDTH}f32", ir.Constant(vector, ir.Undefined)
    multiply_add = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)
    first_lane = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)

    def place(address: Any, offset: Any, kind: Any) -> Any:
        return builder.inttoptr(builder.add(address, offset), ir.PointerType(kind))

    sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * WIDTH)) for _ in range(rows)]
    starts = [builder.add(x, builder.mul(inner, integer(FLOAT * row))) for row in range(rows)]
    with cgutils.for_range(builder, inner) as loop:
        weights = builder.load(place(block, builder.mul(loop.index, integer(FLOAT * WIDTH)), vector), align=FLOAT)
        for start, total in zip(starts, sums, strict=True):
            number = builder.load(place(start, builder.mul(loop.index, integer(FLOAT)), real), align=FLOAT)
            lane = builder.insert_element(undefined, number, ir.IntType(32)(0))
            everywhere = builder.shuffle_vector(lane, undefined, first_lane)
            builder.store(builder.call(multiply_add, [everywhere, weights, builder.load(total)]), total)
    for row, total in enumerate(sums):
        builder.store(builder.load(total), place(out, integer(FLOAT * WIDTH * row), vector), align=FLOAT)


@inlined
def _add_bias(product, bias, y, relu, add):
    """Compute y = product + bias, ReLU of it, or y += product + bias."""
    for j in range(y.size):
        t = product[j] + bias[j]
        t = np.float32(0) if relu and t < 0 else t  # NaN stays
        y[j] = y[j] + t if add else t


@job
def linear(arguments, part):
    """Compute some blocks of columns of y = x @ weights + bias, of ReLU of it, or of y += x @ weights + bias.
    The numbers among the arguments are sizes, the distance of two rows of y, addresses, and two truth values.
    """
    rows, inner, blocks, columns, step, x_at, weights_at, bias_at, y_at, relu, add = integers(arguments, 11)
    product, tiles = np.empty((ROWS, WIDTH), np.float32), -(-rows // ROWS)  # of about equal size
    for number in range(blocks * part // PARTS, blocks * (part + 1) // PARTS):
        block, first = weights_at + number * inner * WIDTH * FLOAT, number * WIDTH
        count = min(columns - first, WIDTH)
        bias = floats(bias_at + first * FLOAT, count)
        for tile in range(tiles):
            start = rows * tile // tiles
            some = rows * (tile + 1) // tiles - start
            _multiply_tile(some, x_at + start * inner * FLOAT, inner, block, product.ctypes.data)
            for r in range(some):
                _add_bias(product[r], bias, floats(y_at + ((start + r) * step + first) * FLOAT, count), relu, add)


def multiply(x: np.ndarray, blocks: np.ndarray, bias: np.ndarray, y: np.ndarray, relu: bool = False) -> None:
    """Compute y = x @ W^T + bias, or y = ReLU(x @ W^T + bias), with W^T cut into blocks.

    The arrays are x (rows, inner), W^T as blocks of WIDTH columns (number, inner, WIDTH), of which the last one is
    padded, bias (columns,) and y (rows, columns). All must be float32 with contiguous rows; only addresses are passed.
    """
    places = x.ctypes.data, blocks.ctypes.data, bias.ctypes.data, y.ctypes.data
    run(linear, *x.shape, len(blocks), y.shape[1], y.strides[0] // FLOAT, *places, relu, False)
