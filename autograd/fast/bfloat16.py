"""The product of matrices in bfloat16, c = a b, for processors with AVX512-BF16.

`bfloat16_tile.tile` computes a tile of c, 6 rows and 64 columns, from a strip of 6 rows of a and a strip of 64 columns
of b. All sums of a tile are in registers, so for each pair of inner indices it loads 6 + 64 pairs of numbers, and does
2 * 2 * 6 * 64 operations with them. The strips must be read from a cache, one number after another:

- The inner indices are divided into blocks of DEEP. A strip of b is then 128 KB: it stays in the second-level cache
  while the tiles of a block of rows are computed.
- Both operands are packed: rounded to bfloat16, with the two numbers of a pair of inner indices in 32 bits, as the
  instruction takes them, and in the order in which the tiles read them. b is packed once, strip by strip, for all
  threads. a is packed in blocks of HIGH rows, which are multiplied by all strips of b.

So there are four loops: blocks of inner indices, blocks of rows, strips of b, strips of a. Each sum adds its products
in the order of the inner indices, whatever rows and columns a thread computes: its bits don't depend on the threads. If
the number of inner indices is odd, a zero completes the last pair. A tile across the edge of c is computed aside, and
the part within c is copied.

A matrix is given by the address of its first number, the distance `stride` between its lines (numbers side by side in
memory), and `along`: whether the lines run along the inner indices. docs/performance.md explains the choice of 6 x 64.
"""

import numpy as np
from numba import carray

from .bfloat16_tile import COLUMNS, ROWS, bits_at, tile
from .loops import exact, inlined

#: Inner indices of a block, and rows of a block of the left operand (a multiple of ROWS).
DEEP, HIGH = 1024, 96
_SOME = 128  # inner indices of a strip that are transposed at a time, in the first-level cache
_U = np.uint32


@inlined
def rounded(bits):
    """Return the upper half of a float32 number, given as its bits, rounded to nearest, ties to even. NaN stays NaN."""
    number = (bits + _U(0x7FFF) + ((bits >> _U(16)) & _U(1))) >> _U(16)
    return (bits >> _U(16)) | _U(0x40) if bits & _U(0x7FFFFFFF) > _U(0x7F800000) else number


@exact
def round_line(line, out):
    """Round a line along the inner indices. Neighbours in memory are pairs already."""
    for j in range(len(line)):
        out[j] = np.uint16(rounded(line[j]))


@exact
def pair_lines(low, high, out):
    """Round two lines across the inner indices, and join the numbers of each pair."""
    for j in range(len(out)):
        out[j] = rounded(low[j]) | (rounded(high[j]) << _U(16))


@exact
def pair_lines_at(matrix, stride, first, k, end, out):
    """Write the pairs of inner indices (k, k + 1), from index `first` of the other axis on. Index `end` is a zero."""
    low = carray(bits_at(matrix, k * stride + first), len(out))
    if k + 1 < end:
        pair_lines(low, carray(bits_at(matrix, (k + 1) * stride + first), len(out)), out)
    else:
        for j in range(len(out)):
            out[j] = rounded(low[j])


@exact
def pack_right(b, stride, along, inner, columns, packed, start, stop):
    """Pack the strips `start` to `stop` of b."""
    width = -(-columns // COLUMNS) * COLUMNS
    some = np.zeros((COLUMNS, _SOME), np.uint16)
    some_pairs = some.view(np.uint32)
    for k0 in range(0, inner, DEEP):
        k1 = min(k0 + DEEP, inner)
        for strip in range(start, stop):
            n0 = strip * COLUMNS
            n1, o = min(n0 + COLUMNS, columns), width * (k0 // 2) + n0 * ((k1 - k0 + 1) // 2)
            for k in range(k0, k1, _SOME if along else 2):
                if along:
                    length = min(_SOME, k1 - k)
                    for n in range(n1 - n0):
                        round_line(carray(bits_at(b, (n0 + n) * stride + k), length), some[n, :length])
                        if length % 2:
                            some[n, length] = 0
                    for p in range((length + 1) // 2):
                        line = packed[o : o + COLUMNS]
                        for n in range(COLUMNS):
                            line[n] = some_pairs[n, p]
                        o += COLUMNS
                else:
                    pair_lines_at(b, stride, n0, k, k1, packed[o : o + n1 - n0])
                    o += COLUMNS


@exact
def pack_left(a, stride, along, m0, m1, k0, k1, left):
    """Pack rows m0 to m1 and inner indices k0 to k1 of a: row by row if lines run along the rows, else pair by pair."""
    pairs = (k1 - k0 + 1) // 2
    if along:
        halves = left.view(np.uint16)
        for i in range(m1 - m0):
            row = halves[2 * i * pairs : 2 * (i + 1) * pairs]
            row[2 * pairs - 1] = 0
            round_line(carray(bits_at(a, (m0 + i) * stride + k0), k1 - k0), row[: k1 - k0])
    else:
        for p in range(pairs):
            pair_lines_at(a, stride, m0, k0 + 2 * p, k1, left[p * HIGH : p * HIGH + m1 - m0])


@exact
def multiply(a, stride, along, packed, out, out_stride, rows, inner, columns, add):
    """Write a (rows, inner) times the packed b (inner, columns) into `out`, or add it."""
    width = -(-columns // COLUMNS) * COLUMNS
    left, edge = np.empty(HIGH * DEEP // 2, np.uint32), np.empty((ROWS, COLUMNS), np.float32)
    for k0 in range(0, inner, DEEP):
        k1 = min(k0 + DEEP, inner)
        pairs, adds = (k1 - k0 + 1) // 2, add or k0 > 0
        row, step = (pairs, 1) if along else (1, HIGH)
        for m0 in range(0, rows, HIGH):
            m1 = min(m0 + HIGH, rows)
            pack_left(a, stride, along, m0, m1, k0, k1, left)
            for n0 in range(0, columns, COLUMNS):
                strip = bits_at(packed.ctypes.data, width * (k0 // 2) + n0 * pairs)
                wide = min(COLUMNS, columns - n0)
                for i in range(0, m1 - m0, ROWS):
                    rows_of_a, high = bits_at(left.ctypes.data, i * row), min(ROWS, m1 - m0 - i)
                    at = (m0 + i) * out_stride + n0
                    if high == ROWS and wide == COLUMNS:
                        tile(rows_of_a, row, step, strip, bits_at(out, at), out_stride, pairs, np.uint8(adds))
                        continue
                    tile(rows_of_a, row, step, strip, bits_at(edge.ctypes.data, 0), COLUMNS, pairs, np.uint8(0))
                    for r in range(high):
                        line = carray(bits_at(out, at + r * out_stride), wide).view(np.float32)
                        for j in range(wide):
                            line[j] = line[j] + edge[r, j] if adds else edge[r, j]
