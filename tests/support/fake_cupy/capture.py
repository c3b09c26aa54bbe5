"""Streams, CUDA graphs and memory pools of the stand-in.

While a stream is captured, launches are only recorded with their arguments, and results are NaN until the graph is
launched. What a device or CuPy does not permit during a capture raises an error: waiting for the device, CuPy's cuBLAS
calls, copies from the host, the first launch of a kernel (which compiles it), and allocations that are not from a pool
of the graph (`using_allocator`). This pool, and all other arrays that the graph uses, must live as long as the graph.
The default stream works at once. A non-blocking stream works late, when the host waits for the stream.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


class CaptureError(RuntimeError):
    """cudaErrorStreamCaptureUnsupported, or another error that a capture or a graph would cause on a device."""


class MemoryPool:
    """`cupy.cuda.MemoryPool`. It is only an identity, because NumPy allocates the memory."""

    def __init__(self, allocator: Any = None):
        self.allocator = allocator

    def malloc(self, size: int) -> Any:
        raise NotImplementedError

    def total_bytes(self) -> int:
        return 0

    def free_all_blocks(self, stream: Any = None) -> None:
        refuse("cudaFree")


default_pool = MemoryPool()
_pools: list[MemoryPool] = []  # of `using_allocator`


@contextlib.contextmanager
def using_allocator(allocator: Any = None) -> Iterator[None]:
    _pools.append(allocator.__self__)
    try:
        yield
    finally:
        _pools.pop()


class Graph:
    """`cupy.cuda.graph.Graph`."""

    def __init__(self, recording: _Recording):
        self._recording = recording

    def debug_dot_str(self, flags: int = 0) -> str:
        lines = [f'"graph_1_node_{i}"[style="bold"];' for i in range(len(self._recording.launches))]
        return "\n".join(["digraph dot {", *lines, '"graph_1_node_0" -> "graph_1_node_1";', "}"])

    def launch(self, stream: Any = None) -> None:
        from .array import operations

        if current().recording is not None:
            raise CaptureError("a graph is launched while a stream is captured")
        if self._recording.pool is not None and self._recording.pool() is None:
            raise CaptureError("the pool that the graph's memory came from is gone")
        if any(array() is None for array in self._recording.used):
            raise CaptureError("an array that the graph uses has been freed")
        operations.append("graph")
        stream = stream or current()
        if stream.late is not None:
            stream.late.launches += self._recording.launches
            return
        self._recording.run()


class _Recording:
    """The pending work of a stream: `captured` for a graph, or late work."""

    def __init__(self, captured: bool) -> None:
        self.launches: list[Callable[[], Any]] = []
        self.captured = captured
        self.memory: list[np.ndarray] = []  # the pool keeps it alive without other references
        self.used: list[weakref.ref[Any]] = []  # arrays that are not in `memory`
        self.pool: Any = None

    def allocate(self, array: np.ndarray) -> None:
        if self.captured and not _pools:
            raise CaptureError("memory is taken from the common pool: its next owner would share it with the graph")
        if self.captured:
            self.pool = weakref.ref(_pools[-1])
        self.memory.append(array)

    def use(self, owner: Any) -> None:
        if not any(owner._host is own for own in self.memory):
            self.used.append(weakref.ref(owner))

    def run(self) -> None:
        with np.errstate(all="ignore"):
            for launch in self.launches:
                launch()


class Stream:
    """`cupy.cuda.Stream`."""

    null: Stream
    _numbers = itertools.count(0)

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False):
        self.ptr, self.non_blocking = next(self._numbers), non_blocking
        self.recording: _Recording | None = None
        self.late = _Recording(captured=False) if non_blocking else None

    def __enter__(self) -> Stream:
        _streams.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _streams.pop()

    def begin_capture(self, mode: int | None = None) -> None:
        if self.ptr == 0:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        if self.recording is not None:
            raise CaptureError("the stream is being captured already")
        if not self.non_blocking:
            raise CaptureError("a blocking stream is captured: the default stream would have to wait for it")
        self.recording = _Recording(captured=True)

    def end_capture(self) -> Graph:
        assert self.recording is not None
        graph, self.recording = Graph(self.recording), None
        return graph

    def is_capturing(self) -> bool:
        return self.recording is not None

    def synchronize(self) -> None:
        from .array import synchronize

        synchronize("Stream.synchronize()")
        if self.late is not None:
            late, self.late = self.late, _Recording(captured=False)
            late.run()


Stream.null = Stream(null=True)
_streams = [Stream.null]


def current() -> Stream:
    return _streams[-1]


def capturing() -> _Recording | None:
    """Return the recording of the current stream, or None."""
    return current().recording


def refuse(what: str) -> None:
    """Raise CaptureError if the current stream is being captured."""
    if capturing() is not None:
        raise CaptureError(f"{what}: operation not permitted when stream is capturing")


def perform(
    compute: Callable[[], Any], inputs: list[np.ndarray], out: np.ndarray | None = None, launches: bool = True
) -> Any:
    """Return the result of `compute`, a NumPy call that writes into `out` or returns a new array or a view of an input.

    During a capture the call is recorded, and every launch of the graph runs it again, unless it `launches` nothing. A
    late stream records the call as well.
    """
    recording = capturing() or current().late
    if recording is None:
        return compute()
    if out is not None:
        recording.launches.append(compute)
        return out
    with np.errstate(all="ignore"):
        found = compute()
    if isinstance(found, (tuple, list)):
        if not all(_shares(part, inputs) for part in found):
            raise NotImplementedError("the stand-in captures calls with one result")
        return found
    if _shares(found, inputs):
        return found
    own = np.array(found)
    recording.allocate(own)
    if launches:
        recording.launches.append(lambda: np.copyto(own, compute()))
    own[...] = np.nan if own.dtype.kind == "f" else 0
    return own


def _shares(array: Any, inputs: list[np.ndarray]) -> bool:
    return isinstance(array, np.ndarray) and any(np.may_share_memory(array, source) for source in inputs)
