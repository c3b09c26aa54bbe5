"""The emulator runs the inline PTX itself: each instruction does what the PTX ISA says, a wrong one does not pass."""

import numpy as np
import pytest

from handloom.autograd.kernels.loading import read_source
from tests.support.cuda_emulator import EmulatedModule, KernelError, compiler_missing

pytestmark = pytest.mark.skipif(compiler_missing() is not None, reason=str(compiler_missing()))
PTX = read_source("ptx.cuh")


def launch(text: str, *args, shared: int = 2048) -> None:
    """Run the kernel `k` of a text by one warp."""
    EmulatedModule(PTX + f'extern "C" __global__ void {text}').get_function("k")((1,), (32,), args, shared_mem=shared)


def test_fragments_lie_where_the_isa_puts_them() -> None:
    """mma.m16n8k16, each element of A and of B by itself: figures 84 to 87 of the ISA."""
    lane, rng = np.arange(32), np.random.default_rng(0)
    group, pair = lane // 4, lane % 4 * 2
    left, right = (rng.standard_normal(shape).astype(np.float16) for shape in ((16, 16), (16, 8)))
    a, b = np.zeros((4, 32, 2), np.float16), np.zeros((2, 32, 2), np.float16)
    for i in range(2):
        for register in range(4):
            a[register, :, i] = left[group + register % 2 * 8, pair + i + register // 2 * 8]
        for register in range(2):
            b[register, :, i] = right[pair + i + register * 8, group]
    c = rng.standard_normal((4, 32)).astype(np.float32)
    before = c.copy()
    launch(
        """k(float* c, const unsigned* a, const unsigned* b) {
            float own[4];
            unsigned left[4];
            for (int i = 0; i < 4; ++i) own[i] = c[32 * i + threadIdx.x], left[i] = a[32 * i + threadIdx.x];
            mma_m16n8k16(own, left, b[threadIdx.x], b[32 + threadIdx.x]);
            for (int i = 0; i < 4; ++i) c[32 * i + threadIdx.x] = own[i];
        }""",
        c, a.view(np.uint32), b.view(np.uint32),
    )  # fmt: skip
    product = left.astype(np.float64) @ right
    expected = [before[e] + product[group + e // 2 * 8, pair + e % 2] for e in range(4)]
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(count, transposed) -> None:
    rng = np.random.default_rng(0)
    data, rows = rng.integers(0, 256, 1024).astype(np.uint8), rng.permutation(64)[:32].astype(np.int32)
    registers = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"=r"(r[{i}])' for i in range(count))
    out = np.zeros((count, 32), np.uint32)
    launch(
        f"""k(unsigned* out, const uint4* data, const int* rows) {{
            extern __shared__ uint4 tile[];
            for (int i = threadIdx.x; i < 64; i += 32) tile[i] = data[i];
            __syncwarp();
            unsigned r[4], row = shared_address(tile + rows[threadIdx.x]);
            if (threadIdx.x >= 8 * {count}) row = 3;  // these lanes name no row
            asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{".trans" if transposed else ""}.shared.b16 "
                         "{{{registers}}}, [%{count}];" : {outputs} : "r"(row) : "memory");
            for (int i = 0; i < {count}; ++i) out[32 * i + threadIdx.x] = r[i];
        }}""",
        out, data.view(np.uint32), rows,
    )  # fmt: skip
    matrices = np.stack([data[16 * row : 16 * row + 16] for row in rows]).view(np.uint16).reshape(4, 8, 8)
    if transposed:
        matrices = matrices.swapaxes(1, 2)
    np.testing.assert_array_equal(out.view(np.uint16).reshape(count, 8, 8), matrices[:count])


def test_copies_come_in_their_groups_and_fill_with_zeros() -> None:
    data = np.random.default_rng(0).integers(1, 256, 512).astype(np.uint8)
    valid = np.random.default_rng(1).permutation(np.arange(32) % 17).astype(np.uint32)
    out = np.zeros((2, 2, 32, 16), np.uint8)
    launch(
        """k(uint4* out, const uint4* data, const unsigned* valid) {
            extern __shared__ uint4 tile[];
            int lane = threadIdx.x;
            tile[lane] = tile[32 + lane] = make_uint4(7, 7, 7, 7);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                         :: "r"(shared_address(tile + lane)), "l"(data + lane), "r"(valid[lane]) : "memory");
            cp_async_commit();
            cp_async_16(shared_address(tile + 32 + lane), data + 31 - lane);
            cp_async_commit();
            cp_async_wait<1>();
            out[lane] = tile[lane], out[32 + lane] = tile[32 + lane];
            cp_async_wait<0>();
            out[64 + lane] = tile[lane], out[96 + lane] = tile[32 + lane];
        }""",
        out, data, valid,
    )  # fmt: skip
    rows = data.reshape(32, 16)
    for found in out[:, 0]:
        np.testing.assert_array_equal(found, np.where(np.arange(16) < valid[:, None], rows, 0))
    np.testing.assert_array_equal(out[0, 1].view(np.uint32), 7)
    np.testing.assert_array_equal(out[1, 1], rows[::-1])


def test_the_exponential_flushes_what_is_subnormal() -> None:
    x = np.linspace(-140, 30, 32).astype(np.float32)
    expected = np.exp2(x.astype(np.float64))
    expected[expected < np.finfo(np.float32).tiny] = 0
    launch("k(float* x) { x[threadIdx.x] = exp2_approx(x[threadIdx.x]); }", x)
    np.testing.assert_allclose(x, expected, rtol=1e-6)


def test_addresses_outside_of_shared_memory_are_errors() -> None:
    body = "unsigned r[4]; ldmatrix_x4(r, {}); x[0] = r[0];"
    for address, kind in (("3", "misaligned"), ("shared_address(x)", "out of bounds"), ("4096", "out of bounds")):
        with pytest.raises(KernelError) as caught:
            launch(f"k(unsigned* x) {{ {body.format(address)} }}", np.zeros(4, np.uint32))
        assert caught.value.kind == kind
