"""Reads descriptions of typical mistakes, each a message and a small change of an exercise's solution.

The scores are not divided by sqrt(d), so the weights are too sharp.
- / np.sqrt(q.shape[1])
+
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from .stub import without_marks


def changed(solution: Any, text: str) -> Iterator[tuple[str, Any]]:
    """Yield each message of `text`, and a copy of `solution` (a function or class) with the changes below the message.

    A line with "- " contains the code to replace, wherever it occurs, and a line with "+ " contains its replacement. If
    several lines have the same sign, the later ones get the indentation of the source line with the first one.
    """
    message: list[str] = []
    changes: list[tuple[list[str], list[str]]] = []
    for line in [*textwrap.dedent(text).strip().splitlines(), ""]:
        sign = line[:2].rstrip()
        if sign == "-" and (not changes or changes[-1][1]):
            changes.append(([line[2:]], []))
        elif sign in ("-", "+"):
            changes[-1][sign == "+"].append(line[2:])
        else:
            if changes:
                yield " ".join(message), _with(solution, changes)
                message, changes = [], []
            message.append(line)


def _with(solution: Any, changes: list[tuple[list[str], list[str]]]) -> Any:
    source = without_marks(inspect.getsource(solution))
    for old, new in changes:
        before, found, _ = source.partition(old[0])
        assert found, f"{solution.__name__} has no {old[0]!r}"
        line = before[before.rfind("\n") + 1 :]
        margin = "\n" + " " * (len(line) - len(line.lstrip()))
        assert margin.join(old) in source, f"{solution.__name__} has no {old}"
        source = source.replace(margin.join(old), margin.join(new))
    names = dict(vars(sys.modules[solution.__module__]))
    exec(source, names)
    return names[solution.__name__]
