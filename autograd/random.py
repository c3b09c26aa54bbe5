"""Random numbers that can be seeded, saved and restored.

Every function that draws random numbers takes a `Generator`. The default generator is seeded by `manual_seed`.
"""

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .backend import Array, device_of, to_device
from .quick import blocks, parallel_for

# A mask of at least _LARGE elements is drawn in _LANES parts, each from a stream seeded by the generator, so that
# several threads can draw at once. The number of parts is fixed, so the result is the same for any number of threads.
_LARGE, _LANES = 1 << 16, 4


class _Words(np.random.bit_generator.ISeedSequence):
    """A seed of three random words, (3,) uint64, which is created ten times faster than NumPy's SeedSequence."""

    def __init__(self, words: np.ndarray):
        self.words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        return self.words


def _stream(words: np.ndarray) -> np.random.SFC64:
    seed: Any = _Words(words)
    return np.random.SFC64(seed)


class Generator:
    """A stream of random numbers (NumPy's SFC64). Threads can share a generator, because each draw is atomic. The seed
    is one number or several numbers; each combination gives a different stream. `get_state()` returns data for a JSON
    file. After `set_state` with this data, the generator draws the same numbers again.

    Attributes:
        numpy: a NumPy generator (with `normal`, `integers`, `permutation` and so on) that draws from this stream.

    CUDA kernels compute their random bits from two numbers (`next_call`): a seed on the device, which this generator
    draws once, and the number of the call.
    """

    def __init__(self, seed: int | Sequence[int] = 0):
        self._bits = np.random.SFC64(seed)
        self.numpy = np.random.Generator(self._bits)
        self._lock = threading.RLock()
        self._seed: int | None = None  # the kernels' seed, once it is drawn; `_calls` calls have used it
        self._seed_array: Any = None
        self._calls = 0

    def get_state(self) -> dict[str, Any]:
        """Return the state of the stream, as numbers and lists."""
        state = self._bits.state
        return {
            "bit_generator": state["bit_generator"],
            "state": [int(word) for word in state["state"]["state"]],
            "has_uint32": int(state["has_uint32"]),
            "uinteger": int(state["uinteger"]),
            "kernels": None if self._seed is None else [self._seed, self._calls],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state that `get_state` returned.
        Raises ValueError if it is not the state of an SFC64 generator.
        """
        if state.get("bit_generator") != "SFC64" or len(state.get("state", ())) != 4:
            raise ValueError(f"this is not the state of an SFC64 generator: {state!r}")
        self._bits.state = {
            "bit_generator": "SFC64",
            "state": {"state": np.array(state["state"], dtype=np.uint64)},
            "has_uint32": state["has_uint32"],
            "uinteger": state["uinteger"],
        }
        seed, self._calls = state.get("kernels") or (None, 0)
        if seed != self._seed:
            self._seed, self._seed_array = seed, None

    def __reduce__(self) -> Any:
        return type(self), (), self.get_state()  # for copy and pickle: a separate stream that continues from here

    __setstate__ = set_state

    def next_call(self, x: Array) -> tuple[Array, int]:
        """Return the two numbers for a kernel's random bits: a seed (1,) uint64 on x's device, and the number of this
        call. The first call draws the seed.
        """
        with self._lock:
            if self._seed is None:
                self.begin_calls()
            if self._seed_array is None or device_of(self._seed_array) != device_of(x):
                self._seed_array = to_device(np.array([self._seed], np.uint64), device_of(x))
            self._calls += 1
            return self._seed_array, self._calls - 1

    def begin_calls(self) -> int:
        """Draw a new seed for the kernels, count their calls from 0, and return the seed."""
        with self._lock:
            self._seed, self._seed_array, self._calls = int(self.numpy.integers(1 << 63)), None, 0
            return self._seed

    def keep_seed_in(self, where: Array) -> None:
        """Use the seed in the array `where`, (1,) uint64 on the device, for later calls of kernels."""
        self._seed_array = where

    def keep_mask(self, shape: tuple[int, ...], drop: float) -> tuple[np.ndarray, float]:
        """Return a boolean mask whose elements are False with probability `drop`, and the scale 1 / P(True).

        The probability is rounded to a multiple of 2^-16, since each element uses sixteen random bits. The scale is
        computed from the rounded probability and preserves expectations.
        """
        if math.prod(shape) < _LARGE:
            return keep_mask([self._bits], shape, drop)
        return keep_mask([_stream(words) for words in self._bits.random_raw((_LANES, 3))], shape, drop)


def keep_mask(streams: Sequence[np.random.SFC64], shape: tuple[int, ...], drop: float) -> tuple[np.ndarray, float]:
    """Compute the result of `Generator.keep_mask` on several threads. Each stream draws an equal part of the mask."""
    threshold = round(drop * 65536)
    mask = np.empty(math.prod(shape), bool)
    bounds = [mask.size * lane // len(streams) for lane in range(len(streams) + 1)]

    def draw(first: int, last: int) -> None:
        for lane in range(first, last):
            # A block begins at a multiple of four in its lane, so that words are used whole.
            for piece in blocks(bounds[lane], bounds[lane + 1]):
                size = piece.stop - piece.start
                words = streams[lane].random_raw((size + 3) // 4).view(np.uint16)
                np.greater_equal(words[:size], threshold, out=mask[piece])

    parallel_for(np, len(streams), draw, cost=0.5 * mask.size / len(streams))
    return mask.reshape(shape), 65536 / (65536 - threshold) if threshold < 65536 else 0.0


class ReplayedMask:
    """A Generator's replacement when another implementation repeats a call: it returns the first call's mask."""

    def __init__(self, mask: Array | None, scale: float):
        self.mask, self.scale = mask, scale

    def keep_mask(self, shape: tuple[int, ...], drop: float) -> tuple[Array, float]:
        assert self.mask is not None
        return self.mask.reshape(shape), self.scale


default_generator = Generator(0)


def manual_seed(seed: int) -> None:
    """Seed the default generator, which draws initial weights and dropout masks."""
    default_generator.set_state(Generator(seed).get_state())


@contextmanager
def drawing_from(state: dict[str, Any]) -> Iterator[None]:
    """Draw from the default generator from `state` on within the block, and restore its own state after the block."""
    own = default_generator.get_state()
    default_generator.set_state(state)
    try:
        yield
    finally:
        default_generator.set_state(own)
