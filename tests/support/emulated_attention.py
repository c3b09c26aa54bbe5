"""The attention kernels on the CPU emulator, in the place of a GPU's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

import numpy as np

from handloom.autograd.kernels import attention_op as attention_fused
from handloom.autograd.kernels.attention import AttentionKernels
from tests.support.emulated_kernels import SHARED_MEMORY, emulated_loader, thread_order


@cache
def kernels(checked: bool = False, shared_memory: int = SHARED_MEMORY) -> AttentionKernels:
    return AttentionKernels(emulated_loader(checked=checked), shared_memory)


class WithPartOfTheKeys(AttentionKernels):
    """The kernels get memory for the first `seen` keys and values alone, whatever they are told: more is an error."""

    def __init__(self, load: Any, seen: int, *keys_and_values: np.ndarray):
        super().__init__(load, SHARED_MEMORY)
        self.seen, self.keys_and_values = seen, keys_and_values
        self.launches: list[str] = []  # of kernels that take keys and values

    def _launch(self, which: tuple[str, str, Any], grid: tuple[int, ...], shared: int, *arguments: Any) -> None:
        given = [any(x is array for array in self.keys_and_values) for x in arguments[0]]
        if any(given):
            self.launches.append(which[1])
        first = tuple(x[:, :, : self.seen] if cut else x for x, cut in zip(arguments[0], given, strict=True))
        super()._launch(which, grid, shared, first, *arguments[1:])


@contextmanager
def in_place(of_a_gpu: AttentionKernels, seed: int | None = None) -> Iterator[None]:
    """`method="fused"` runs on NumPy arrays with these kernels; `seed` draws the order of their threads."""
    with mock.patch.object(attention_fused, "kernels_for", return_value=of_a_gpu):
        if seed is None:
            yield
        else:
            with thread_order(seed):
                yield
