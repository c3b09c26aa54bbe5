"""CUDA graphs: a replay repeats what was captured, each number has its own graph, and unsupported captures raise."""

from typing import Any, NamedTuple
from unittest.mock import Mock

import numpy as np
import pytest

from handloom.autograd.backend import GraphError, constant
from handloom.autograd.kernels.graphs import Graphs
from handloom.autograd.kernels.products import product
from tests.support.fake_cupy import capture


class Batch(NamedTuple):
    x: np.ndarray
    by: np.ndarray
    power: int = 1


def batch(seed: int, size: int = 5, **others: Any) -> Batch:
    rng = np.random.default_rng(seed)
    x, by = rng.standard_normal((size, 3)), rng.standard_normal((3, 4))
    return Batch(x.astype(np.float32), by.astype(np.float16), **others)


def compute(given: Batch) -> dict[str, Any]:
    made = product(given.x, given.by.astype(np.float32)) ** given.power
    made[0] = 7
    return {"made": made, "rows": len(given.x)}


def wanted(given: Batch) -> np.ndarray:
    made = (given.x @ given.by.astype(np.float32)) ** given.power
    made[0] = 7
    return made


def test_every_form_is_plain_then_captured_then_replayed(cuda) -> None:
    graphs, counts = Graphs(), []
    for seed in range(4):
        for size, power in ((5, 1), (2, 1), (5, 2)):
            given = batch(seed, size, power=power)
            found = graphs("name", compute, given)
            np.testing.assert_allclose(found["made"].get(), wanted(given), rtol=1e-4)
            assert found["rows"] == size
            counts.append((graphs.captured, graphs.launched))
    four = graphs.sizes() == {"name": 4}
    assert four or graphs.cupy.__version__ < "14", "launches: a cast, a product, a power, an assignment"
    assert counts == [(0, 0)] * 3 + [(1, 1), (2, 2), (3, 3)] + [(3, n) for n in range(4, 10)]


def test_arrays_of_a_batch_are_aligned_and_keep_their_types(cuda) -> None:
    """Kernels read 16 bytes at a time. The bytes of 1.0 in float32 are another number in int32."""
    graphs, odd = Graphs(), np.ones(3, np.uint8)

    def function(given: Any) -> dict[str, Any]:
        assert (given[1].data.ptr - given[0].data.ptr) % 256 == 0
        return {"y": given[1] * 2}

    for dtype in (np.float32, np.int32) * 3:
        found = graphs("name", function, (odd, np.ones(5, dtype)))["y"]
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.get(), 2)


def test_results_are_the_caller_s(cuda) -> None:
    graphs = Graphs()
    found = [graphs("name", compute, batch(seed))["made"] for seed in range(4)]
    for seed, made in enumerate(found):
        np.testing.assert_allclose(made.get(), wanted(batch(seed)), rtol=1e-4)


def test_names_and_numbers_make_graphs_of_their_own(cuda) -> None:
    graphs = Graphs()
    for factor in (2.0, 3.0, 2.0, 3.0, 2.0, 3.0):
        found = graphs(("scaled", factor), lambda given, by=factor: {"y": given * by}, np.ones(2, np.float32))
        np.testing.assert_array_equal(found["y"].get(), factor)


def test_the_oldest_graph_makes_room(cuda) -> None:
    graphs = Graphs(most=2)
    for size in (1, 1, 2, 2, 1, 3, 3, 1, 2):
        graphs("name", compute, batch(0, size))
    assert graphs.captured == 3
    assert graphs.launched == 5
    graphs("name", compute, batch(0, 2))
    assert graphs.captured == 4, "size 3 replaced the graph of size 2"


def test_a_constant_is_kept(cuda) -> None:
    graphs = Graphs()

    def function(given: Any) -> dict[str, Any]:
        return {"y": given + constant(cuda, np.arange(3, dtype=np.float32))}

    for seed in range(3):
        found = graphs("constant", function, np.full(3, seed, np.float32))
        np.testing.assert_array_equal(found["y"].get(), seed + np.arange(3))


@pytest.mark.parametrize(
    "refused",
    [
        lambda cuda, x: x.sum().item(),
        lambda cuda, x: cuda.asarray(np.ones(3, np.float32)),
        lambda cuda, x: x @ x.T,
        lambda cuda, x: cuda.concatenate([x] * 9),
        lambda cuda, x: cuda.argsort(x),
        lambda cuda, x: x[x > 0],
        lambda cuda, x: cuda.cuda.Device().synchronize(),
    ],
    ids=["item", "host array", "product", "concatenate", "sort", "mask", "synchronize"],
)
def test_what_a_capture_refuses(refused, fake_cupy) -> None:
    graphs, calls = Graphs(), []

    def function(given: Any) -> dict[str, Any]:
        refused(fake_cupy, given)
        calls.append(1)
        return {"y": given * 2}

    x = np.ones((3, 3), np.float32)
    graphs("refused", function, x)  # the first call is not captured, so nothing is refused
    with pytest.raises(GraphError, match="can't be captured"):
        graphs("refused", function, x)
    assert calls == [1]
    assert fake_cupy.cuda.get_current_stream().ptr == 0
    for _ in range(2):
        np.testing.assert_array_equal(graphs("good", lambda given: {"y": given + 1}, x)["y"].get(), 2)


def test_no_memory_is_given_back_during_a_capture(fake_cupy, monkeypatch) -> None:
    """The allocator raises MemoryError, since for other errors CuPy's pools first free the blocks that seem unused."""

    class NoMemoryError(RuntimeError):
        pass

    freed: list[bool] = []
    monkeypatch.setattr(
        fake_cupy.get_default_memory_pool(), "free_all_blocks", lambda: freed.append(capture.capturing() is None)
    )
    for name in ("Memory", "MemoryPointer"):
        monkeypatch.setattr(fake_cupy.cuda, name, Mock(side_effect=NoMemoryError), raising=False)
    monkeypatch.setattr(fake_cupy.cuda.runtime, "CUDARuntimeError", NoMemoryError, raising=False)
    graphs = Graphs()
    for _ in range(3):
        graphs("sum", lambda given: {"y": given + 1}, np.ones(3))
    assert freed == [True]
    with pytest.raises(MemoryError, match="no 300 bytes are left"):
        graphs.pool.allocator(300)
