"""Functions with which optional, faster code replaces plain code.

`fast/` (for a CPU) and `kernels/` (for a GPU) contain only faster implementations, which a reader can skip. Only
`autograd/__init__.py` imports these packages, and HANDLOOM_PLAIN=1 in the environment prevents this import.
`implements` (`ops/registry.py`) registers a quick implementation of an op. Other functions are marked as `replaceable`:
the plain version is defined where it is used. A quicker version `replaces` the plain version when the quicker version's
module is imported.
"""

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import SettingError

F = TypeVar("F", bound=Callable[..., Any])

#: Elements processed at a time by loops over several arrays: a few arrays of this size fit into a core's cache. It is a
#: constant because some sums over rows are computed in pieces: another length would change their last bits.
PIECE = 1 << 17


def switched_on(variable: str, unset: bool, at_0: str, at_1: str) -> bool:
    """Return whether the environment variable is 1, `unset` if it is not set. Raises SettingError unless 0 or 1."""
    value = os.environ.get(variable, "")
    if value not in ("1", "0", ""):
        raise SettingError(f"error: {variable} is {value!r}: set it to 0 for {at_0}, or to 1 for {at_1}.")
    return value == "1" if value else unset


#: Whether HANDLOOM_PLAIN=1 leaves out everything that is only for speed.
PLAIN = switched_on("HANDLOOM_PLAIN", False, "quick implementations too", "plain ones only")


def replaceable(plain: F) -> F:
    """Decorator for a function that `replaces` can replace. Its `__wrapped__` remains the plain version."""

    @functools.wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        return made.now(*args, **kwargs)

    made: Any = call
    made.now = plain
    return made


def replaces(plain: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator: calls of the `replaceable` function `plain` then run the decorated function instead."""

    def enter(quick: F) -> F:
        target: Any = plain
        target.now = quick
        return quick

    return enter


@replaceable
def parallel_for(xp: Any, count: int, body: Callable[[int, int], None], cost: float) -> None:
    """Call body(start, stop) for parts that cover range(count): one part here, and several threads with
    `autograd/fast`.

    Args:
        xp: the arrays' module; work on a GPU is not divided.
        count: number of items. The parts must not depend on each other, and their number must not change the result.
        cost: rough time of one item in nanoseconds, which decides whether threads are used.
    """
    body(0, count)


def slices(start: int, stop: int, length: int) -> list[slice]:
    """Return consecutive slices of `length` indices that cover start..stop. The last slice can be shorter."""
    return [slice(first, min(first + length, stop)) for first in range(start, stop, length)]


def blocks(start: int, stop: int, width: int = 1) -> list[slice]:
    """Return `slices` of as many rows of `width` elements as have PIECE elements together, and of one row at least."""
    return slices(start, stop, max(PIECE // max(width, 1), 1))


@replaceable
def libraries() -> dict[str, tuple[str | None, str | None]]:
    """Return for each optional library its name and version, or None, and the reason why it is not used, or None."""
    return dict.fromkeys(("compiled_loops", "mkl"), (None, "HANDLOOM_PLAIN=1 leaves it out"))
