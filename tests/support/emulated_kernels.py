"""Kernels loaded as the package loads them, but run by the CPU emulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from handloom.autograd.kernels import loading
from tests.support.cuda_emulator import EmulatedModule
from tests.support.fake_cupy import kernels as stand_in

SHARED_MEMORY = 163 * 1024  # of an A100; an H100 has more


class Emulated:
    """An emulated module whose threads run in the order of the stand-in for CuPy."""

    def __init__(self, module: EmulatedModule):
        self._module = module

    def get_function(self, name: str) -> Any:
        kernel = self._module.get_function(name)
        kernel.max_dynamic_shared_size_bytes = SHARED_MEMORY
        return lambda grid, block, args, shared_mem=0: kernel(
            grid, block, args, shared_mem=shared_mem, seed=stand_in.seed
        )


@contextmanager
def thread_order(seed: int) -> Iterator[None]:
    """The order in which threads run, drawn from `seed`; the odd seed after an even one reverses it."""
    before, stand_in.seed = stand_in.seed, seed
    try:
        yield
    finally:
        stand_in.seed = before


def emulated_loader(*, checked: bool = False) -> Callable[..., Any]:
    """Like `kernels.loading.load_module`."""

    @cache
    def load(file: str, **constants: int) -> Emulated:
        source = loading.read_source(file)
        return Emulated(EmulatedModule(source, loading.compile_options(dict(constants)), checked=checked))

    return load
