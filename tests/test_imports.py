"""Check which modules may import which, and how many modules `import handloom.autograd` loads."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Each part of the package, and the other parts that it may import.
ALLOWED = {
    "errors": set(),
    "lazy": set(),
    "kinds": {"errors"},
    "notebook": set(),
    "arguments": {"errors"},
    "__main__": {"cli", "errors", "__version__"},
    "files": {"errors"},
    "tensor_files": {"errors", "files"},
    "doctor": {"cli", "train", "autograd", "arguments", "errors"},
    "autograd": {"arguments", "errors", "kinds", "notebook"},
    "nn": {"autograd", "errors", "kinds", "notebook"},
    "models": {"nn", "autograd", "tokenizer", "errors", "files", "kinds", "lazy", "tensor_files"},
    "tokenizer": {"errors", "files", "kinds"},
    "train": {
        "lazy",
        "kinds",
        "notebook",
        "models",
        "nn",
        "autograd",
        "tokenizer",
        "arguments",
        "errors",
        "files",
        "tensor_files",
    },
    "cli": {"lazy", "train", "models", "autograd", "tokenizer", "arguments", "errors", "files"},
    "examples": {"train", "models", "nn", "autograd", "tokenizer", "arguments", "errors", "files"},
    "explorer": {
        "lazy",
        "course",
        "cli",
        "train",
        "models",
        "nn",
        "autograd",
        "tokenizer",
        "arguments",
        "errors",
        "files",
    },
    "course": {"__version__", "cli", "train", "models", "nn", "autograd", "tokenizer", "arguments", "errors", "files"},
}
FILES = sorted(
    path
    for part in ALLOWED
    for path in [ROOT / f"{part}.py", *(ROOT / part).rglob("*.py")]
    if path.is_file() and path.parent.name != "examples"  # its scripts may import everything, and run when imported
)


def name_of(path: Path) -> str:
    """Return the name of a module, such as "handloom.nn" for nn/__init__.py."""
    return ".".join(["handloom", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")


MODULES = {name_of(path): path for path in [ROOT / "__init__.py", *FILES]}


def nodes(tree: ast.AST, typing: bool) -> Iterator[ast.AST]:
    """Yield all nodes of a file, including lazy imports. If `typing` is false, skip `if TYPE_CHECKING:` blocks."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not typing and isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)


def imports(path: Path, typing: bool = True) -> list[tuple[int, str]]:
    """Return the line and the absolute name of every import in a file, including imports inside functions."""
    package = ("handloom", *path.relative_to(ROOT).parent.parts)
    found = []
    for node in nodes(ast.parse(path.read_text(encoding="utf-8")), typing):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            found += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return found


def arrows(name: str) -> dict[str, int]:
    """Return the modules of the package that importing `name` runs, each with the line that imports it.

    A name that is not a module is imported from the `__init__.py` of its package, which runs its imports. Importing a
    module also runs its parent packages, unless they contain the importing module.
    """
    found = {}
    for line, target in imports(MODULES[name], typing=False):
        package = target.rpartition(".")[0]
        if target not in MODULES:
            target, package = package, package.rpartition(".")[0]
        if target in MODULES:
            found[target] = line
        while package in MODULES and not f"{name}.".startswith(f"{package}."):
            found[package] = line
            package = package.rpartition(".")[0]
    return found


GRAPH = {name: arrows(name) for name in MODULES}


