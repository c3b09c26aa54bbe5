"""What slows handloom down on this machine, and the cure: python -m handloom.doctor"""

from __future__ import annotations

import ctypes
import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Blas:
    """The linear algebra library under NumPy: its name and version, the kernels it chose, its threads (0: unknown)."""

    name: str
    kernel: str
    threads: int


def blas_of_numpy() -> Blas:
    """Ask NumPy's build record, and OpenBLAS itself where that is what it uses."""
    config: Any = np.show_config(mode="dicts")
    built = config["Build Dependencies"]["blas"]
    name = f"{built.get('name', 'unknown')} {built.get('version', '')}".strip()
    kernel, threads = _openblas("get_corename", ctypes.c_char_p), _openblas("get_num_threads", ctypes.c_int)
    return Blas(name, kernel.decode() if kernel else "unknown", threads or 0)


def _openblas(function: str, result: Any) -> Any:
    """Call a function of the OpenBLAS that NumPy's core is linked with; None if there is none."""
    core = sys.modules.get("numpy._core._multiarray_umath")
    try:
        library = ctypes.CDLL(str(Path(core.__file__)))  # type: ignore[union-attr, arg-type]
    except (AttributeError, TypeError, OSError):
        return None
    for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
        call = getattr(library, f"{prefix}openblas_{function}{suffix}", None)
        if call is not None:
            call.restype = result
            return call()
    return None
