"""Sums that blocks make together: the last block sees what the others wrote, and the emulator sees what is missing."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from handloom.autograd.kernels import fused
from handloom.autograd.kernels.loading import read_source
from tests.support.cuda_emulator import EmulatedModule, KernelError, compiler_missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(compiler_missing() is not None, reason=str(compiler_missing()))]

TEXT = (
    read_source("sums.cuh")
    + r"""
extern "C" __global__ void k(const float* x, float* partial, float* out, unsigned* tickets) {
    extern __shared__ float flag[];
    partial[blockIdx.x * 33 + threadIdx.x] = x[blockIdx.x * 33 + threadIdx.x];
    sum_blocks(partial, out, out + 20, tickets, 33, 20, flag);
}"""
)


def launch(
    text: str, blocks: int, *, seed: int = 0, checked: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What was given, the sums and the tickets after two launches."""
    x = np.random.default_rng(blocks).standard_normal((blocks, 33)).astype(np.float32)
    kernel = EmulatedModule(text, ("-DHALF=0",), checked=checked).get_function("k")
    partial, tickets, out = np.full((blocks, 33), np.nan, np.float32), np.zeros(40, np.uint32), np.zeros(33, np.float32)
    for _ in range(2):
        out[:] = np.nan
        kernel((blocks,), (33,), (x, partial, out, tickets), seed=seed, shared_mem=8)
    return x, out, tickets


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("blocks", [1, 2, 16, 17, 100, 264])
def test_the_sum_is_the_same_whichever_block_comes_last(blocks, checked) -> None:
    found = []
    for seed in (0, 1):
        x, out, tickets = launch(TEXT, blocks, seed=seed, checked=checked)
        np.testing.assert_allclose(out, x.sum(axis=0, dtype=np.float64), rtol=1e-4, atol=1e-4)
        assert not tickets.any(), "ready for the next launch"
        found.append(out)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    "missing",
    [
        "        __threadfence();\n        *last",  # the writes may not have arrived yet
        "        __threadfence();\n    }",  # what is read may be from before
        "    __syncthreads();\n    if (threadIdx.x == 0 && threadIdx.y == 0) {\n",  # another thread's writes
        "atomicInc(ticket, count - 1)",  # an own copy of the count
    ],
)
def test_without_a_fence_or_a_barrier_there_is_a_race(missing) -> None:
    assert TEXT.count(missing) == 1
    without = {
        "        __threadfence();\n        *last": "        *last",
        "atomicInc(ticket, count - 1)": "(*ticket)++",
    }
    changed = without.get(
        missing, missing.replace("        __threadfence();\n", "").replace("    __syncthreads();\n", "")
    )
    with pytest.raises(KernelError) as caught:
        launch(TEXT.replace(missing, changed), 40, checked=True)
    assert caught.value.kind == "race"


def test_tickets_suffice_for_the_widest_and_for_most_blocks(fake_cupy) -> None:
    tickets = len(fused._tickets(fake_cupy.empty(1)))
    assert tickets > fused._BLOCKS // 16 + 1
    x = fake_cupy.asarray(np.ones((40, 256 * fused._BLOCKS + 5), np.float16))  # more columns: each chunk is a whole one
    np.testing.assert_array_equal(fused.column_sums(x[:, : 256 * 3].copy()).get(), 40)
    np.testing.assert_array_equal(fused.column_sums(x).get(), 40)
    with mock.patch.object(fused, "_BLOCKS", 1):  # pieces of ids, for each 256 columns: 2 x 5
        found = fused.embedding_backward(fake_cupy.ones((70, 1030), np.float32), fake_cupy.zeros(70, np.int64), 1)
    np.testing.assert_array_equal(found.get(), 70)
