"""Makes the learner's file from the solution: replaces the code below a mark by an error with the mark's text.

# your turn: What is the derivative of tanh, as a function of y = tanh(x)?
return ...                    removed, up to the end of the block or to a line `# given:`
"""

import ast
import json
import re
import textwrap
from typing import NamedTuple

MARK, GIVEN = "# your turn:", "# given:"

HEAD = '''"""Chapter {number}: {title} Read {stem}.md, then write what is missing here.

    python -m handloom.course check {number}        checks this file
    python -m handloom.course hint {number}         shows a hint, more detailed each time
"""
'''


class Stub(NamedTuple):
    """The learner's file in its initial form, the texts of its errors, and the number of lines to write."""

    text: str
    messages: list[str]
    lines: int


def stub(source: str, head: str) -> Stub:
    """Return the learner's file for a solution.

    `head` replaces the module's docstring. Imports from the package (`from ...nn import`) become absolute.
    """
    first = ast.parse(source).body[0]
    lines = head.rstrip("\n").split("\n") + source.split("\n")[first.end_lineno :]
    out: list[str] = []
    messages, cut, number = [], 0, 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if not line.strip().startswith(MARK):
            out.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        words = [line.strip().removeprefix(MARK)]
        while lines[number].startswith(f"{indent}# "):
            words.append(lines[number].strip()[2:])
            number += 1
        messages.append(" ".join(" ".join(words).split()))
        out += _raises(messages[-1], indent)
        begin = number
        while number < len(lines) and _inside(lines[number], indent):
            number += 1
        while not lines[number - 1].strip():  # keep blank lines below the block
            number -= 1
        cut += sum(bool(re.match(r"\s*[^\s#]", one)) for one in lines[begin:number])
        if number < len(lines) and lines[number].strip() == GIVEN:
            number += 1
    text = re.sub(r"^from \.\.\.(?=\w)", "from handloom.", "\n".join(out), flags=re.MULTILINE)
    return Stub(text, messages, cut)


def without_marks(source: str) -> str:
    """Return the solution for display, without the marks and the messages."""
    return re.sub(rf"^( *){MARK}.*\n(\1# .*\n)*|^ *{GIVEN}\n", "", source, flags=re.MULTILINE)


def _inside(line: str, indent: str) -> bool:
    return not line.strip() or (line.startswith(indent) and line.strip() != GIVEN)


def _raises(message: str, indent: str) -> list[str]:
    rows = textwrap.wrap(message, 100 - len(indent))
    texts = [f"{indent}    {json.dumps(row + ' ' * (row is not rows[-1]), ensure_ascii=False)}" for row in rows]
    return [f"{indent}raise NotImplementedError(", *texts, f"{indent})"]
