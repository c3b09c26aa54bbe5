"""Compute products of few rows with large weight matrices, by a compiled loop or by MKL.

The weights are cut into blocks of columns, which are divided among the threads of a `team`. It needs Numba (the extra
`fast`) and MKL (`mkl`).
"""

from __future__ import annotations

import numpy as np

from ....autograd.fast import mkl
from ....autograd.fast.loops import inlined
from .team import PARTS, call_address, floats, integers, intrinsic, ir, job, run, types
from .team import usable as usable

WIDTH = 128  # columns of a block of weights
#: With more rows than this, MKL multiplies: it holds more rows in registers than the loop.
MAX_ROWS = 8
#: Maximum number of rows: a thread's buffer has room for this many.
MAX_BLOCK_ROWS = 256
_FLOAT = 4  # bytes


@inlined
def multiply_block(x, block, out):
    """Compute out = x @ block for x (rows, inner), flat `block` (inner * WIDTH) and `out` (rows * WIDTH).

    `inner` is a multiple of 8. Rows are processed in groups of four: each number of the block is read once for four
    rows, and each number of `out` once for four products. In a last group of fewer than four rows, `out` is read once
    for eight products. For up to about eight rows the speed is limited only by memory; for more rows a BLAS for large
    matrices is faster.
    """
    rows, inner = x.shape
    in_fours = rows - rows % 4
    out[:] = np.float32(0)
    for k in range(0, inner, 4):
        w = block[k * WIDTH : (k + 4) * WIDTH]
        for r in range(0, in_fours, 4):
            a0, a1, a2, a3 = x[r, k], x[r, k + 1], x[r, k + 2], x[r, k + 3]
            b0, b1, b2, b3 = x[r + 1, k], x[r + 1, k + 1], x[r + 1, k + 2], x[r + 1, k + 3]
            c0, c1, c2, c3 = x[r + 2, k], x[r + 2, k + 1], x[r + 2, k + 2], x[r + 2, k + 3]
            d0, d1, d2, d3 = x[r + 3, k], x[r + 3, k + 1], x[r + 3, k + 2], x[r + 3, k + 3]
            y = out[r * WIDTH : (r + 4) * WIDTH]
            for j in range(WIDTH):
                w0, w1, w2, w3 = w[j], w[WIDTH + j], w[2 * WIDTH + j], w[3 * WIDTH + j]
                y[j] += a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3
                y[WIDTH + j] += b0 * w0 + b1 * w1 + b2 * w2 + b3 * w3
                y[2 * WIDTH + j] += c0 * w0 + c1 * w1 + c2 * w2 + c3 * w3
                y[3 * WIDTH + j] += d0 * w0 + d1 * w1 + d2 * w2 + d3 * w3
    for k in range(0, inner, 8):
        w = block[k * WIDTH : (k + 8) * WIDTH]
        for r in range(in_fours, rows):
            a0, a1, a2, a3 = x[r, k], x[r, k + 1], x[r, k + 2], x[r, k + 3]
            a4, a5, a6, a7 = x[r, k + 4], x[r, k + 5], x[r, k + 6], x[r, k + 7]
            y = out[r * WIDTH : (r + 1) * WIDTH]
            for j in range(WIDTH):
                t = a0 * w[j] + a1 * w[WIDTH + j] + a2 * w[2 * WIDTH + j] + a3 * w[3 * WIDTH + j]
                u = a4 * w[4 * WIDTH + j] + a5 * w[5 * WIDTH + j] + a6 * w[6 * WIDTH + j] + a7 * w[7 * WIDTH + j]
                y[j] += t + u


@intrinsic
def _gemm(context, function, m, n, k, a, lda, b, ldb, c, ldc):
    """Compute c = a @ b by cblas_sgemm; arguments are the addresses and row lengths of row-major matrices."""

    def write(context, builder, signature, arguments):
        number, real, address = ir.IntType(32), ir.FloatType(), ir.IntType(64)
        kinds = [*[number] * 6, real, address, number, address, number, real, address, number]
        function, *sizes, a, lda, b, ldb, c, ldc = arguments
        m, n, k, lda, ldb, ldc = (builder.trunc(one, number) for one in (*sizes, lda, ldb, ldc))
        by_rows, no_trans = number(mkl.ROW_MAJOR), number(mkl.NO_TRANS)
        given = [by_rows, no_trans, no_trans, m, n, k, real(1.0), a, lda, b, ldb, real(0.0), c, ldc]
        call_address(builder, function, kinds, given)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 10), write


@inlined
def _add_bias(product, bias, y, relu):
    """Compute y = product + bias, or y = ReLU(product + bias)."""
    for j in range(y.size):
        t = product[j] + bias[j]
        y[j] = np.float32(0) if relu and t < 0 else t  # NaN stays


@job
def _blocks(arguments, part):
    """Compute some blocks of columns of y = x @ weights + bias, or of y = ReLU(x @ weights + bias)."""
    rows, inner, blocks, columns, step, x_at, weights_at, bias_at, y_at, relu, gemm = integers(arguments, 11)
    x, scratch = floats(x_at, (rows, inner)), np.empty(rows * WIDTH, np.float32)
    for number in range(blocks * part // PARTS, blocks * (part + 1) // PARTS):
        weights, first = weights_at + number * inner * WIDTH * _FLOAT, number * WIDTH
        if gemm:
            _gemm(gemm, rows, WIDTH, inner, x_at, inner, weights, WIDTH, scratch.ctypes.data, WIDTH)
        else:
            multiply_block(x, floats(weights, inner * WIDTH), scratch)
        count = min(columns - first, WIDTH)
        bias = floats(bias_at + first * _FLOAT, count)
        for r in range(rows):
            y = floats(y_at + (r * step + first) * _FLOAT, count)
            _add_bias(scratch[r * WIDTH :], bias, y, relu)


def multiply(x: np.ndarray, blocks: np.ndarray, bias: np.ndarray, y: np.ndarray, relu: bool = False) -> None:
    """Compute y = x @ W^T + bias, or y = ReLU(x @ W^T + bias), with W^T cut into blocks.

    Args:
        x: (rows, inner), at most MAX_BLOCK_ROWS rows, contiguous; inner is a multiple of 8.
        blocks: W^T as (number, inner, WIDTH), contiguous: blocks of WIDTH columns, of which the last block is padded.
        bias: (columns,), contiguous.
        y: (rows, columns), with contiguous rows.

    All are float32. The caller must check these conditions, because this function passes only addresses.
    """
    gemm = mkl.address("cblas_sgemm") if len(x) > MAX_ROWS else 0
    places = x.ctypes.data, blocks.ctypes.data, bias.ctypes.data, y.ctypes.data
    run(_blocks, *x.shape, len(blocks), y.shape[1], y.strides[0] // _FLOAT, *places, relu, gemm)
