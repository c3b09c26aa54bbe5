"""Count the chunks of text between blanks.

Most chunks are words of at most eight bytes. A word of this length fits into a 64-bit number, and NumPy sorts and
counts numbers several times faster than a dict counts byte strings. A dict is used only for longer words.
"""

from collections import Counter
from itertools import islice

import numpy as np
from numpy.typing import NDArray

_BLANK = 0x20
_MASKS = np.array([(1 << 8 * length) - 1 for length in range(9)], dtype=np.uint64)


class ChunkCounts:
    """Counts of the chunks in the blocks of bytes that were added.

    Attributes:
        size: the approximate number of bytes of the distinct chunks.
    """

    def __init__(self) -> None:
        self.size = 0
        self._long: Counter[bytes] = Counter()
        self._short: list[NDArray[np.uint64]] = []  # the distinct short chunks of each block
        self._counts: list[NDArray[np.int64]] = []

    def add(self, block: bytes) -> None:
        """Add the counts of a block's chunks."""
        if b"\0" in block:  # as a number, a NUL byte would equal the zeros after a shorter chunk
            self._add_long(block.split(b" "))
            return
        padded = block + b" " + bytes(7)
        ends = np.flatnonzero(np.frombuffer(padded, dtype=np.uint8) == _BLANK)
        starts = np.concatenate([[0], ends[:-1] + 1])
        lengths = ends - starts
        short = lengths <= 8
        eight_bytes = np.ndarray(len(padded) - 7, np.dtype("<u8"), padded, strides=(1,))  # from every byte on
        chunks, counts = np.unique(eight_bytes[starts[short]] & _MASKS[lengths[short]], return_counts=True)
        self._short.append(chunks)
        self._counts.append(counts)
        self.size += 16 * len(chunks)
        bounds = zip(starts[~short].tolist(), ends[~short].tolist(), strict=True)
        self._add_long([block[start:end] for start, end in bounds])

    def _add_long(self, chunks: list[bytes]) -> None:
        known = len(self._long)
        self._long.update(chunks)
        self.size += sum(map(len, islice(reversed(self._long), len(self._long) - known)))

    def take(self) -> dict[bytes, int]:
        """Return the counts. The object can't be used afterwards."""
        result = dict(self._long)
        if self._short:
            numbers, counts = np.concatenate(self._short), np.concatenate(self._counts)
            distinct, places = np.unique(numbers, return_inverse=True)
            sums = np.bincount(places, counts).astype(np.int64).tolist()  # exact below 2^53
            for chunk, count in zip(distinct.astype("<u8").view("S8").tolist(), sums, strict=True):
                result[chunk] = result.get(chunk, 0) + count
        return result
