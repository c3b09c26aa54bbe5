"""The attention kernels on the CPU emulator, in the place of a GPU's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

from handloom.autograd.kernels.attention import AttentionKernels
from handloom.autograd.kernels.loading import compile_options, read_source
from handloom.autograd.ops import attention_fused
from tests.support.cuda_emulator import EmulatedModule

SHARED_MEMORY = 163 * 1024  # of an A100; an H100 has more


class Emulated:
    """An emulated module whose kernels start with a seed of the caller's: it draws the order of threads."""

    seed = 0

    def __init__(self, module: EmulatedModule):
        self._module = module

    def get_function(self, name: str) -> Any:
        kernel = self._module.get_function(name)
        kernel.max_dynamic_shared_size_bytes = SHARED_MEMORY
        return lambda grid, block, args, shared_mem: kernel(
            grid, block, args, shared_mem=shared_mem, seed=Emulated.seed
        )


def loader(change: Callable[[str, str], str] = lambda file, text: text, checked: bool = False) -> Callable[..., Any]:
    """Like `kernels.loading.load_module`; `change` makes another source of a file's text."""

    @cache
    def load(file: str, **constants: int) -> Emulated:
        return Emulated(
            EmulatedModule(change(file, read_source(file)), compile_options(dict(constants)), checked=checked)
        )

    return load


@cache
def kernels(checked: bool = False, shared_memory: int = SHARED_MEMORY) -> AttentionKernels:
    return AttentionKernels(loader(checked=checked), shared_memory)


@contextmanager
def in_place(of_a_gpu: AttentionKernels, seed: int = 0) -> Iterator[None]:
    """`method="fused"` runs on NumPy arrays with these kernels."""
    with mock.patch.object(attention_fused, "kernels_for", return_value=of_a_gpu):
        Emulated.seed = seed
        yield
