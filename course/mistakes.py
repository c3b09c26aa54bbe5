"""Reads the hints and the typical mistakes of a chapter's exercises from a text file.

For example, c06_head_exercises.txt has a part for the exercise `attend`. Its first line names handloom's function,
three hints follow, and then the mistakes: each is a message and a change of the solution.

# attend: autograd.ops.attention.attention_plain
1. Which of the two must be transposed?
2. ...
3. ...

The scores are not divided by sqrt(d), so the weights are too sharp.
- / np.sqrt(q.shape[1])
+

A line with "- " contains the code to replace, wherever it occurs, and a line with "+ " contains its replacement. If
several lines have the same sign, the later ones get the indentation of the source line with the first one. If a mistake
has little in common with the solution, replace the solution's first line by other code that returns the result.

If an exercise is to find several mistakes in given code, the part "# planted in NAME" contains them. Its first
paragraph is the message if all mistakes remain. Each mistake's message begins with a name and a colon, and is shown if
this mistake is the first that remains.
"""

import inspect
import re
import sys
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from .stub import without_marks

Change = tuple[list[str], list[str]]  # the lines of code to replace, and their replacement


class Mistake(NamedTuple):
    """A typical wrong answer, and the message that helps with it."""

    message: str
    answer: Any


def described(solution: Any) -> tuple[str, tuple[str, ...], list[Mistake]]:
    """Return the source, the hints and the mistakes of the exercise with this solution, a function or class."""
    heading, *mistakes = _parts(solution)[solution.__name__]
    source, *hints = re.split(r"\n\d\. ", heading)
    found = [Mistake(message, _with(solution, changes)) for message, changes in map(_mistake, mistakes)]
    return source, tuple(" ".join(hint.split()) for hint in hints), _some_left(solution) + found


def planted(solution: Any) -> list[str]:
    """Return the names of the mistakes that are planted in the code that the learner corrects."""
    return [message.partition(": ")[0] for message, _ in _planted(solution)]


def with_left(solution: Any, *names: str) -> Any:
    """Return the solution with these planted mistakes."""
    wanted = [changes for message, changes in _planted(solution) if message.partition(": ")[0] in names]
    return _with(solution, [change for changes in wanted for change in changes])


def _planted(solution: Any) -> list[tuple[str, list[Change]]]:
    return [_mistake(text) for text in _parts(solution).get(f"planted in {solution.__name__}", [""])[1:]]


def _some_left(solution: Any) -> list[Mistake]:
    """Return the solution with each set of planted mistakes, beginning with all of them."""
    found = []
    texts = dict(message.split(": ", 1) for message, _ in _planted(solution))
    for count in range(len(texts), 0, -1):
        for left in combinations(texts, count):
            mended = ", ".join(name for name in texts if name not in left)
            message = f"Fixed: {mended}. Still to find: {count}. {texts[left[0]]}"
            if not mended:
                message = " ".join(_parts(solution)[f"planted in {solution.__name__}"][0].split())
            found.append(Mistake(message, with_left(solution, *left)))
    return found


def _parts(solution: Any) -> dict[str, list[str]]:
    """Return the paragraphs of each part of the chapter's file."""
    stem = inspect.getfile(solution).removesuffix("_solution.py")
    return _read(Path(f"{stem}_exercises.txt"))


@cache
def _read(file: Path) -> dict[str, list[str]]:
    found = {}
    for part in re.split(r"^# ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        name, _, text = part.partition(":")
        found[name] = [paragraph.strip() for paragraph in text.strip().split("\n\n")]
    return found


def _mistake(text: str) -> tuple[str, list[Change]]:
    """Return the message of a mistake, and its changes of the solution."""
    message: list[str] = []
    changes: list[Change] = []
    for line in text.split("\n"):
        sign = line[:2].rstrip()
        if sign == "-" and (not changes or changes[-1][1]):
            changes.append(([line[2:]], []))
        elif sign in ("-", "+"):
            changes[-1][sign == "+"].append(line[2:])
        else:
            message.append(line)
    return " ".join(message), changes


def _with(solution: Any, changes: list[Change]) -> Any:
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
