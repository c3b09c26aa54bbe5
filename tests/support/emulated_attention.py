"""The attention kernels on the CPU emulator, in the place of a GPU's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

import numpy as np

from handloom.autograd import Generator, Tensor, grad, ops
from handloom.autograd.kernels import attention_op as attention_fused
from handloom.autograd.kernels.attention import AttentionKernels
from tests.support.attention_cases import Case
from tests.support.emulated_kernels import SHARED_MEMORY, emulated_loader, thread_order
from tests.support.fake_cupy import kernels as stand_in


@cache
def loaded(checked: bool, shared_memory: int) -> AttentionKernels:
    return AttentionKernels(emulated_loader(checked=checked), shared_memory)


def kernels(checked: bool | None = None, shared_memory: int = SHARED_MEMORY) -> AttentionKernels:
    """They are checked if the stand-in for CuPy checks, or as asked for."""
    return loaded(stand_in.checked if checked is None else checked, shared_memory)


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


def dropout_as_composed(case: Case, dtype: Any, dropout: float, deterministic: bool) -> None:
    """Output and gradients with dropout are those of the composed ops, given the mask that the kernels draw."""
    leaves = [Tensor(array.astype(dtype), requires_grad=True) for array in case.arrays[:3]]
    generator = Generator(3)
    generator.next_call(leaves[0].data)  # the call's number counts as well
    g, options = case.g.astype(dtype), {"method": "fused", "deterministic": deterministic, "generator": generator}
    with in_place(kernels()):
        out = ops.attention(*leaves, **case.options, dropout=dropout, **options)
        found = grad(out, leaves, g, retain_graph=True)
        assert out._origin is not None
        wide = [Tensor(leaf.data.astype(np.float64), requires_grad=True) for leaf in leaves]
        expected = out._origin.node.composed(*wide)
    truth = grad(expected, wide, g.astype(np.float64))
    for a, b in zip([out, *found], [expected, *truth], strict=True):
        np.testing.assert_allclose(a.data, b.data, rtol=0, atol=30 * np.finfo(dtype).eps * np.abs(b.data).max())
