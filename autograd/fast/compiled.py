"""Functions that tell whether compiled loops (Numba, the extra `fast`) are available and which arrays they support.

Memory limits the speed of a training step between its matrix products, because each NumPy call reads and writes whole
arrays. A compiled loop (`loops.py`) replaces several NumPy calls by one pass over memory. Numba compiles a loop when it
is first called, which takes 0.3 to 1 second. Numba stores the machine code next to the source, or in the user's cache
folder if the source's folder is not writable.
"""

import functools
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..backend import array_module
from ..quick import switched_on

#: Smaller arrays are left to NumPy: they stay in the cache between its calls.
MIN_ARRAY_SIZE = 1 << 14


_allowed = switched_on("HANDLOOM_COMPILED", True, "NumPy's calls only", "loops too")


@functools.cache
def missing() -> str | None:
    """Return the reason why compiled loops are not available, or None if they are available."""
    if not _allowed:
        return "HANDLOOM_COMPILED=0 leaves it out"
    return None if find_spec("numba") else "Numba is not installed: pip install numba"


def unsupported_reason(arrays: list[Any], options: dict[str, Any]) -> str | None:
    """Condition: compiled code is available, and the arrays are large float32 NumPy arrays."""
    if refused := missing():
        return refused
    if array_module(*arrays) is not np:
        return "the arrays are on a device"
    if any(array.dtype != np.float32 for array in arrays):
        return "its loops are for float32"
    if max(array.size for array in arrays) < MIN_ARRAY_SIZE:
        return f"no array has {MIN_ARRAY_SIZE:,} numbers: NumPy's calls cost little"
    return None


@functools.cache
def loops() -> Any:
    """Return the module of compiled loops, imported on first use because importing Numba takes a third of a second."""
    from . import loops

    return loops
