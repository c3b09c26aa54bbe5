"""Compute x W^T + b for the few rows x of a decoding step, which spends most of its time in these products.

Before a BLAS multiplies large matrices, it copies both matrices into the order in which its kernel reads them. With the
1 to 200 rows of a decoding step, this copy takes as long as the arithmetic. OpenBLAS's kernels for AVX-512 compute
products of up to 10^6 multiplications without the copy. So `pack` cuts W^T into contiguous blocks of columns. NumPy
multiplies x with each block in a separate call, and the blocks are divided among threads. If Numba is installed,
`few_rows` computes the products instead.
"""

import functools
from typing import Any

import numpy as np

from ....autograd.backend import array_module, blas_of_numpy
from ....autograd.fast import compiled
from ....autograd.quick import parallel_for, replaces, slices
from .. import affine as plain
from ..affine import Affine, finish

COLUMNS = 32  # of a block
SMALL = 1_000_000  # multiplications of a product that OpenBLAS does not copy
CHUNK = 1 << 16  # elements of the result that get bias and ReLU while they are in the processor's cache
MIN_WEIGHTS = 1 << 20  # weights of a decoder
IN_PLACE = ("SkylakeX", "Cooperlake", "SapphireRapids")  # OpenBLAS's names of its kernels for AVX-512


@functools.cache
def reads_in_place() -> bool:
    """Return whether NumPy's BLAS library multiplies small matrices without copying them."""
    return blas_of_numpy().kernel in IN_PLACE


@replaces(plain.affine)
class PackedAffine(Affine):
    """An Affine whose weights can be cut into blocks by `pack`.

    Attributes:
        blocks: the packed weights (number, in_features, columns), padded with zeros.
        compiled: whether `few_rows` multiplies the blocks.
    """

    def __init__(self, weight: Any, bias: Any):
        super().__init__(weight, bias)
        self.blocks: np.ndarray | None = None
        self.compiled = False

    def buffer(self, rows: int) -> Any:
        """Allocate an array for the results of up to this number of rows."""
        if self.blocks is None:
            return super().buffer(rows)
        number, _, width = self.blocks.shape
        groups, size = self._groups(rows, width)
        return np.empty((groups * size, number * width), self.dtype)

    def __call__(self, x: Any, buffer: Any = None, relu: bool = False) -> Any:
        """Map (rows, in_features) to (rows, out_features). The result is written into `buffer` if there is one."""
        rows, packed, bias = len(x), self.blocks, self.bias
        if packed is None:
            return super().__call__(x, buffer, relu)
        y = self.buffer(rows) if buffer is None else buffer
        if self.compiled and x.dtype == self.dtype and x.shape[1] == self.in_features:
            y = y[:rows, : self.out_features]
            _few_rows().multiply(np.ascontiguousarray(x), packed, bias, y, relu)
            return y
        width = packed.shape[2]
        groups, size = self._groups(rows, width)
        if groups * size > rows:
            x = np.concatenate([x, np.zeros((groups * size - rows, self.in_features), x.dtype)])
        x = x.reshape(1, groups, size, self.in_features)
        y = y[: groups * size]
        results = y.reshape(groups, size, len(packed), width).transpose(2, 0, 1, 3)
        chunk = max(CHUNK // (len(y) * width), 1)

        def part(first: int, last: int) -> None:
            for some in slices(first, last, chunk):
                np.matmul(x, packed[some, None], out=results[some])
                columns = slice(some.start * width, min(some.stop * width, self.out_features))
                finish(y[:rows, columns], None if bias is None else bias[columns], relu)

        # Reading a weight takes about 0.4 ns; multiplying it with a row takes 0.02 ns.
        parallel_for(np, len(packed), part, cost=self.in_features * width * (0.4 + 0.02 * rows))
        return y[:rows, : self.out_features]

    def _groups(self, rows: int, width: int) -> tuple[int, int]:
        """Divide the rows into groups, so that products are small; return the number of groups and their size.

        A single row gets a second one, of zeros: OpenBLAS's kernel for matrices reads weights from memory up to three
        times as fast as its kernel for vectors.
        """
        most = max(SMALL // (self.in_features * width), 1)
        groups = -(-rows // (1 << (most.bit_length() - 1)))  # the largest power of two
        return groups, -(-max(rows, 2) // max(groups, 1))


@functools.cache
def _few_rows() -> Any:
    """Return the module `few_rows`, which is imported at the first call."""
    from . import few_rows

    return few_rows


@replaces(plain.pack)
def pack(layers: list[PackedAffine]) -> None:
    """Copy the weights into the memory layout that is fastest for products with few rows.

    All weights are in one array, for which the operating system can use large pages; this makes reading 10% faster.
    """
    xp, dtype = layers[0].xp, layers[0].dtype
    loops, width = in_loops(layers), 1
    if loops:
        width = _few_rows().WIDTH
    elif xp is np and dtype in (np.float32, np.float64) and reads_in_place():
        width = COLUMNS
    line = 64 // dtype.itemsize  # numbers in a cache line, where each weight begins
    numbers = [layer.in_features * width * -(-layer.out_features // width) for layer in layers]
    flat = xp.empty(sum(numbers) + (len(layers) + 1) * line, dtype)
    offset = -flat.ctypes.data % 64 // dtype.itemsize if xp is np else 0
    for layer, size in zip(layers, numbers, strict=True):
        packed = flat[offset : offset + size]
        offset += -(-size // line) * line
        if width > 1:
            layer.blocks, layer.compiled = packed.reshape(-1, layer.in_features, width), loops
            for start, block in zip(range(0, layer.out_features, width), layer.blocks, strict=True):
                columns = layer.weight[:, start : start + width]
                block[:, : columns.shape[1]], block[:, columns.shape[1] :] = columns, 0
        else:
            packed = packed.reshape(layer.in_features, layer.out_features)
            packed[...] = layer.weight
            layer.weight = packed
        if layer.bias is not None:
            layer.bias = layer.bias.copy()
        elif loops:
            layer.bias = np.zeros(layer.out_features, dtype)


def in_loops(layers: list[PackedAffine]) -> bool:
    """Return whether `few_rows` can multiply these matrices and is faster.
    Its threads save no time if there are fewer than a million weights.
    """
    arrays = [array for layer in layers for array in (layer.weight, layer.bias) if array is not None]
    return (
        array_module(*arrays) is np
        and all(array.dtype == np.float32 for array in arrays)
        and sum(array.size for array in arrays) >= MIN_WEIGHTS
        and not compiled.missing()
        and _few_rows().usable()
    )
