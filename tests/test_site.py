"""The documentation site, short of building it (`make docs` does): docstrings are clean markup, formulas are drawn."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sphinx", reason="the extra docs is not installed")

from docutils.core import publish_doctree

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("autograd", "nn", "models", "tokenizer", "train", "explorer", "course")


@pytest.fixture(scope="module")
def conf() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "conf.py"))


def docstrings(node: Any, name: str) -> Iterator[tuple[str, str]]:
    """The name and the docstring of everything public in a module."""
    if text := ast.get_docstring(node):
        yield name, text
    for child in () if isinstance(node, ast.FunctionDef) else node.body:
        if isinstance(child, (ast.ClassDef, ast.FunctionDef)) and not child.name.startswith("_"):
            yield from docstrings(child, f"{name}.{child.name}")


def markup(conf: dict[str, Any], text: str) -> str:
    lines = text.split("\n")
    conf["as_markup"](None, "", "", None, None, lines)
    return "\n".join(lines)


def read(text: str) -> Any:
    """The document, or SystemMessage for a warning."""
    return publish_doctree(".. default-role:: literal\n\n" + text, settings_overrides={"halt_level": 2})


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = index[index.index("```{toctree}") :].split()
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert pages <= set(listed)
    assert all(f"]({page}.md)" in index for page in pages)


def test_the_reference_has_modules_and_no_commands(conf) -> None:
    found = conf["modules"]()
    assert {"handloom.doctor", "handloom.errors", "handloom.files"} <= set(found["handloom"])
    assert not [name for names in found.values() for name in names if name.endswith("__main__")]
    assert "handloom.examples" not in found
    assert "handloom.train.runs.locks" in found["handloom.train.runs"]


def test_docstrings_are_clean_markup(conf) -> None:
    count = 0
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            module = ast.parse(path.read_text(encoding="utf-8"))
            found = list(docstrings(module, str(path.relative_to(ROOT))))
            count += len(found)
            # The names are comments between the docstrings: a message shows them.
            read("\n\n".join(f".. {name}\n\n{markup(conf, text)}" for name, text in found))
    assert count > 1000


def test_formulas_are_drawn_with_subscripts_below_the_baseline(conf) -> None:
    formulas = [
        formula.replace("\n", " ")
        for page in (ROOT / "docs").glob("*.md")
        for formula in re.findall(r"\$\$(.+?)\$\$", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    assert len(formulas) >= 5
    assert all(conf["outlines"](formula).count("M") >= 2 for formula in formulas)

    def lowest(formula: str) -> float:
        return max(float(y) for y in re.findall(r"[ML]\S+ (-?[\d.]+)", conf["outlines"](formula)))

    assert lowest("xij") < lowest("x_{ij}") - 1


def test_every_command_of_the_makefile_runs_though_a_folder_has_its_name() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    assert set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE)) == set(phony[1].split())
