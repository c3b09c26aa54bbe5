"""Each kernel compiles for each kind of GPU that it supports, with one exception without spills. A record lists the
resources used.
"""

import json

import pytest

from handloom.autograd.kernels.loading import FOLDER
from tests.support import nvrtc
from tests.support.kernel_variants import SHARED_MEMORY, TENSOR_CORE_KERNELS, VARIANTS

pytestmark = pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))

# (file, head_dim, kind of GPU): bytes spilled. It is one register: a store and a load in a pass of 1,020 instructions.
SPILLED = {("attention_forward.cu", 128, "sm_90"): 20}
OF_AN_A100 = 163 * 1024  # bytes of shared memory for a block
CASES = [(file, constants) for file, variants in VARIANTS.items() for constants in variants]
SAMPLE = CASES[::4]
RECORDED = json.loads(nvrtc.RECORD.read_text(encoding="utf-8"))


def test_every_kernel_file_is_compiled_here() -> None:
    assert set(VARIANTS) == {path.name for path in FOLDER.glob("*.cu")}


@pytest.mark.parametrize(("file", "constants"), CASES, ids=[nvrtc.variant_name(*case) for case in CASES])
def test_the_record_is_of_the_kernels_as_they_are_and_what_spills_is_known(file, constants) -> None:
    """The record covers each kind of GPU that the file supports."""
    variant = nvrtc.variant_name(file, constants)
    assert RECORDED["digests"].get(variant) == nvrtc.digest(file, constants), f"run: {RECORDED['command']}"
    shared = SHARED_MEMORY[file](constants) if file in SHARED_MEMORY else None
    assert RECORDED["shared"].get(variant) == shared
    assert shared is None or shared <= OF_AN_A100
    for name, usages in nvrtc.usages(RECORDED, variant).items():
        assert set(usages) == set(nvrtc.architectures(file))
        for kind, usage in usages.items():
            assert usage.spilled <= allowed_to_spill(file, constants, kind), f"{name}: {usage}"
            assert usage.static_shared == 0, f"{name}: {usage}"
            expected = name in TENSOR_CORE_KERNELS and constants.get("HALF", 1) == 1
            assert (usage.mma_instructions > 0) == expected, f"{name}: {usage}"


def allowed_to_spill(file: str, constants: dict[str, int], kind: str) -> int:
    lean = constants.get("HALF") == 1 and constants.get("EXTRAS") == 0
    return SPILLED.get((file, constants.get("D"), kind), 0) if lean else 0


@pytest.mark.parametrize(("file", "constants"), SAMPLE, ids=[nvrtc.variant_name(*case) for case in SAMPLE])
def test_it_compiles_as_recorded(file, constants) -> None:
    """Every fourth variant compiles for a kind of GPU in the record and for a kind that the record leaves out."""
    place, kinds = SAMPLE.index((file, constants)), nvrtc.architectures(file)
    now, unrecorded = kinds[place % len(kinds)], nvrtc.UNRECORDED[place % len(nvrtc.UNRECORDED)]
    assert not any(usage.spilled for usage in nvrtc.compile_file(file, constants, unrecorded).values())
    kernels = nvrtc.usages(RECORDED, nvrtc.variant_name(file, constants))
    found = nvrtc.compile_file(file, constants, now)
    assert set(kernels) == set(found) != set()
    for name, usage in found.items():
        assert usage.spilled <= allowed_to_spill(file, constants, now), f"{name}: {usage}"
        if RECORDED["nvrtc"] == nvrtc.version():
            assert kernels[name][now] == usage, f"run: {RECORDED['command']}"


def test_only_attention_asks_for_more_than_the_oldest() -> None:
    """Only attention needs sm_80, as `AttentionKernels.why_not_here` says. The record has sm_75 for all other files."""
    for file in ("attention_forward.cu", "attention_backward.cu"):
        with pytest.raises(nvrtc.NvrtcError, match=r"requires \.target sm_80 or higher"):
            nvrtc.compile_file(file, VARIANTS[file][-1], "sm_75")


def test_the_gate_sees_spills_errors_and_warnings() -> None:
    spilling = """
    extern "C" __global__ void __launch_bounds__(1024, 2) k(float* x) {
        float a[96];
        #pragma unroll
        for (int i = 0; i < 96; ++i) a[i] = x[i * blockDim.x + threadIdx.x];
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 96; ++i) x[i * blockDim.x + threadIdx.x] = a[i] * a[95 - i];
    }"""
    assert nvrtc.compile_kernels(spilling, (), "sm_90")["k"].spilled > 0
    with pytest.raises(nvrtc.NvrtcError, match="undefined_name"):
        nvrtc.compile_kernels('extern "C" __global__ void k(float* x) { x[0] = undefined_name; }', (), "sm_90")
    with pytest.raises(nvrtc.NvrtcError, match="never referenced"):
        nvrtc.compile_kernels('extern "C" __global__ void k(float* x) { int unused; }', (), "sm_90")
