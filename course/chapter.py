"""Finds the chapters in `chapters/`, and makes the learner's files from them.

For example, chapter `c01_gradient` consists of the text `c01_gradient.md`, the solution `c01_gradient_solution.py`, the
exercises `c01_gradient.py` with their hints and mistakes `c01_gradient_exercises.txt`, and the code for the pictures,
`c01_gradient_pictures.py`. The learner's file is the solution without the code that the learner writes.
"""

import ast
import importlib
import re
import shlex
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from .exercise import Exercise, exercises
from .stub import HEAD, Stub, stub, without_marks

FOLDER = Path(__file__).parent / "chapters"
IMAGES = FOLDER / "images"
ROOT = FOLDER.parents[1]
#: The views of the explorer: the last part of a view's address, and its title.
VIEWS = {
    "model": "Model",
    "translate": "Translate",
    "head": "One head",
    "next": "Next word",
    "beam": "Beam",
    "graph": "Graph",
    "check": "Gradient check",
    "bpe": "BPE",
    "tiles": "Three ways",
    "training": "Training",
}
VIEW = "python -m handloom.explorer --view"
#: The views of the exported explorer, to which the chapters' pages in the documentation link.
LIVE = ("model", "translate", "head", "next", "beam", "bpe")
#: The chapters whose code the explorer can show next to handloom's code, and the view that shows it.
BUILT = {"c06_head": "head", "c11_beam": "beam"}
WORDS_A_MINUTE = 150  # reading speed for a text with formulas and code


@dataclass(frozen=True)
class Chapter:
    """One chapter. `stem` is the common part of its files' names, such as c01_gradient."""

    stem: str

    @property
    def number(self) -> int:
        return int(self.stem[1:3])

    @cached_property
    def text(self) -> str:
        """The source of the text, with roles for links: see `with_links`."""
        return (FOLDER / f"{self.stem}.md").read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        """The question of the chapter, such as "What is a gradient?"."""
        return self.text.partition("\n")[0].partition(". ")[2]

    @property
    def minutes(self) -> int:
        """The estimated reading time in minutes."""
        return max(1, round(len(self.text.split()) / WORDS_A_MINUTE))

    @cached_property
    def solution_source(self) -> str:
        return (FOLDER / f"{self.stem}_solution.py").read_text(encoding="utf-8")

    @cached_property
    def stub(self) -> Stub:
        return stub(self.solution_source, HEAD.format(number=self.number, title=self.title, stem=self.stem))

    @property
    def solution(self) -> ModuleType:
        return self._module("_solution")

    @cached_property
    def exercises(self) -> list[Exercise]:
        """The exercises in the order of the solution."""
        return exercises(self.solution, self._module(""))

    @property
    def drawings(self) -> dict[str, Any]:
        """A dictionary from the name of each picture's file in `images` to the function that draws the picture."""
        functions = vars(self._module("_pictures"))
        drawn = {name: function for name, function in functions.items() if name.startswith("draw_")}
        return {f"{self.stem[:3]}_{name.removeprefix('draw_')}.png": function for name, function in drawn.items()}

    @property
    def views(self) -> list[str]:
        """The views of the explorer to which the text links."""
        return list(dict.fromkeys(re.findall(r"\{explorer\}`([^`]+)`", self.text)))

    def _module(self, kind: str) -> ModuleType:
        return importlib.import_module(f".chapters.{self.stem}{kind}", __package__)

    def solution_of(self, name: str) -> str:
        """Return the source of the function or class `name` in the solution."""
        for node in ast.parse(self.solution_source).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
                lines = self.solution_source.split("\n")[node.lineno - 1 : node.end_lineno]
                return without_marks("\n".join(lines))
        raise KeyError(name)


@cache
def chapters() -> list[Chapter]:
    """Return all chapters in order: chapter 1 is the first."""
    return [Chapter(path.stem) for path in sorted(FOLDER.glob("c[0-9][0-9]_*.md"))]


def definition(name: str) -> tuple[Path, str, int]:
    """Return file, name and line of a definition, such as that of "autograd.ops.softmax.Softmax.backward".

    Raises KeyError if there is no such function, class or module.
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        file = ROOT.joinpath(*parts[:length]).with_suffix(".py")
        if file.is_file():
            node: Any = ast.parse(file.read_text(encoding="utf-8"))
            line = 1
            for part in parts[length:]:
                inner = [one for one in node.body if part in _names(one)]
                if not inner:
                    raise KeyError(name)
                node, line = inner[0], inner[0].lineno
            return file, ".".join(parts[length:]), line
    raise KeyError(name)


def _names(node: Any) -> list[str]:
    """Return the names that a statement defines: a function, a class, or variables."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [name for one in (node, *targets) if (name := getattr(one, "name", None) or getattr(one, "id", None))]


def source_link(name: str) -> str:
    """Return the location of the definition `name` as a text for the terminal, "file:line (name)"."""
    file, inside, line = definition(name)
    return f"{file}:{line} ({inside})" if inside else str(file)


def explorer_link(view: str, yours: Path | None = None) -> str:
    """Return the command that opens a view of the explorer, with the learner's code if the folder `yours` is given."""
    own = f" --yours {shlex.quote(str(yours))}" if yours else ""
    return f"`{VIEW} {view}{own}`, the view {VIEWS[view]}"


def with_links(text: str, up: str | None = None) -> str:
    """Return a chapter's text with its roles replaced by links: {source}`module.name` and {explorer}`view`.

    Links to sources begin with `up`, the path from the text to the repository's root; views are links to the exported
    explorer next to the text's folder. If `up` is None, links to sources are the full paths of the installed files.
    """

    def source(match: re.Match[str]) -> str:
        file, inside, line = definition(match[1])
        path = file.relative_to(ROOT).as_posix()
        target = f"{file}#L{line}" if up is None else f"{up}/{path}"
        return f"[{inside or path}]({target})" if not inside else f"[{inside} in {path}]({target})"

    text = re.sub(r"\{source\}`([^`]+)`", source, text)

    def view(match: re.Match[str]) -> str:
        name = title = VIEWS[match[1]]
        if up is not None and match[1] in LIVE:
            title = f'<a href="../explorer_live/index.html#{match[1]}">{name}</a>'
        return f"the view {title} (`{VIEW} {match[1]}`)"

    return re.sub(r"\{explorer\}`([^`]+)`", view, text)
