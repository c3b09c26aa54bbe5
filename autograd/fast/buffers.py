"""Memory that large ops use again.

The system fills each page of a new array with zeros, which can take as long as an op's arithmetic. A process that calls
`train.updates.keep_freed_memory` has no such costs. Everywhere else, an op can take an array that it keeps for its
backward pass, or a large gradient, from here. The array's memory is free again when neither the array nor a view of it
exists any more.
"""

import math
import weakref
from collections import defaultdict
from typing import Any

import numpy as np

#: The most bytes that are kept although no array uses them.
LIMIT = 1 << 26
_free: defaultdict[int, list[np.ndarray]] = defaultdict(list)  # by the logarithm of the size


def buffer(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an array with arbitrary values, if possible in memory that an earlier array has used."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    exponent = (size - 1).bit_length()
    try:
        memory = _free[exponent].pop()  # atomic, as is `append`: another thread can't get the same memory
    except IndexError:
        memory = np.empty(1 << exponent, np.uint8)  # pages that are never written need no memory
    # For NumPy, this array owns its memory: it exists as long as any view.
    owner = np.frombuffer(memory.data[:size], dtype)
    weakref.finalize(owner, _give_back, exponent, memory).atexit = False
    return owner.reshape(shape)


def _give_back(exponent: int, memory: np.ndarray) -> None:
    if sum(len(arrays) << size for size, arrays in list(_free.items())) + memory.size <= LIMIT:
        _free[exponent].append(memory)
