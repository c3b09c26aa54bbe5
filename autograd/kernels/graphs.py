"""CUDA graphs: a computation of fixed shapes is captured once, and its kernels are then launched together.

    graphs = Graphs()
    found = graphs("pass", compute, batch)  # launched plainly once, then captured, then replayed

A launch of a graph repeats the captured launches with the same addresses and numbers. Values that change from call to
call must therefore be on the device. The host arrays of `batch` are copied into permanent buffers, which `compute` gets
as arguments. Random bits come from a seed in a permanent buffer (`Generator.begin_calls`). A number on the host is
constant in a graph. If `batch` contains numbers, each combination of numbers has a separate graph. Other numbers that
`compute` uses must not change.
"""

import contextlib
import dataclasses
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from ..backend import Array, GraphError, capturing, cuda_graphs, import_cupy, is_array
from ..quick import replaces

_NODE = re.compile(r'^"graph_\d+_node_\d+"\[', re.MULTILINE)  # in CUDA's description of a graph
_ALIGNMENT = 256  # bytes; each array of a batch begins at a multiple


#: A batch -> results by name, arrays on the device and numbers that follow from shapes.
Compute = Callable[[Any], dict[str, Any]]


@replaces(cuda_graphs)
class Graphs:
    """CUDA graphs of computations, one for each name and shapes of the batch. The module's docstring explains them.

    All graphs share one pool of memory, since they run one after the other. A graph's results remain valid until its
    next launch, and a call returns copies of the results.

    Args:
        most: maximum number of graphs. When it is exceeded, the least recently used graph is dropped.

    Attributes:
        captured, launched: number of graphs captured so far, and number of their launches.
    """

    def __init__(self, most: int = 64):
        self.cupy = import_cupy()
        self.pool = self.cupy.cuda.MemoryPool(partial(_allocate, self.cupy))
        self.stream = self.cupy.cuda.Stream(non_blocking=True)
        self.most, self.captured, self.launched = most, 0, 0
        self._entries: OrderedDict[tuple[Hashable, Hashable], _BatchGraph] = OrderedDict()

    def __call__(self, name: Hashable, compute: Compute, batch: Any) -> dict[str, Any]:
        """Return the results of compute(batch), for which the host arrays of `batch` are replaced by arrays on the
        device.

        Args:
            name: the key of the computation; it must include all numbers that `compute` uses and `batch` lacks.
            batch: a dataclass, tuple, list or dictionary of host arrays and hashable values; it can be nested.

        Raises GraphError if the computation can't be captured.
        """
        leaves: list[np.ndarray] = []
        key = name, _key_of(batch, leaves)
        entry = self._entries.pop(key, None)
        first = entry is None
        if entry is None:
            entry = _BatchGraph(self.cupy, batch, leaves)
        self._entries[key] = entry
        if len(self._entries) > self.most:
            self._entries.popitem(last=False)
        entry.fill(leaves)
        if first:
            with capturing([]):
                return compute(entry.batch)  # everything is compiled and loaded now
        if entry.graph is None:
            self._capture(entry, compute)
            self.captured += 1
        entry.graph.launch()
        self.launched += 1
        return {name: value.copy() if is_array(value) else value for name, value in entry.results.items()}

    def sizes(self) -> dict[Hashable, int]:
        """Return the number of launches in the last graph of each name: kernels, products, copies, fills. With CuPy
        before version 14, which does not describe its graphs, the result is empty.
        """
        graphs = {name: one.graph for (name, _), one in self._entries.items() if hasattr(one.graph, "debug_dot_str")}
        return {name: len(_NODE.findall(graph.debug_dot_str())) for name, graph in graphs.items()}

    def _capture(self, entry: "_BatchGraph", compute: Compute) -> None:
        cuda = self.cupy.cuda
        held: list[Array] = []
        self.cupy.get_default_memory_pool().free_all_blocks()  # a capture may free nothing
        with cuda.using_allocator(self.pool.malloc), self.stream, capturing(held):
            self.stream.begin_capture()
            try:
                entry.results = compute(entry.batch)
            except Exception as error:
                self._abandon()
                raise GraphError(f"this computation can't be captured as a CUDA graph: {error}") from error
            entry.graph, entry.held = self.stream.end_capture(), held

    def _abandon(self) -> None:
        with contextlib.suppress(Exception):  # the capture has already failed, and its own error is raised
            self.stream.end_capture()


def _allocate(cupy: Any, size: int) -> Any:
    """Allocate memory for the pool of the graphs.

    When memory runs out, CuPy's pools free all blocks that seem unused, although other graphs use these blocks and
    nothing may be freed during a capture. `_allocate` therefore raises a MemoryError, which the pools pass on.
    """
    try:
        return cupy.cuda.MemoryPointer(cupy.cuda.Memory(size), 0)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise MemoryError(f"no {size:,} bytes are left on the device for another CUDA graph") from error


class _BatchGraph:
    """A batch with arrays of given shapes on the device, and its graph. One transfer copies all host arrays there."""

    def __init__(self, cupy: Any, batch: Any, leaves: list[np.ndarray]):
        ends = np.cumsum([-(-leaf.nbytes // _ALIGNMENT) * _ALIGNMENT for leaf in leaves]).tolist()
        self.cupy, self.starts = cupy, [0, *ends][:-1]
        self.buffer = cupy.empty(ends[-1] if ends else 0, np.uint8)
        pieces = [self.buffer[a : a + leaf.nbytes] for leaf, a in zip(leaves, self.starts, strict=True)]
        views = [piece.view(leaf.dtype).reshape(leaf.shape) for leaf, piece in zip(leaves, pieces, strict=True)]
        self.batch = _replaced(batch, iter(views))
        self.graph: Any = None
        self.results: dict[str, Any] = {}
        self.held: list[Array] = []

    def fill(self, leaves: list[np.ndarray]) -> None:
        """Copy the host arrays of a batch into the buffer on the device."""
        host = np.zeros(self.buffer.size, np.uint8)
        for leaf, start in zip(leaves, self.starts, strict=True):
            host[start : start + leaf.nbytes] = np.ascontiguousarray(leaf).reshape(-1).view(np.uint8)
        if host.size:
            self.buffer[...] = self.cupy.asarray(host)


def _key_of(value: Any, leaves: list[np.ndarray]) -> Hashable:
    """Return a key that is equal for batches that can use the same graph, and append the host arrays to `leaves`."""
    if isinstance(value, np.ndarray):
        leaves.append(value)
        return value.shape, value.dtype.str
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value), *(_key_of(getattr(value, field.name), leaves) for field in dataclasses.fields(value))
    if isinstance(value, dict):
        return dict, *((name, _key_of(part, leaves)) for name, part in value.items())
    if isinstance(value, (tuple, list)):
        return type(value), *(_key_of(part, leaves) for part in value)
    return value


def _replaced(value: Any, arrays: Any) -> Any:
    """Return `value` with its host arrays replaced by those of the iterator `arrays`, in the order of `_key_of`."""
    if isinstance(value, np.ndarray):
        return next(arrays)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: _replaced(getattr(value, field.name), arrays) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **parts)
    if isinstance(value, dict):
        return {name: _replaced(part, arrays) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        own = [_replaced(part, arrays) for part in value]
        return type(value)(*own) if hasattr(value, "_fields") else type(value)(own)
    return value
