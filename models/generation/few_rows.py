"""Products of few rows with large weights, in compiled code: by a loop, or by MKL.

A `team` of threads shares the blocks of columns into which the weights are cut. Needs Numba (the extra `fast`) and MKL
(`mkl`).
"""

from __future__ import annotations

import numpy as np

from ...autograd import mkl
from ...autograd.loops import WIDTH, few_rows, fused
from .team import PARTS, call_address, floats, integers, intrinsic, ir, job, run, types, usable

__all__ = ["FEW", "MOST", "WIDTH", "multiply", "usable"]

#: More rows are multiplied by MKL, which holds more of them in registers than the loop.
FEW = 8
#: Even more are left to others: a thread has room for so many.
MOST = 256
_FLOAT = 4  # bytes


@intrinsic
def _gemm(context, function, m, n, k, a, a_step, b, b_step, c, c_step):
    """Call cblas_sgemm at an address: c = a @ b, all by rows, addresses and lengths of rows."""

    def write(context, builder, signature, arguments):
        number, real, address = ir.IntType(32), ir.FloatType(), ir.IntType(64)
        kinds = [*[number] * 6, real, address, number, address, number, real, address, number]
        function, *sizes, a, a_step, b, b_step, c, c_step = arguments
        m, n, k, a_step, b_step, c_step = (builder.trunc(one, number) for one in (*sizes, a_step, b_step, c_step))
        by_rows, as_it_is = number(mkl.ROW_MAJOR), number(mkl.AS_IT_IS)
        given = [by_rows, as_it_is, as_it_is, m, n, k, real(1.0), a, a_step, b, b_step, real(0.0), c, c_step]
        call_address(builder, function, kinds, given)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 10), write


@fused
def _add_bias(product, bias, y, relu):
    """y = product + bias, or the ReLU of it."""
    for j in range(y.size):
        t = product[j] + bias[j]
        y[j] = np.float32(0) if relu and t < 0 else t  # NaN stays


@job
def _blocks(arguments, part):
    """One part of a product: some blocks of columns of y = x @ weights + bias, or of its ReLU."""
    rows, inner, blocks, columns, step, x_at, weights_at, bias_at, y_at, relu, gemm = integers(arguments, 11)
    x, scratch = floats(x_at, (rows, inner)), np.empty(rows * WIDTH, np.float32)
    for number in range(blocks * part // PARTS, blocks * (part + 1) // PARTS):
        weights, first = weights_at + number * inner * WIDTH * _FLOAT, number * WIDTH
        if gemm:
            _gemm(gemm, rows, WIDTH, inner, x_at, inner, weights, WIDTH, scratch.ctypes.data, WIDTH)
        else:
            few_rows(x, floats(weights, inner * WIDTH), scratch)
        count = min(columns - first, WIDTH)
        bias = floats(bias_at + first * _FLOAT, count)
        for r in range(rows):
            y = floats(y_at + (r * step + first) * _FLOAT, count)
            _add_bias(scratch[r * WIDTH :], bias, y, relu)


def multiply(x: np.ndarray, blocks: np.ndarray, bias: np.ndarray, y: np.ndarray, relu: bool = False) -> None:
    """y = x @ W^T + bias, or the ReLU of it, for W^T cut into blocks.

    Args:
        x: (rows, inner), at most MOST rows, contiguous; inner is a multiple of 4.
        blocks: (number, inner, WIDTH), contiguous: columns 0 to WIDTH - 1, and so on, padded.
        bias: (columns,), contiguous.
        y: (rows, columns), whose rows are contiguous.

    All are float32. The caller checks all this: here they become addresses.
    """
    gemm = mkl.address("cblas_sgemm") if len(x) > FEW else 0
    places = x.ctypes.data, blocks.ctypes.data, bias.ctypes.data, y.ctypes.data
    run(_blocks, *x.shape, len(blocks), y.shape[1], y.strides[0] // _FLOAT, *places, relu, gemm)
