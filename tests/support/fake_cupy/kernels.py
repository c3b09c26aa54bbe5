"""RawModule and RawKernel of the stand-in. The emulator runs the CUDA C++."""

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import numpy as np

from ..cuda_emulator import EmulatedModule
from .array import unwrap
from .capture import capturing, current, refuse

# Settings and counts for the tests. `seed` sets the order of threads; `launches` lists the kernels that ran.
seed = 0
checked = False
launches: list[str] = []


def mode(order: int = 0, check: bool = False) -> AbstractContextManager[Any]:
    """Set the order of threads, and whether every access is checked, within the `with` block."""
    return mock.patch.multiple(__name__, seed=order, checked=check)


def takes_all(source: str) -> Exception | None:
    return None


#: A function that returns the compiler's error for a source, or None.
refusal = takes_all


class RawModule:
    """Several kernels of one source, which the first launch compiles."""

    def __init__(self, code: str | None = None, *, options: tuple[str, ...] = (), **others: Any):
        if code is None or others:
            raise TypeError("the stand-in compiles source text: RawModule(code=..., options=...)")
        if not isinstance(options, tuple):
            raise TypeError("options must be a tuple")
        self.code, self.options = code, options
        self._modules: dict[bool, EmulatedModule] = {}

    def get_function(self, name: str) -> "RawKernel":
        refused = refusal(self.code)
        if refused is not None:
            raise refused
        kernel = RawKernel(self.code, name, self.options)
        kernel._module = self
        return kernel

    def emulated(self) -> EmulatedModule:
        if checked not in self._modules:
            self._modules[checked] = EmulatedModule(self.code, self.options, checked=checked)
        return self._modules[checked]


class RawKernel:
    """One kernel."""

    def __init__(self, code: str, name: str, options: tuple[str, ...] = ()):
        self.name = name
        self.max_dynamic_shared_size_bytes = 48 * 1024
        self._module, self._loaded = RawModule(code, options=options), False

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: Any, *, shared_mem: int = 0) -> None:
        for number, arg in enumerate(args):
            if isinstance(arg, np.ndarray):
                raise TypeError(f"{self.name}: argument {number} is a NumPy array: Unsupported type {np.ndarray}")
        kernel = self._module.emulated().get_function(self.name)
        kernel.max_dynamic_shared_size_bytes = self.max_dynamic_shared_size_bytes
        hosts = tuple(unwrap(arg) for arg in args)
        if not self._loaded:
            refuse(f"the first launch of {self.name}")
        self._loaded, recording = True, capturing() or current().late
        if recording is not None:
            kernel.check(grid, block, hosts, shared_mem)
            recording.launches.append(lambda: kernel(grid, block, hosts, shared_mem=shared_mem, seed=seed))
            return
        launches.append(self.name)
        kernel(grid, block, hosts, shared_mem=shared_mem, seed=seed)
