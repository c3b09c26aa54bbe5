"""The CUDA emulator: what the kernels' own tests don't show of it, and what it says of wrong kernels."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from handloom.autograd.kernels.loading import FOLDER, read_source
from tests.support.cuda_emulator import (
    EmulatedModule,
    KernelError,
    bank_conflicts,
    compiler_missing,
    shared_memory_turns,
)
from tests.support.cuda_emulator.build import CompileError

pytestmark = [pytest.mark.slow, pytest.mark.skipif(compiler_missing() is not None, reason=str(compiler_missing()))]

SEEDS = range(4)
PTX = read_source("ptx.cuh")


def run(text: str, grid, block, args, *, name="k", checked=False, seeds=SEEDS, **keywords) -> None:
    """Launch the kernel of `text` once for each seed."""
    kernel = EmulatedModule(text, keywords.pop("options", ()), checked=checked).get_function(name)
    for seed in seeds:
        kernel(grid, block, args, seed=seed, **keywords)


def problem(text: str, grid, block, args, **keywords) -> KernelError:
    """What the emulator says of a wrong kernel."""
    with pytest.raises(KernelError) as caught:
        run(text, grid, block, args, **keywords)
    return caught.value


# -- right kernels ---------------------------------------------------------------------------------------------------


def test_shuffles_votes_and_block_votes() -> None:
    text = r"""
    extern "C" __global__ void k(int* out) {
        int i = threadIdx.x, *mine = out + 8 * i;
        mine[0] = __shfl_sync(0xffffffffu, i, 3, 8);
        mine[1] = __shfl_up_sync(0xffffffffu, i, 2, 16);
        mine[2] = __shfl_down_sync(0xffffffffu, i, 5);
        mine[3] = __shfl_xor_sync(0xffffffffu, i, 9);
        mine[4] = __ballot_sync(0xffffffffu, i % 3 == 0);
        mine[5] = __any_sync(0xffffffffu, i == 7) + 2 * __all_sync(0xffffffffu, i < 32);
        mine[6] = __syncthreads_count(i < 5);
        mine[7] = __syncthreads_or(i == 40) + 2 * __syncthreads_and(i < 40);
    }"""
    out = np.zeros((64, 8), dtype=np.int32)
    run(text, (1,), (64,), (out,))
    i = np.arange(64)
    lane, base = i % 32, i // 32 * 32
    assert (out[:, 0] == i // 8 * 8 + 3).all()
    assert (out[:, 1] == np.where(i % 16 < 2, i, i - 2)).all()
    assert (out[:, 2] == np.where(lane + 5 < 32, i + 5, i)).all()
    assert (out[:, 3] == base + (lane ^ 9)).all()
    ballots = [sum(1 << j for j in range(32) if (start + j) % 3 == 0) for start in (0, 32)]
    assert (out[:, 4].view(np.uint32) == np.array(ballots)[i // 32]).all()
    assert (out[:, 5] == np.where(i < 32, 3, 0)).all()
    assert (out[:, 6] == 5).all()
    assert (out[:, 7] == 1).all()


@pytest.mark.parametrize("conversion", ["", "#undef __F16C__"], ids=["processor", "software"])
def test_half_rounds_as_numpy_does(conversion) -> None:
    text = (
        conversion
        + r"""
    #include <cuda_fp16.h>
    extern "C" __global__ void k(const float* x, __half* out, float* back, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) back[i] = __half2float(out[i] = __float2half_rn(x[i]));
    }"""
    )
    edges = [0.0, -0.0, 65504, 65519.9, 65520, 1e9, 2**-24, 2**-25, 3 * 2**-26, 6e-5, 2**-14, np.inf, -np.inf, np.nan]
    rng = np.random.default_rng(0)
    x = np.concatenate([edges, np.exp(rng.uniform(-20, 12, 2000)) * rng.choice([-1, 1], 2000)]).astype(np.float32)
    with np.errstate(over="ignore"):
        want = x.astype(np.float16)
    out, back = np.zeros(len(x), dtype=np.float16), np.zeros(len(x), dtype=np.float32)
    run(text, (8,), (256,), (x, out, back, np.int32(len(x))), seeds=[0])
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(back, want.astype(np.float32))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the emulator flushes on x86-64 only")
def test_subnormal_numbers_are_flushed_as_cupy_s_kernels_do() -> None:
    """CuPy compiles with -ftz=true. Subnormal numbers of float16 are numbers."""
    text = r"""
    #include <cuda_fp16.h>
    extern "C" __global__ void k(float* x, __half* y) {
        x[2] = x[0] * x[1], x[3] = x[4] + 0.0f;
        y[1] = __half(float(y[0]) + 0.0f);
    }"""
    x, y = np.array([1e-20, 1e-20, 7, 7, 1e-40], np.float32), np.array([2**-24, 0], np.float16)
    run(text, (1,), (1,), (x, y), seeds=[0])
    assert (x[2], x[3], y[1]) == (0, 0, np.float16(2**-24))
    assert np.float32(1e-20) * np.float32(1e-20) > 0  # and no longer, once the kernel is over


def test_turns_of_plain_accesses_are_counted() -> None:
    cases = [
        ("int", "thread", 1, 1),
        ("int", "thread * 2", 1, 2),  # every second bank, two words of each
        ("int", "thread * 32", 1, 32),
        ("int", "thread / 8", 1, 1),  # one word for eight lanes
        ("short", "thread", 1, 1),
        ("float2", "thread", 2, 2),  # 16 lanes a turn
        ("float2", "thread * 2", 2, 4),
        ("float4", "thread", 4, 4),  # 8 lanes a turn
        ("float4", "thread * 8", 4, 32),
        ("float4", "thread * 8 + thread % 8", 4, 4),
        ("float4", "0", 4, 4),
    ]
    text = """
    extern "C" __global__ void k%d(float* out) {
        extern __shared__ float4 memory[];
        int thread = threadIdx.x;
        for (int i = thread; i < 256; i += 32) memory[i] = make_float4(0, 0, 0, 0);
        __syncthreads();
        %s* tile = (%s*)memory;
        auto x = tile[%s];
        __syncthreads();
        tile[thread] = x;
    }"""
    source = "".join(text % (number, kind, kind, place) for number, (kind, place, _, _) in enumerate(cases))
    module = EmulatedModule(source, checked=True)
    for number, (_, _, least, taken) in enumerate(cases):
        shared_memory_turns()
        line = number * text.count("\n") + text[: text.index("auto")].count("\n") + 1
        module.get_function(f"k{number}")((1,), (32,), (np.zeros(32, np.float32),), shared_mem=4096)
        assert shared_memory_turns()[f"k{number}", f"kernel.cu:{line}"] == (least, taken)


def test_bank_conflicts_of_ldmatrix_are_counted() -> None:
    text = (
        PTX
        + r"""
    extern "C" __global__ void k(unsigned* out, const int* rows) {
        extern __shared__ uint4 tile[];
        for (int i = threadIdx.x; i < 256; i += 32) tile[i] = make_uint4(0, 0, 0, 0);
        __syncwarp();
        unsigned r[4];
        ldmatrix_x4(r, shared_address(tile + rows[threadIdx.x]));
        out[threadIdx.x] = r[0];
    }"""
    )
    lane = np.arange(32)
    for rows, turns in ((8 * lane, 28), (8 * lane + lane % 8, 0), (8 * lane + lane % 4, 4), (0 * lane, 0)):
        bank_conflicts()
        run(text, (1,), (32,), (np.zeros(32, np.uint32), rows.astype(np.int32)), shared_mem=4096, seeds=[0])
        assert bank_conflicts() == turns


def test_views_of_one_array_stay_views() -> None:
    text = 'extern "C" __global__ void k(float* x, float* y) { y[threadIdx.x * 2] = x[threadIdx.x * 2] + 1.0f; }'
    x = np.arange(8, dtype=np.float32)
    run(text, (1,), (4,), (x[::2], x[1::2]), seeds=[0])
    assert x.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


# -- wrong kernels ---------------------------------------------------------------------------------------------------


BLOCK_SUM = r"""
extern "C" __global__ void k(const float* x, float* out, int n) {
    extern __shared__ float shared[];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
    BARRIER
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? shared[threadIdx.x] : 0.0f;
        for (int step = 16; step; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
        if (threadIdx.x == 0) out[blockIdx.x] = sum;
    }
}"""


def test_a_missing_barrier_is_a_race() -> None:
    x, out = np.ones((1, 128), dtype=np.float32), np.zeros(1, dtype=np.float32)
    args = (x, out, np.int32(128))
    caught = problem(BLOCK_SUM.replace("BARRIER", ""), (1,), (128,), args, shared_mem=16, checked=True)
    assert caught.kind in ("race", "uninitialised")
    run(BLOCK_SUM.replace("BARRIER", ""), (1,), (128,), args, shared_mem=16, seeds=range(6))
    # The fast mode sees NaN, or a sum that lacks a warp, in at least one of two orders.


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("index", ["n", "-1", "n + 3", "n + 100000"])
def test_out_of_bounds(index, checked) -> None:
    text = f'extern "C" __global__ void k(float* x, int n) {{ if (threadIdx.x == 3) x[{index}] = 1.0f; }}'
    caught = problem(text, (1,), (32,), (np.zeros(61, dtype=np.float32), np.int32(61)), checked=checked)
    assert caught.kind == "out of bounds"
    assert "k: block (0, 0, 0), thread (3, 0, 0)" in str(caught) or not checked


def test_a_checked_report_names_the_line() -> None:
    text = 'extern "C" __global__ void k(float* x) {\n    x[4] = 1.0f;\n}'
    caught = problem(text, (1,), (1,), (np.zeros(4, dtype=np.float32),), checked=True)
    assert "4 bytes written at kernel.cu:2: byte 19 of argument 0, which has 16" in str(caught)


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


@pytest.mark.parametrize("access", ["*(float4*)(x + i) = make_float4(0, 0, 0, 0);", "x[0] = ((float2*)(x + i))->x;"])
def test_unaligned_vectors(access) -> None:
    text = f'extern "C" __global__ void k(float* x, int i) {{ {access} }}'
    if "float4" in access:
        assert problem(text, (1,), (1,), (np.zeros(8, dtype=np.float32), np.int32(1))).kind == "misaligned"
    run(text, (1,), (1,), (np.zeros(8, dtype=np.float32), np.int32(4)))


def test_two_blocks_that_write_one_element_race() -> None:
    text = 'extern "C" __global__ void k(float* x) { if (threadIdx.x == 0) x[blockIdx.x / 2] = 1.0f; }'
    assert problem(text, (4,), (32,), (np.zeros(2, dtype=np.float32),), checked=True).kind == "race"


def async_kernel(wait: str) -> str:
    return (
        PTX
        + r"""
    extern "C" __global__ void k(const float* x, float* out, int n) {
        extern __shared__ float shared[];
        int i = threadIdx.x * 4;
        cp_async_16(shared_address(shared + i), x + i, i < n);
        cp_async_commit();
        WAIT
        __syncthreads();
        for (int j = 0; j < 4; ++j) out[i + j] = shared[(i + j + 64) % 256];
        cp_async_wait<0>();
    }""".replace("WAIT", wait)
    )


@pytest.mark.parametrize("checked", [False, True])
def test_asynchronous_copies_arrive_at_their_wait_and_fill_with_zeros(checked) -> None:
    x, out = np.arange(1, 201, dtype=np.float32), np.full(256, 7, dtype=np.float32)
    args = (x, out, np.int32(200))
    run(async_kernel("cp_async_wait<0>();"), (1,), (64,), args, shared_mem=1024, checked=checked)
    np.testing.assert_array_equal(out, np.roll(np.pad(x, (0, 56)), -64))
    if checked:
        assert problem(async_kernel(""), (1,), (64,), args, shared_mem=1024, checked=True).kind == "cp.async in flight"
    else:
        run(async_kernel("cp_async_wait<1>();"), (1,), (64,), args, shared_mem=1024)
        assert np.isnan(out).any()


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
    ("args", "message"),
    [
        ((np.zeros(4, np.float32), 3.0), "argument 1 has 4 bytes, but float has 8"),
        ((np.zeros(4, np.float32), 3), "argument 1 has 4 bytes, but int has 8"),
        ((np.zeros(4, np.float32), np.zeros(1, np.float32)), "argument 1 is a number"),
        ((np.float32(1), np.float32(1)), "argument 0 is a pointer"),
        ((np.zeros(4, np.float32),), "takes 2 arguments, not 1"),
    ],
)
def test_arguments_are_checked_as_a_device_would_misread_them(args, message) -> None:
    text = 'extern "C" __global__ void k(float* x, float y) { x[0] = y; }'
    with pytest.raises(KernelError, match=message):
        run(text, (1,), (1,), args)


def test_shared_memory_beyond_48_kilobytes_is_asked_for() -> None:
    text = 'extern "C" __global__ void k(float* x) { extern __shared__ float s[]; s[0] = 1.0f; x[0] = s[0]; }'
    kernel = EmulatedModule(text).get_function("k")
    x = np.zeros(1, dtype=np.float32)
    with pytest.raises(KernelError, match="max_dynamic_shared_size_bytes"):
        kernel((1,), (1,), (x,), shared_mem=50000)
    kernel.max_dynamic_shared_size_bytes = 50000
    kernel((1,), (1,), (x,), shared_mem=50000)
    assert x[0] == 1


def test_a_compile_error_shows_the_compiler_s_words() -> None:
    with pytest.raises(CompileError, match="undefined_name"):
        EmulatedModule('extern "C" __global__ void k(float* x) { x[0] = undefined_name; }')
    with pytest.raises(CompileError, match="dynamic shared memory only"):
        EmulatedModule('extern "C" __global__ void k(float* x) { __shared__ float s[4]; }')
    with pytest.raises(KeyError, match="no kernel 'j'"):
        EmulatedModule('extern "C" __global__ void k(float* x) { }').get_function("j")


def test_inline_ptx_stands_in_one_file_only() -> None:
    for path in (*FOLDER.glob("*.cu"), *FOLDER.glob("*.cuh")):
        assert ("asm" in path.read_text(encoding="utf-8")) == (path.name == "ptx.cuh"), path.name
