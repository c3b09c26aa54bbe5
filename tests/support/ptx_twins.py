"""Each function of ptx.cuh twice on the same numbers: its PTX by `tests.support.ptx`, its twin by the CUDA emulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from handloom.autograd.kernels import loading
from tests.support.cuda_emulator import EmulatedModule
from tests.support.ptx import Warp, asm_statements

_KERNELS = r"""
extern "C" __global__ void multiply(float* c, const unsigned* a, const unsigned* b) {
    float own[4];
    unsigned left[4];
    for (int i = 0; i < 4; ++i) own[i] = c[32 * i + threadIdx.x], left[i] = a[32 * i + threadIdx.x];
    mma_m16n8k16(own, left, b[threadIdx.x], b[32 + threadIdx.x]);
    for (int i = 0; i < 4; ++i) c[32 * i + threadIdx.x] = own[i];
}
extern "C" __global__ void load(unsigned* out, const uint4* data, const int* rows) {
    extern __shared__ uint4 tile[];
    for (int i = threadIdx.x; i < 64; i += 32) tile[i] = data[i];
    __syncwarp();
    unsigned four[2][4], two[2][2];
    const uint4* row = tile + rows[threadIdx.x];
    ldmatrix_x4(four[0], row);
    ldmatrix_x4_trans(four[1], row);
    ldmatrix_x2(two[0], row);
    ldmatrix_x2_trans(two[1], row);
    for (int i = 0; i < 8; ++i) out[32 * i + threadIdx.x] = four[i / 4][i % 4];
    for (int i = 0; i < 4; ++i) out[32 * (8 + i) + threadIdx.x] = two[i / 2][i % 2];
}
extern "C" __global__ void copy(uint4* out, const uint4* data, const unsigned* valid) {
    extern __shared__ uint4 tile[];
    int lane = threadIdx.x;
    tile[lane] = tile[32 + lane] = make_uint4(7, 7, 7, 7);
    cp_async_16(tile + lane, data + lane, valid[lane]);
    cp_async_commit();
    cp_async_16(tile + 32 + lane, data + 31 - lane, valid[lane]);
    cp_async_commit();
    cp_async_wait<1>();
    out[lane] = tile[lane], out[32 + lane] = tile[32 + lane];
    cp_async_wait<0>();
    out[64 + lane] = tile[lane], out[96 + lane] = tile[32 + lane];
}
extern "C" __global__ void exponential(float* x) { x[threadIdx.x] = exp2_approx(x[threadIdx.x]); }
"""


def compare(text: str | None = None) -> None:
    """Raise AssertionError where a function's PTX does something else than its twin, or if one is left out here.

    `text`: where the PTX is read, if not in ptx.cuh.
    """
    source, rng = loading.read_source("ptx.cuh"), np.random.default_rng(0)
    functions, module = asm_statements(text or source), EmulatedModule(source + _KERNELS)
    assert set(functions) == {
        "mma_m16n8k16", "ldmatrix_x4", "ldmatrix_x4_trans", "ldmatrix_x2", "ldmatrix_x2_trans", "cp_async_16",
        "cp_async_commit", "cp_async_wait", "exp2_approx",
    }  # fmt: skip

    def launch(name: str, *arguments: Any) -> None:
        module.get_function(name)((1,), (32,), arguments, shared_mem=1024)

    a, b = (rng.standard_normal((count, 32, 2)).astype(np.float16).view(np.uint32)[..., 0] for count in (4, 2))
    c = rng.standard_normal((4, 32)).astype(np.float32)
    warp = Warp({**_named("accumulator", c), **_named("a", a), "b0": b[0], "b1": b[1]})
    warp.run(functions["mma_m16n8k16"])
    launch("multiply", c, a, b)
    np.testing.assert_allclose(_stacked(warp, "accumulator", 4), c, rtol=1e-5, atol=1e-5)

    data, rows = rng.integers(0, 256, 1024).astype(np.uint8), rng.permutation(64)[:32].astype(np.int32)
    out, found = np.zeros((12, 32), np.uint32), []
    for name, count in (("ldmatrix_x4", 4), ("ldmatrix_x4_trans", 4), ("ldmatrix_x2", 2), ("ldmatrix_x2_trans", 2)):
        warp = Warp({"shared_address(row)": 16 * rows}, shared=data)
        warp.run(functions[name])
        found.append(_stacked(warp, "registers", count))
    launch("load", out, data.view(np.uint32), rows)
    np.testing.assert_array_equal(np.concatenate(found), out)

    memory, valid = data[:512], rng.permutation(np.arange(32) % 17).astype(np.uint32)
    states, lanes = np.zeros((2, 1024), np.uint8), 16 * np.arange(32)
    warp = Warp({"valid_bytes": valid}, shared=np.full(256, 7, np.uint32).view(np.uint8), memory=memory)
    for shared, source_places in ((lanes, lanes), (512 + lanes, lanes[::-1])):
        warp.values |= {"shared_address(shared)": shared, "global": source_places}
        warp.run(functions["cp_async_16"])
        warp.run(functions["cp_async_commit"])
    for under_way, state in zip((1, 0), states, strict=True):
        warp.values["N"] = np.full(32, under_way)
        warp.run(functions["cp_async_wait"])
        state[:] = warp.shared
    copied = np.zeros((2, 1024), np.uint8)
    launch("copy", copied, memory, valid)
    np.testing.assert_array_equal(states, copied)

    x = rng.uniform(-30, 30, 32).astype(np.float32)
    warp = Warp({"x": x.copy()})
    warp.run(functions["exp2_approx"])
    launch("exponential", x)
    np.testing.assert_allclose(warp.values["result"], x, rtol=1e-6)


def _named(name: str, arrays: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{name}[{i}]": array.copy() for i, array in enumerate(arrays)}


def _stacked(warp: Warp, name: str, count: int) -> np.ndarray:
    return np.stack([warp.values[f"{name}[{i}]"] for i in range(count)])
