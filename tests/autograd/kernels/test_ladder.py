"""Each rung of the ladder computes attention and has the property that it demonstrates."""

import numpy as np
import pytest

from handloom.autograd.kernels.loading import FOLDER
from tests.support import nvrtc
from tests.support.cuda_emulator import EmulatedModule, compiler_missing, shared_memory_turns
from tests.support.ladder import RUNGS

emulated = pytest.mark.skipif(compiler_missing() is not None, reason=str(compiler_missing()))
each = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)


def inputs(queries: int, keys: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((2, length, 64)).astype(np.float16) for length in (queries, keys, keys)]


def test_every_rung_is_tested() -> None:
    assert {rung.name for rung in RUNGS} == {path.stem for path in (FOLDER / "ladder").glob("*.cu")}


@emulated
@each
@pytest.mark.parametrize("checked", [False, True], ids=["", "checked"])
@pytest.mark.parametrize("lengths", [(97, 113), (3, 64)])
def test_a_rung_computes_attention(rung, lengths, checked) -> None:
    query, key, value = inputs(*lengths)
    scores = 0.2 * query.astype(np.float64) @ key.astype(np.float64).swapaxes(1, 2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ value
    found = rung.run(EmulatedModule(rung.source, checked=checked), query, key, value, 0.2)
    np.testing.assert_allclose(found, expected, atol=2e-3)


@emulated
def test_the_swizzle_is_what_spares_turns() -> None:
    turns = {}
    for rung in RUNGS[2:]:
        shared_memory_turns()
        rung.run(EmulatedModule(rung.source, checked=True), *inputs(64, 64), 0.2)
        turns[rung.name] = sum(taken - least for least, taken in shared_memory_turns().values())
    # 2 heads, 4 warps, 4 + 16 + 16 ldmatrix of four matrices each, and seven extra turns per matrix
    assert turns == {"tensor_cores": 2 * 4 * 36 * 4 * 7, "swizzle": 0, "pipelined": 0}


@each
@pytest.mark.skipif(nvrtc.missing() is not None, reason=str(nvrtc.missing()))
def test_a_rung_compiles_without_spills(rung) -> None:
    usage = nvrtc.compile_kernels(rung.source, ("-std=c++17", *nvrtc.OF_CUPY), "sm_80")[rung.name]
    assert usage.spilled == usage.stack == 0
    assert (usage.mma_instructions > 0) == rung.uses_tensor_cores
