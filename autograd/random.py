"""Random numbers that can be seeded, saved, restored and replayed.

Every source of randomness takes a `Generator`, or draws from the default one, which `manual_seed` seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .backend import Array, device_of, to_device
from .parallel import parallel_for, pieces

# A mask of so many elements is drawn in lanes, each a stream that starts from numbers of the generator's own: several
# threads can draw at once. The lanes are always as many, so that the numbers don't depend on the threads.
_LARGE, _LANES = 1 << 16, 4


class _Words(np.random.bit_generator.ISeedSequence):
    """Random words, (3,) uint64, as a seed: NumPy's own way, which mixes any numbers, takes ten times as long."""

    def __init__(self, words: np.ndarray):
        self.words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        return self.words


class Generator:
    """A stream of random numbers (NumPy's SFC64).

    Several numbers together make one seed, each combination another stream. `get_state()` is plain JSON-able data;
    after `set_state` with it the same numbers come again.

    Kernels draw their own bits by counter: from a seed that this generator draws once, which lies on the device, and
    the number of the call (`next_call`).
    """

    def __init__(self, seed: int | Sequence[int] = 0):
        self._bits = np.random.SFC64(seed)
        self.numpy = np.random.Generator(self._bits)
        self._seed: int | None = None  # of the kernels' bits, once it is drawn; `_calls` have used it
        self._seed_array: Any = None
        self._calls = 0

    def get_state(self) -> dict[str, Any]:
        state = self._bits.state
        return {
            "bit_generator": state["bit_generator"],
            "state": [int(word) for word in state["state"]["state"]],
            "has_uint32": int(state["has_uint32"]),
            "uinteger": int(state["uinteger"]),
            "kernels": None if self._seed is None else [self._seed, self._calls],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a saved state. Raises ValueError if it is not one of this kind of generator."""
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

    def next_call(self, x: Array) -> tuple[Array, int]:
        """What a kernel draws random bits from: a seed, (1,) uint64 on the device of `x`, and the number of the call.

        The seed is drawn at the first call.
        """
        if self._seed is None:
            self.begin_calls()
        if self._seed_array is None or device_of(self._seed_array) != device_of(x):
            self._seed_array = to_device(np.array([self._seed], np.uint64), device_of(x))
        self._calls += 1
        return self._seed_array, self._calls - 1

    def begin_calls(self) -> int:
        """Draw the seed of the calls to come, and return it."""
        self._seed, self._seed_array, self._calls = int(self.numpy.integers(1 << 63)), None, 0
        return self._seed

    def keep_seed_in(self, where: Array) -> None:
        """The seed lies in `where`, (1,) uint64 on the device, as far as the calls to come are concerned."""
        self._seed_array = where

    def keep_mask(self, shape: tuple[int, ...], drop: float, lanes: bool = True) -> tuple[np.ndarray, float]:
        """A boolean mask, False with probability `drop`, and the scale that keeps expectations: 1 / P(True).

        Sixteen random bits an element: the probability is rounded to a multiple of 2^-16, and the scale is exactly
        that of the rounded one. Without `lanes` even a large mask comes from this stream alone: quicker where the
        caller is one of several threads.
        """
        threshold = round(drop * 65536)
        mask = np.empty(math.prod(shape), bool)
        streams = [self._bits]
        if lanes and mask.size >= _LARGE:
            seeds: Any = [_Words(words) for words in self._bits.random_raw((_LANES, 3))]
            streams = [np.random.SFC64(seed) for seed in seeds]
        bounds = [mask.size * lane // len(streams) for lane in range(len(streams) + 1)]

        def draw(first: int, last: int) -> None:
            for lane in range(first, last):
                for piece in pieces(bounds[lane], bounds[lane + 1], 1):
                    size = piece.stop - piece.start
                    words = streams[lane].random_raw((size + 3) // 4).view(np.uint16)
                    np.greater_equal(words[:size], threshold, out=mask[piece])

        parallel_for(np, len(streams), draw, cost=0.5 * mask.size / len(streams))
        return mask.reshape(shape), 65536 / (65536 - threshold) if threshold < 65536 else 0.0


default_generator = Generator(0)


def manual_seed(seed: int) -> None:
    """Seed the default generator: initial weights and dropout follow from it."""
    default_generator.set_state(Generator(seed).get_state())
