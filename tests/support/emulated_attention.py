"""The attention kernels on the CPU emulator, in the place of a GPU's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from unittest import mock

from handloom.autograd.kernels.attention import AttentionKernels
from handloom.autograd.ops import attention_fused
from tests.support.emulated_kernels import SHARED_MEMORY, emulated_loader, thread_order


@cache
def kernels(checked: bool = False, shared_memory: int = SHARED_MEMORY) -> AttentionKernels:
    return AttentionKernels(emulated_loader(checked=checked), shared_memory)


@contextmanager
def in_place(of_a_gpu: AttentionKernels, seed: int | None = None) -> Iterator[None]:
    """`method="fused"` runs on NumPy arrays with these kernels; `seed` draws the order of their threads."""
    with mock.patch.object(attention_fused, "kernels_for", return_value=of_a_gpu):
        if seed is None:
            yield
        else:
            with thread_order(seed):
                yield
