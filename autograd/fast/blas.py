"""The linear algebra library that NumPy was built with: its name and settings, and OpenBLAS's own functions."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Blas:
    """The linear algebra library under NumPy: its name and version, the kernels it chose, its threads (0: unknown)."""

    name: str
    kernel: str
    threads: int


def blas_of_numpy() -> Blas:
    """The library under NumPy, from NumPy's build record and from OpenBLAS itself if NumPy uses it."""
    config: Any = np.show_config(mode="dicts")
    built = config.get("Build Dependencies", {}).get("blas", {})
    name = f"{built.get('name', 'unknown')} {built.get('version', '')}".strip()
    kernel = openblas_function("get_corename", ctypes.c_char_p)
    threads = openblas_function("get_num_threads")
    return Blas(name, kernel().decode() if kernel else "unknown", threads() if threads else 0)


def openblas_function(name: str, result: Any = ctypes.c_int) -> Any:
    """A function of the OpenBLAS that NumPy's core is linked with, such as "get_num_threads"; None if there is none."""
    try:
        library = ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]  # finds the symbols of what it is linked with
    except (AttributeError, OSError):
        return None
    for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
        function = getattr(library, f"{prefix}openblas_{name}{suffix}", None)
        if function is not None:
            function.restype = result
            return function
    return None
