"""JSON files with one wrong value: each value in turn is replaced by others, or left out."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

#: Values of all kinds and of odd sizes; wherever they are put, at least one of them is wrong.
WRONG: tuple[Any, ...] = (
    None, True, 0, -1, 10**30, 1.5, math.nan, "", "x", "(", [], [1], ["a"], [["a"]], {}, {"a": 1}, "\ud800", "\0",
)  # fmt: skip


def paths(value: Any, path: tuple = (), most: int = 40) -> Iterator[tuple]:
    """The path to each value in a tree of dicts and lists; of long ones only the first `most`."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in list(inside)[:most]:
        yield from paths(one, (*path, key), most)


def wrong_values(value: Any, most: int = 40) -> Iterator[tuple[tuple, Any]]:
    """Copies of a tree, each with one value replaced by one of WRONG or left out, and the path to that value."""
    for path in paths(value, most=most):
        for wrong in (*WRONG, ...):
            if not path:
                if wrong is not ...:
                    yield path, wrong
                continue
            changed = copy.deepcopy(value)
            parent = changed
            for key in path[:-1]:
                parent = parent[key]
            if wrong is ...:
                del parent[path[-1]]
            else:
                parent[path[-1]] = wrong
            yield path, changed
