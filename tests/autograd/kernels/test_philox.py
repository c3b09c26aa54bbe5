"""Counter-based random bits (Philox): the published known answers, and equal masks on the CPU and in a kernel."""

import numpy as np
import pytest

from handloom.autograd.kernels.loading import read_source
from handloom.autograd.kernels.philox import philox4x32_10
from tests.support.cuda_emulator import EmulatedModule, compiler_missing
from tests.support.philox import keep_mask


@pytest.mark.parametrize(
    ("counter", "key", "want"),
    [  # the known answers that Philox's authors publish with their implementation
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_known_answers(counter, key, want) -> None:
    found = philox4x32_10(np.array(counter, dtype=np.uint32), np.array(key, dtype=np.uint32))
    assert found.tolist() == want


@pytest.mark.skipif(compiler_missing() is not None, reason=str(compiler_missing()))
@pytest.mark.parametrize("seed", [0, 12345678901234567890])
def test_a_kernel_draws_the_same_mask(seed) -> None:
    text = (
        read_source("philox.cuh")
        + r"""
    extern "C" __global__ void k(bool* keep, const unsigned long long* seed, unsigned long long call,
                                 unsigned threshold) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        keep[i] = dropout_keeps(key_of(seed), call, i, threshold);
    }"""
    )
    keep = np.zeros(1024, dtype=bool)
    call = 2**40 + 3
    args = (keep, np.array([seed], np.uint64), np.uint64(call), np.uint32(6554))
    EmulatedModule(text).get_function("k")((8,), (128,), args)
    np.testing.assert_array_equal(keep, keep_mask(seed, call, (1024,), 6554))
