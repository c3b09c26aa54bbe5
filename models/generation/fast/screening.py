"""Find the largest logits: compute bounds of all logits from 8-bit weights, and exact values of only a few.

Greedy search needs only the largest logit, but computing all logits takes a third to a half of its time if the
vocabulary has tens of thousands of tokens. 8-bit weights need a quarter of the memory of float32 weights, and
processors multiply several times as many of them in one instruction. Let w = s q + r be a row of weights and x = t p +
u an input, where q and p are integers from -127 to 127. Then

    |w . x - s t (q . p)| <= |r| |x| + |s q| |u|

by the Cauchy-Schwarz inequality, applied twice. This gives an upper and a lower bound of each logit. A token whose
upper bound is below the largest lower bound can't have the largest logit. The logits of the other tokens, usually less
than one in a thousand, are computed in float32. The bounds include the rounding errors of float32, so the result is the
token with the largest float32 logit, except when two logits differ only by rounding errors.

This module needs Numba (the extra `fast`). With MKL (`mkl`), its products of 8-bit integers are fast for any number of
rows; without MKL, a compiled loop computes them for few rows.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....autograd.fast import mkl
from ....autograd.fast.loops import LANES, fused, largest
from ....autograd.quick import blocks, parallel_for
from .team import INTEGER, PARTS, bytes_at, call_address, floats, integers, intrinsic, ir, job, run, types

LEVELS = 127  # the largest of the 8-bit integers
OFFSET = 128  # added to the integers of x, because one operand of MKL's product must be unsigned
PIECE = 1 << 16  # products that are computed at a time, and still in the processor's cache for the next pass
MIN_WEIGHTS = 1 << 22  # weights of an output layer; smaller ones cost little
MAX_FEATURES = 1 << 16  # the sum of so many products of 8-bit integers fits into 32 bits
MAX_ROWS = 2  # without MKL; more rows cost more in the loop than reading float32 weights
MIN_TOKENS_PER_CANDIDATE = 64  # if more than one token in so many can be the largest, the whole product is faster
_ROUNDING = 2.0**-24  # relative error of one operation in float32
_SOME_ROUNDINGS = np.float32(16 * _ROUNDING)
_LARGEST = 1e37  # larger lengths or bounds could overflow in float32
_SMALLEST = np.float32(1e-15)  # smaller units and lengths could underflow when two are multiplied


class Screen:
    """An output layer x W^T + b that computes only the logits that can be the largest. W (vocabulary, features) and b
    (vocabulary,), contiguous float32 arrays, are not copied, and must not change.
    """

    def __init__(self, weight: np.ndarray, bias: np.ndarray):
        vocabulary, features = weight.shape
        self.weight, self.bias = weight, bias
        self.integers, self.added = np.empty(weight.shape, np.int8), np.empty(vocabulary, np.int64)
        self.layer = np.empty((4, vocabulary), np.float32)  # s, b, |r|, |s q|
        scale, b, lost, kept = self.layer
        b[:], lengths = bias, np.empty(vocabulary, np.float32)

        def part(first: int, last: int) -> None:
            for some in blocks(first, last, features):
                self.integers[some], scale[some], r = quantise(weight[some])
                self.added[some] = OFFSET * self.integers[some].sum(axis=1, dtype=np.int64)
                lengths[some] = _length(weight[some])
                lost[some] = _length(r) + (features + 16) * _ROUNDING * lengths[some]  # rounding of the sum
                kept[some] = _length(weight[some] - r)

        with np.errstate(all="ignore"):
            parallel_for(np, vocabulary, part, cost=3.0 * features)
        #: |x| from which float32 may overflow; 0 or NaN if the weights or the bias are not finite.
        self.too_long = (_LARGEST - float(np.abs(bias).max())) / max(float(lengths.max()), 1.0)
        self._counts = functools.lru_cache(maxsize=4)(functools.partial(_counts, vocabulary))
        self._gemm = mkl.address("cblas_gemm_s8u8s32") if mkl.multiplies_bytes() else 0

    def __call__(self, x: np.ndarray, logits: np.ndarray, may_ban: Sequence[int]) -> bool:
        """Write the logits of x (rows, features) into `logits` (rows, vocabulary), or -inf for a token that can't be
        the largest, even if all tokens `may_ban` are banned. Returns False, and leaves `logits` undefined, if a number
        is not finite or is near the limit of float32, if too many logits are close to the largest, or if computing all
        logits is faster for this number of rows.
        """
        if not (self._gemm or len(x) <= MAX_ROWS):
            return False
        x = np.ascontiguousarray(x, np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            length = _length(x)
        if not float(length.max(initial=0)) < self.too_long:
            return False
        p, t, u = quantise(x)
        p = (p + np.int16(OFFSET)).astype(np.uint8)
        sizes = np.stack([t, length, _length(u) + np.float32(8 * _ROUNDING) * length])
        (rows, vocabulary), gap = logits.shape, logits.strides[0] // logits.itemsize
        lower, enough = np.empty((PARTS, rows), np.float32), np.zeros(rows, np.int64)
        layer = self.integers, self.added, self.layer, self._counts(tuple(may_ban))
        numbers = rows, x.shape[1], vocabulary, gap
        for stage, number, arrays in (
            (_bound, self._gemm, (*layer, p, sizes, logits, lower)),
            (_compute, vocabulary // MIN_TOKENS_PER_CANDIDATE, (self.weight, self.bias, x, logits, lower, enough)),
        ):
            run(stage, *numbers, number, *(array.ctypes.data for array in arrays))
        return bool(enough.all())


def _counts(vocabulary: int, may_ban: tuple[int, ...]) -> np.ndarray:
    """Return (vocabulary,) numbers: -inf for tokens whose lower bounds are ignored, 0 for the others."""
    counts = np.zeros(vocabulary, np.float32)
    counts[list(may_ban)] = -np.inf
    return counts


def screen(weight: Any, bias: Any) -> Screen | None:
    """Return a Screen of an output layer that `few_rows` multiplies, or None if it is not supported or not faster."""
    supported = weight.flags.c_contiguous and weight.size >= MIN_WEIGHTS and weight.shape[1] <= MAX_FEATURES
    return Screen(weight, bias) if supported else None


def quantise(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split rows x (n, features) into t q + u: 8-bit integers q, scales t (n,), and rounding errors u."""
    t = np.maximum(np.abs(x).max(axis=1) / LEVELS, _SMALLEST)
    q = np.rint(x / t[:, None])
    return q.astype(np.int8), t, x - q * t[:, None]


