"""Random numbers that can be seeded, saved, restored and replayed.

Every function that draws random numbers takes a `Generator`. The default generator is seeded by `manual_seed`.
"""

import math
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from typing import Any

import numpy as np

from .backend import Array, device_of, to_device
from .locks import new_lock
from .quick import blocks, parallel_for

# One lock for all generators: a fork can wait for it.
_lock = new_lock()
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


def _entropy(seed: int | Sequence[int] | np.random.SeedSequence) -> np.random.SeedSequence:
    """Return the entropy of a seed. NumPy joins the words of several numbers and pads them with zeros, so that 0, [0]
    and [0, 0] would be one seed, and so would 2**32 and [0, 1]. Several numbers are therefore seeded by their text.
    """
    if isinstance(seed, np.random.SeedSequence):
        return seed
    several: Any = seed if np.ndim(seed) else [seed]
    try:
        numbers = [operator.index(number) for number in several]
    except TypeError:
        raise TypeError(f"Generator: the seed must be an integer or several integers, not {seed!r:.60}") from None
    if any(number < 0 for number in numbers):
        raise ValueError(f"Generator: the seed can't be negative: {seed}")
    if several is seed:
        return np.random.SeedSequence(list(repr(numbers).encode()), spawn_key=(1,))
    return np.random.SeedSequence(numbers[0])


class Generator:
    """A stream of random numbers (NumPy's SFC64). Threads can share a generator, because each draw is atomic. The seed
    is a number or a sequence of numbers, none of them negative; each number and each sequence gives a different stream.
    It can also be NumPy's SeedSequence, which is used as it is.
    `get_state()` returns data for a JSON file. After `set_state` with this data, the generator draws the same numbers
    again.

    A forked process gets a copy of each generator and draws the same numbers as its parent, for example the same
    dropout masks, unless it seeds them again.

    CUDA kernels compute their random bits from two numbers (`next_call`): a seed on the device, which this generator
    draws once, and the number of the call.
    """

    def __init__(self, seed: int | Sequence[int] | np.random.SeedSequence = 0):
        self._bits = np.random.SFC64(_entropy(seed))
        self._seed: int | None = None  # the kernels' seed, once it is drawn; `_calls` calls have used it
        self._seed_array: Any = None
        self._calls = 0

    @property
    def numpy(self) -> np.random.Generator:
        """A NumPy generator (with `normal`, `integers`, `permutation` and so on) that draws from this stream."""
        return _Methods(self)

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
        """Continue from a state that `get_state` returned. Raises ValueError if it is not the state of an SFC64
        generator. This method has no effect while draws are repeated (see `Draws`).
        """
        if state.get("bit_generator") != "SFC64" or len(state.get("state", ())) != 4:
            raise ValueError(f"this is not the state of an SFC64 generator: {state!r}")
        if _thread.log is not None and _thread.log.is_repeating():
            return
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

    def draw(self, draw: Callable[[np.random.SFC64], Any]) -> Any:
        """Return draw(bits), computed atomically. `bits` is this stream, or the stream of a draw to be repeated."""
        log = _thread.log
        if log is None:
            with _lock:
                return draw(self._bits)
        state = log.given()
        if state is None:
            with _lock:
                state = self._bits.state
                drawn = draw(self._bits)
        else:
            bits = _stream(np.zeros(3, np.uint64))
            bits.state = state
            drawn = draw(bits)
        log.note(state)
        return drawn

    def next_call(self, x: Array) -> tuple[Array, int]:
        """Return the two numbers for a kernel's random bits: a seed (1,) uint64 on x's device, and the number of this
        call. The first call draws the seed.
        """
        log = _thread.log
        call = None if log is None else log.given()
        if call is None:
            with _lock:
                if self._seed is None:
                    self.begin_calls()
                if self._seed_array is None or device_of(self._seed_array) != device_of(x):
                    self._seed_array = to_device(np.array([self._seed], np.uint64), device_of(x))
                call = self._seed_array, self._calls
                self._calls += 1
        if log is not None:
            log.note(call)
        return call

    def begin_calls(self) -> int:
        """Draw a new seed for the kernels, count their calls from 0, and return the seed."""
        with _lock:
            self._seed, self._seed_array, self._calls = int(np.random.Generator(self._bits).integers(1 << 63)), None, 0
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
            return self.draw(lambda bits: keep_mask([bits], shape, drop))
        seeds = self.draw(lambda bits: bits.random_raw((_LANES, 3)))
        return keep_mask([_stream(words) for words in seeds], shape, drop)


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


class _Methods(np.random.Generator):
    """A NumPy generator. Each call of its methods is one draw from a `Generator`."""

    def __init__(self, generator: Generator):
        super().__init__(generator._bits)
        self._generator = generator

    def __getattribute__(self, name: str) -> Any:
        if name not in _METHODS:
            return super().__getattribute__(name)
        draw, method = self._generator.draw, getattr(np.random.Generator, name)
        return lambda *args, **kwargs: draw(lambda bits: method(np.random.Generator(bits), *args, **kwargs))


_METHODS = {name for name in vars(np.random.Generator) if name[0] != "_"} - {"bit_generator", "spawn"}


class Draws:
    """A record of a computation's random draws in this thread, from any generators. It can repeat the draws with the
    same numbers.

        draws = Draws()
        with draws.noted():
            first = compute()
        with draws.repeated():
            again = compute()  # the generators are not touched

    The record contains the initial state of each draw, so draws by other threads do not change the repeated numbers.
    """

    def __init__(self) -> None:
        self.states: list[Any] = []
        self.repeats, self.index = False, 0
        self.outer: Draws | None = None

    def noted(self) -> AbstractContextManager["Draws"]:
        """Record the draws of this block."""
        return self._active(repeats=False)

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """Repeat the recorded draws in this block. Raises RuntimeError if the numbers of draws differ."""
        with self._active(repeats=True) as draws:
            yield
            draws._check(draws.index == len(self.states))

    @contextmanager
    def _active(self, repeats: bool) -> Iterator["Draws"]:
        """Record or repeat this thread's draws in the block, and inform the record that was active before."""
        draws = copy(self)  # a second block, also in another thread, repeats the same draws
        draws.repeats, draws.index, draws.outer = repeats, 0, _thread.log
        _thread.log = draws
        try:
            yield draws
        finally:
            _thread.log = draws.outer

    def is_repeating(self) -> bool:
        return self.repeats or (self.outer is not None and self.outer.is_repeating())

    def given(self) -> Any:
        """Return the state at which the next draw must start, or None if no draws are being repeated."""
        if not self.repeats:
            return None if self.outer is None else self.outer.given()
        self._check(self.index < len(self.states))
        self.index += 1
        return self.states[self.index - 1]

    def note(self, state: Any) -> None:
        if not self.repeats:
            self.states.append(state)
            if self.outer is not None:
                self.outer.note(state)

    def _check(self, alike: bool) -> None:
        if not alike:
            raise RuntimeError(
                f"a repeated computation must draw random numbers as often as before ({len(self.states)} times), but "
                "does not: was a layer switched between train() and eval() in the meantime?"
            )


class _Thread(threading.local):
    log: Draws | None = None


_thread = _Thread()
default_generator = Generator(0)


def manual_seed(seed: int) -> None:
    """Seed the default generator, which draws initial weights and dropout masks."""
    default_generator.set_state(Generator(seed).get_state())
