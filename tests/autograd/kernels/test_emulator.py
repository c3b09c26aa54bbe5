"""The CUDA emulator reports the errors of wrong kernels.

Each case checks one kind of error. `make kernel-mutants` shows that the kernel tests find bugs with the emulator.
"""

import platform

import numpy as np
import pytest

from handloom.autograd.kernels.loading import FOLDER, read_source
from tests.support.cuda_emulator import EmulatedModule, KernelError, compiler_missing

pytestmark = pytest.mark.skipif(compiler_missing() is not None, reason=str(compiler_missing()))

SEEDS = range(4)


def run(text: str, grid, block, args, *, checked=False, seeds=SEEDS, **keywords) -> None:
    """Launch the kernel of `text` once for each seed."""
    kernel = EmulatedModule(text, checked=checked).get_function("k")
    for seed in seeds:
        kernel(grid, block, args, seed=seed, **keywords)


def problem(text: str, grid, block, args, **keywords) -> KernelError:
    """Return the error that the emulator raises for a wrong kernel."""
    with pytest.raises(KernelError) as caught:
        run(text, grid, block, args, **keywords)
    return caught.value


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the emulator flushes on x86-64 only")
def test_subnormal_numbers_are_flushed_as_cupy_s_kernels_do() -> None:
    """CuPy compiles with -ftz=true, which flushes subnormal float32 numbers to zero, but keeps those of float16."""
    text = r"""
    #include <cuda_fp16.h>
    extern "C" __global__ void k(float* x, __half* y) {
        x[2] = x[0] * x[1], x[3] = x[4] + 0.0f;
        y[1] = __half(float(y[0]) + 0.0f);
    }"""
    x, y = np.array([1e-20, 1e-20, 7, 7, 1e-40], np.float32), np.array([2**-24, 0], np.float16)
    run(text, (1,), (1,), (x, y), seeds=[0])
    assert (x[2], x[3], y[1]) == (0, 0, np.float16(2**-24))
    assert np.float32(1e-20) * np.float32(1e-20) > 0  # flushing ends with the kernel


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("x[threadIdx.x] = shared[threadIdx.x];", "uninitialised"),
        ("shared[0] = float(threadIdx.x);", "race"),
        ("shared[threadIdx.x] = 1.0f; x[threadIdx.x] = shared[threadIdx.x ^ 1];", None),
        ("shared[threadIdx.x] = 1.0f; __syncwarp(); x[threadIdx.x] = shared[threadIdx.x ^ 1];", ""),
        ("shared[threadIdx.x] = 1.0f; __syncwarp(); x[threadIdx.x] = shared[threadIdx.x ^ 32];", None),
        ("shared[threadIdx.x] = 1.0f; __syncthreads(); x[threadIdx.x] = shared[threadIdx.x ^ 32];", ""),
        ("x[threadIdx.x] = *(float*)((char*)shared + 2);", "misaligned"),
        ("x[threadIdx.x % 32] = 1.0f;", "race"),
        ("x[threadIdx.x] = x[(threadIdx.x + 1) % 64];", "race"),
        ("x[threadIdx.x] = 1.0f;", ""),
        ("x[64] = 1.0f;", "out of bounds"),
        ("x[-1] = 1.0f;", "out of bounds"),
        ("*(float2*)(shared + 1) = make_float2(0.0f, 0.0f);", "misaligned"),
    ],
)
def test_checked_mode(body, kind) -> None:
    text = f'extern "C" __global__ void k(float* x) {{ extern __shared__ float shared[]; {body} }}'
    args = ((1,), (64,), (np.zeros(64, dtype=np.float32),))
    if kind == "":
        run(text, *args, checked=True, shared_mem=256)
    else:
        caught = problem(text, *args, checked=True, shared_mem=256)
        assert caught.kind == kind or (kind is None and caught.kind in ("race", "uninitialised"))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("if (threadIdx.x < 32) __syncthreads(); else __syncwarp();", ""),
        ("if (threadIdx.x < 32) { __syncthreads(); } else {\n __syncthreads(); }", "divergent barrier"),
        ("if (threadIdx.x < 16) __syncwarp(); else __syncthreads();", "deadlock"),
        ("if (threadIdx.x < 16) { __syncwarp(); } else {\n __syncwarp(); }", "divergent warp"),
        ("if (threadIdx.x % 32 < 16) __syncwarp(0xffffu); else __syncwarp(0xffff0000u);", ""),
        ("if (threadIdx.x < 16) __syncwarp();", "divergent warp"),
        ("x[0] = float(7 / int(x[1]));", "division by zero"),
        ("float deep[100000]; deep[threadIdx.x] = 1.0f; x[0] = deep[int(x[1])];", "stack overflow"),
    ],
)
def test_what_hangs_or_crashes(body, kind) -> None:
    text = f'extern "C" __global__ void k(volatile float* x) {{ {body} }}'
    args = ((1,), (64,), (np.zeros(2, dtype=np.float32),))
    if kind:
        assert problem(text, *args).kind == kind
    else:
        run(text, *args)


@pytest.mark.parametrize(
    ("address", "kind"), [("3", "misaligned"), ("shared_address(x)", "out of bounds"), ("4096", "out of bounds")]
)
def test_addresses_outside_of_shared_memory(address, kind) -> None:
    body = f"unsigned r[4]; ldmatrix_x4(r, {address}); x[0] = r[0];"
    text = read_source("ptx.cuh") + f'extern "C" __global__ void k(unsigned* x) {{ {body} }}'
    assert problem(text, (1,), (32,), (np.zeros(4, np.uint32),), shared_mem=2048).kind == kind


def test_inline_ptx_stands_in_one_file_only() -> None:
    for path in (*FOLDER.glob("*.cu"), *FOLDER.glob("*.cuh")):
        assert ("asm" in path.read_text(encoding="utf-8")) == (path.name == "ptx.cuh"), path.name