def _length(x: np.ndarray) -> np.ndarray:
    """Return the Euclidean length of each row of x (n, features), rounded up to float32 and at least _SMALLEST."""
    lengths = np.sqrt(np.einsum("ij,ij->i", x, x, dtype=np.float64)) * (1 + 8 * _ROUNDING)
    return np.maximum(lengths.astype(np.float32), _SMALLEST)


@fused
def logit_bounds(products, added, layer, counts, sizes, upper, lower):
    """Compute bounds of logits (rows, tokens) from the integer products (rows, tokens).

    `added` (tokens,) is the difference between the products and q . p. The rows of `layer` (4, tokens) are s, b, |r|
    and |s q|. `counts` (tokens,) is 0, or -inf for a token whose lower bound is ignored. The rows of `sizes` (3, rows)
    are t, |x| and |u|. The upper bounds are written into `upper` (rows, tokens). The largest lower bound is written
    into `lower` (rows,) if it is larger than the value there.
    """
    scale, bias, lost, kept = layer
    low, lanes = np.empty(products.shape[1], np.float32), np.empty(LANES, np.float32)
    for i in range(products.shape[0]):
        t, length, left = sizes[0, i], sizes[1, i], sizes[2, i]
        for j in range(products.shape[1]):
            middle = np.float32(products[i, j] - added[j]) * (scale[j] * t) + bias[j]
            error = length * lost[j] + left * kept[j] + abs(middle) * _SOME_ROUNDINGS
            upper[i, j] = middle + error
            low[j] = middle - error + counts[j]
        top = largest(low, lanes)
        lower[i] = top if top > lower[i] else lower[i]