def circle(graph: dict[str, dict[str, int]]) -> list[str]:
    """Return the modules of one import cycle, with the first repeated at the end, or [] if there is no cycle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1][::-1]  # graphlib lists an imported module before its importer
    return []


def test_modules_are_found() -> None:
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


def test_no_module_imports_itself_through_others() -> None:
    """No import cycle exists, even through functions, so each file can be read after the files that it imports."""
    assert not (found := circle(GRAPH)), " -> ".join(found)


@pytest.mark.parametrize("folder", ["cli", "course", "train"])
def test_the_parts_of_a_folder_form_no_circle(folder) -> None:
    """Imports among the files and subfolders of a folder form no cycle, so a reading order exists."""
    inside = f"handloom.{folder}."
    graph: dict[str, dict[str, int]] = {}
    for name in MODULES:
        if name.startswith(inside):
            part = name.removeprefix(inside).partition(".")[0]
            targets = {t.removeprefix(inside).partition(".")[0]: line for t, line in GRAPH[name].items() if inside in t}
            graph.setdefault(part, {}).update({other: line for other, line in targets.items() if other != part})
    assert len(graph) > 5
    assert not (found := circle(graph)), " -> ".join(found)


def is_quick(name: str) -> bool:
    """Return whether a module only improves speed: it is in a folder `fast`, or one of the kernels."""
    return "fast" in name.split(".") or name.startswith("handloom.autograd.kernels")


def test_what_is_only_for_speed_comes_in_at_one_place_each() -> None:
    """Only the enclosing package and modules of folders `fast` or `kernels` import a folder `fast` or `kernels`."""
    for name, path in MODULES.items():
        for line, target in imports(path) if not is_quick(name) else []:
            of_its_own = path.name == "__init__.py" and target in (f"{name}.fast", f"{name}.kernels")
            assert of_its_own or not is_quick(target), f"{path}:{line}: only {name.rpartition('.')[0]} may import that"


def test_with_plain_implementations_nothing_quick_is_imported_and_every_gradient_is_right() -> None:
    modules = [name for name in MODULES if not is_quick(name) and not name.startswith("handloom.explorer")]
    code = f"""
import importlib, sys
for name in {modules!r}:
    importlib.import_module(name)
quick = [name for name in sys.modules if name.startswith("handloom.") and {{"fast", "kernels"}} & set(name.split("."))]
assert not quick, quick
from handloom.autograd.gradcheck.__main__ import main
sys.exit(main(["--samples", "3"]))
"""
    environment = os.environ | {"HANDLOOM_PLAIN": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_imports_without_optional_packages() -> None:
    """All optional packages are hidden at once. The explorer's server needs one of them, Starlette, and the two modules
    of the bfloat16 product Numba, with which the first such product imports them.

    mypy's configuration must list all of them, because none is installed when `make lint` runs in a fresh clone.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = {re.split("[<>=]", package)[0].replace("-", "_") for package in project["project"]["dependencies"]}
    foreign = {name.partition(".")[0] for path in FILES for _, name in imports(path)} | {"cupy"}  # by import_module
    optional = sorted(foreign - needed - {"handloom", *sys.stdlib_module_names})
    assert {"cupy", "mpi4py", "numba", "starlette", "uvicorn", "huggingface_hub"} <= set(optional)
    assert {f"{name}.*" for name in optional} <= set(project["tool"]["mypy"]["overrides"][-1]["module"])
    modules = sorted(name for name in MODULES if not name.endswith("__main__"))
    code = """
import importlib, json, sys
optional, modules = json.load(sys.stdin)
sys.modules.update(dict.fromkeys(optional))
for name in modules:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, error.name.partition(".")[0])
"""
    asked = json.dumps([optional, modules])
    done = subprocess.run([sys.executable, "-c", code], input=asked, capture_output=True, text=True, cwd=ROOT)
    late = ["autograd.fast.bfloat16 numba", "autograd.fast.bfloat16_tile llvmlite", "explorer.server starlette"]
    assert (done.stdout.splitlines(), done.returncode) == ([f"handloom.{one}" for one in late], 0), done.stderr


def test_the_engine_needs_numpy_alone() -> None:
    """The engine also uses CuPy for CuPy's arrays, Numba with its LLVM if it is installed, and tqdm for a command's
    progress bar.
    """
    foreign = {name.partition(".")[0] for path in FILES if "autograd" in path.parts for _, name in imports(path)}
    assert foreign - set(sys.stdlib_module_names) <= {"handloom", "numpy", "cupy", "cupyx", "numba", "llvmlite", "tqdm"}


def test_importing_the_engine_is_light() -> None:
    """Importing the engine loads NumPy and few other modules; `python -m benchmarks.overhead` measures the time."""
    code = "import sys, numpy; before = {*sys.modules}; import handloom.autograd; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    modules = done.stdout.split()
    own = [name for name in modules if name.partition(".")[0] == "handloom"]
    foreign = [name for name in set(modules) - set(own) if name.partition(".")[0] not in sys.stdlib_module_names]
    assert [name for name in foreign if not re.match(r"numpy\.|_?cython_", name)] == []
    assert "handloom.autograd.tensor" in own
    assert len(own) < 90
    assert len(modules) < 160
