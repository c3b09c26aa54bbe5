"""docs/names.md lists the public names, and the documentation, the examples and the course use no others."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .test_docs import blocks
from .test_links import PAGES, ROOT

PAGE = ROOT / "docs" / "names.md"
SECTION = re.compile(r"^## `(handloom[a-z_.]*)`$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \| (.*) \|$", re.MULTILINE)
#: For each public module the names that its section lists, with the text of each row.
LISTED = {module: dict(ROW.findall(text)) for module, text in SECTION.findall(PAGE.read_text(encoding="utf-8"))}
#: Modules that are public as texts to read, or as folders of the examples.
READ = {"handloom.autograd.engine_to_study", "handloom.models.transformer_to_study", "handloom.nn.init"}
#: What only the programs of the reports use: their options and runs, and the modules of their tables.
OF_PROGRAMS = {"handloom.cli", "handloom.examples.tables"}
EXAMPLES = sorted((ROOT / "examples").glob("[a-z]*.py"))


def public(module: str) -> set[str]:
    """Return the public names of a module: `__all__`, or the functions of the ops."""
    found = importlib.import_module(module)
    if module == "handloom.examples.tables":
        return {path.stem for path in (ROOT / "examples" / "tables").glob("[a-z]*.py")}
    if hasattr(found, "__all__"):
        return set(found.__all__)
    return {name for name, value in vars(found).items() if inspect.isfunction(value) and not name.startswith("_")}


def summary(module: str, name: str) -> str:
    """Return the first sentence of a name's docstring, or what it is for a constant."""
    value = getattr(importlib.import_module(module), name)
    if not (inspect.ismodule(value) or inspect.isclass(value) or inspect.isroutine(value)):
        return f"a constant of type `{type(value).__name__}`"
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0].rstrip(".:").replace("|", "\\|")


@pytest.mark.parametrize("module", LISTED)
def test_every_public_name_has_its_line(module) -> None:
    """`python -m tests.test_names` writes the page."""
    assert LISTED[module] == {name: summary(module, name) for name in public(module)}


def imported(code: str) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each import of handloom; the name is "" for `import handloom.x`."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "handloom":
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "handloom")


def is_public(module: str, name: str) -> bool:
    if module in READ or f"{module}.{name}" in LISTED:
        return True
    return module in LISTED and (not name or name in public(module))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pages_use_public_names_only(page: Path) -> None:
    """The course may look into the engine, since its chapters explain it."""
    private = [found for _, code in blocks(page) for found in imported(code) if not is_public(*found)]
    assert private == []


def taken(code: str) -> Iterator[tuple[str, str]]:
    """Yield what `imported` does, and the names that the code takes from an imported package: `train.bleu`."""
    packages = {name: f"{module}.{name}" for module, name in imported(code)}
    packages = {name: package for name, package in packages.items() if package in LISTED or package in OF_PROGRAMS}
    yield from ((module, name) for module, name in imported(code) if name not in packages)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in packages:
            yield packages[node.value.id], node.attr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_use_public_names_only(path: Path) -> None:
    found = list(taken(path.read_text(encoding="utf-8")))
    assert found or path.name == "one_file.py"
    assert [one for one in found if not (is_public(*one) or (one[0] in OF_PROGRAMS and one[1] in public(one[0])))] == []


def test_a_private_name_of_a_package_is_found() -> None:
    code = "from handloom import train\nfrom handloom.train.tasks import metrics\ntrain.bleu\ntrain.trainer"
    assert [one for one in taken(code) if not is_public(*one)] == [
        ("handloom.train.tasks", "metrics"),
        ("handloom.train", "trainer"),
    ]


def section(module: str) -> str:
    """Return the section of a module, as it should be."""
    rows = [f"| `{name}` | {summary(module, name)} |" for name in sorted(public(module), key=str.lower)]
    return "\n".join([f"## `{module}`", "", "| name | description |", "|---|---|", *rows, "", ""])


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8").partition("## ")[0]
    PAGE.write_text((before + "".join(map(section, LISTED))).rstrip("\n") + "\n", encoding="utf-8")