@fused
def largest_logits(logits, least, weight, bias, x, most):
    """Replace the bounds of a row below `least` by -inf, the others by the logits; return False for over `most`."""
    tokens, found = np.empty(most, np.int64), 0
    for first in range(0, logits.size, LANES):
        some, reach = logits[first : first + LANES], 0
        for j in range(some.size):
            reach += some[j] >= least
        if reach:
            if found + reach > most:
                return False
            for j in range(some.size):
                if some[j] >= least:
                    tokens[found] = first + j
                    found += 1
    logits[:] = np.float32(-np.inf)
    for token in tokens[:found]:
        w, total = weight[token], np.float32(0)
        for k in range(x.size):
            total += w[k] * x[k]
        logits[token] = total + bias[token]
    return True


@fused
def _multiply_bytes(p, weights, products):
    """Compute p @ weights^T (rows, tokens) int32, of p (rows, features) uint8, weights (tokens, features) int8."""
    for j in range(products.shape[1]):
        for i in range(products.shape[0]):
            total = np.int32(0)
            for k in range(p.shape[1]):
                total += np.int32(p[i, k]) * np.int32(weights[j, k])
            products[i, j] = total


@intrinsic
def _gemm(context, function, m, n, k, a, b, c, nothing):
    """Compute c = a @ b^T by cblas_gemm_s8u8s32, for contiguous matrices; `nothing` is the address of a zero."""

    def write(context, builder, signature, arguments):
        number, byte, real, address = ir.IntType(32), ir.IntType(8), ir.FloatType(), ir.IntType(64)
        operand = [address, number, byte]
        kinds = [*[number] * 7, real, *operand, *operand, real, address, number, address]
        function, m, n, k, a, b, c, nothing = arguments
        m, n, k = (builder.trunc(one, number) for one in (m, n, k))
        layout = [number(one) for one in (mkl.ROW_MAJOR, mkl.NO_TRANS, mkl.TRANS, mkl.FIX_OFFSET)]
        given = [*layout, m, n, k, real(1.0), a, k, byte(0), b, k, byte(0), real(0.0), c, n, nothing]
        call_address(builder, function, kinds, given)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 8), write


@job
def _bound(arguments, part):
    """Write upper bounds of the logits of some tokens into `logits`, and the largest lower bound into `lower`."""
    rows, features, vocabulary, gap, gemm = integers(arguments, 5)
    weights, added_at, layer_at, counts_at, p, sizes_at, logits_at, lower_at = integers(arguments + 5 * INTEGER, 8)
    added, counts = integers(added_at, vocabulary), floats(counts_at, vocabulary)
    layer = floats(layer_at, (4, vocabulary))
    sizes, logits, lower = floats(sizes_at, (3, rows)), floats(logits_at, (rows, gap)), floats(lower_at, (PARTS, rows))
    step, last, nothing = max(PIECE // max(rows, 8), 1), vocabulary * (part + 1) // PARTS, np.zeros(1, np.int32)
    lower[part] = -np.inf
    for start in range(vocabulary * part // PARTS, last, step):
        end = min(start + step, last)
        products, some = np.empty((rows, end - start), np.int32), weights + start * features
        if gemm:
            _gemm(gemm, rows, end - start, features, p, some, products.ctypes.data, nothing.ctypes.data)
        else:
            weights_here = bytes_at(some, (end - start, features), np.int8)
            _multiply_bytes(bytes_at(p, (rows, features), np.uint8), weights_here, products)
        here = added[start:end], layer[:, start:end], counts[start:end]
        logit_bounds(products, *here, sizes, logits[:, start:end], lower[part])


@job
def _compute(arguments, part):
    """Compute the logits that can be the largest, for some rows; return False if there are too many of them."""
    rows, features, vocabulary, gap, most = integers(arguments, 5)
    weight_at, bias_at, x_at, logits_at, lower_at, enough_at = integers(arguments + 5 * INTEGER, 6)
    weight, bias = floats(weight_at, (vocabulary, features)), floats(bias_at, vocabulary)
    x, logits = floats(x_at, (rows, features)), floats(logits_at, (rows, gap))
    lower, enough = floats(lower_at, (PARTS, rows)), integers(enough_at, rows)
    for row in range(rows * part // PARTS, rows * (part + 1) // PARTS):
        enough[row] = largest_logits(logits[row, :vocabulary], lower[:, row].max(), weight, bias, x[row], most)
