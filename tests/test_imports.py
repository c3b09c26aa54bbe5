"""What may import what, and what `import handloom` costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Each part of the package, and the other parts that it may know.
ALLOWED = {
    "errors": set(),
    "doctor": {"autograd", "errors"},
    "autograd": {"errors"},
    "nn": {"autograd", "errors"},
    "models": {"nn", "autograd", "errors"},
    "tokenizer": {"errors"},
    "train": {"models", "nn", "autograd", "tokenizer", "errors"},
}
FILES = sorted(
    path for part in ALLOWED for path in [ROOT / f"{part}.py", *(ROOT / part).rglob("*.py")] if path.is_file()
)


def imports(path: Path) -> list[tuple[int, str]]:
    """The line and the absolute name of everything that a file imports, at any depth."""
    package = ("handloom", *path.relative_to(ROOT).parent.parts)
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            found += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return found


def test_there_is_something_to_look_at() -> None:
    assert len(FILES) > 50
    assert {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in FILES} == set(ALLOWED)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path) -> None:
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for line, name in imports(path):
        top, _, rest = name.partition(".")
        part = rest.partition(".")[0]
        if top == "handloom":
            assert part == own or part in ALLOWED[own], f"{path}:{line}: {own} must not import {name}"
        assert top not in ("torch", "tests", "examples", "benchmarks"), (
            f"{path}:{line}: the package must not import {name}"
        )


def test_inside_the_package_imports_are_relative() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not any(name.split(".")[0] == "handloom" for name in names), f"{path}:{node.lineno}"


def test_the_engine_needs_numpy_alone() -> None:
    """(and CuPy where its arrays appear, and tqdm for the progress bar of a command)"""
    foreign = {name.partition(".")[0] for path in FILES if "autograd" in path.parts for _, name in imports(path)}
    assert foreign - set(sys.stdlib_module_names) <= {"handloom", "numpy", "cupy", "cupyx", "tqdm"}


def test_importing_handloom_is_quick_and_light() -> None:
    code = (
        "import sys, time; start = time.process_time(); import handloom; seconds = time.process_time() - start\n"
        "heavy = {'torch', 'cupy', 'matplotlib', 'datasets', 'sacrebleu', 'scipy', 'pooch'} & set(sys.modules)\n"
        "print(seconds, *sorted(heavy))"
    )
    # The processor's time, and the best of five: others may run beside, and the first may find a cold disk.
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    outputs = [run.stdout.split() for run in runs]
    assert outputs[0][1:] == []
    assert min(float(output[0]) for output in outputs) < 0.25
