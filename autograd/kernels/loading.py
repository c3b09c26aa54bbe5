"""Functions that load a `.cu` file, compile it and launch its kernels on the device.

CuPy compiles a source once and caches the result. The cache's key contains the source's text and the options, but not
the included files, so this module inserts the project's headers into the source.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import Array, DeviceError, array_module, import_cupy

FOLDER = Path(__file__).parent
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)


def read_source(file: str | Path) -> str:
    """Return the text of a kernel file, given by name or path, with each header of `#include "x.cuh"` inserted once.
    Raises FileNotFoundError for a file that does not exist.
    """
    return _inlined(FOLDER / file, set())


def _inlined(path: Path, seen: set[Path]) -> str:
    seen.add(path)
    text = path.read_text(encoding="utf-8").replace("#pragma once\n", "\n")

    def put_in(match: re.Match[str]) -> str:
        header = path.parent / match[1]
        line = text.count("\n", 0, match.start()) + 2
        return ("" if header in seen else _inlined(header, seen)) + f'\n#line {line} "{path.name}"'

    return f'#line 1 "{path.name}"\n' + _INCLUDE.sub(put_in, text)


def compile_options(constants: dict[str, int | bool]) -> tuple[str, ...]:
    """Return the compiler options that define the constants, booleans as 0 and 1."""
    return ("-std=c++17", *(f"-D{name}={int(value)}" for name, value in sorted(constants.items())))


def load_module(file: str, **constants: int | bool) -> Any:
    """Return the cupy.RawModule of a kernel file with the given constants.

    The module is created once, and compiled at its first `get_function`.

    `load_module("layer_norm.cu", WIDTH=512).get_function("layer_norm_forward")`. Raises DeviceError if there is no GPU.
    """
    return _load(import_cupy(), file, tuple(sorted(constants.items())))


def load_kernel(file: str, name: str, **constants: int | bool) -> Any:
    """Return one kernel of `load_module`. The kernel is cached, because its look-up takes longer than its launch."""
    return _load_kernel(import_cupy(), file, name, tuple(sorted(constants.items())))


def launch(kernel: Any, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...], shared: int = 0) -> None:
    """Launch a kernel on the current stream; `args[0]` is an array. Raises DeviceError if `args[0]` is not on the
    current GPU, on which the kernel would run.
    """
    first: Array = args[0]
    on_device = not isinstance(first, np.ndarray)  # an emulator's kernels take NumPy arrays
    if on_device and first.device.id != (current := array_module(first).cuda.runtime.getDevice()):
        raise DeviceError(
            f"an array is on cuda:{first.device.id}, but this thread computes on cuda:{current}: call "
            f"handloom.autograd.backend.use_device('cuda:{first.device.id}') first"
        )
    kernel(grid, block, args, shared_mem=shared)


@cache
def _load_kernel(cupy: Any, file: str, name: str, constants: tuple[tuple[str, Any], ...]) -> Any:
    return _load(cupy, file, constants).get_function(name)


@cache
def _load(cupy: Any, file: str, constants: tuple[tuple[str, Any], ...]) -> Any:
    return cupy.RawModule(code=read_source(file), options=compile_options(dict(constants)))
