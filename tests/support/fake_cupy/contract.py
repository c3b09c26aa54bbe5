"""The names that CuPy has, and the names that the package uses. The record of CuPy 13.6 is `cupy_13.json`.

python -m tests.support.fake_cupy.contract FILE  # record the names of the installed CuPy; no GPU is needed
"""

import ast
import importlib
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from handloom.autograd.kernels.loading import FOLDER

RECORD = Path(__file__).with_name("cupy_13.json")
#: Modules and classes whose names are listed.
PLACES = (
    "cupy", "cupy.ndarray", "cupy.RawKernel", "cupyx", "cupy.cuda", "cupy.cuda.runtime", "cupy.cuda.device",
    "cupy.cuda.Device", "cupy.cuda.Stream", "cupy.cuda.MemoryPool", "cupy.cuda.graph.Graph",
)  # fmt: skip
#: Names that the package uses only when `xp` is handloom's own ops, for Tensors.
OF_TENSORS = {"erf", "sigmoid", "softplus", "astype"}
_ROOTS = dict.fromkeys(("import_cupy", "array_module", "xp", "cupy", "_cupy"), "cupy") | {"cupyx": "cupyx"}


def names_in_package() -> list[str]:
    """Return all `xp.NAME`, `cupy.NAME.NAME`, `import_cupy().NAME`, `cupyx.NAME` of the package, as cupy.NAME."""
    root = FOLDER.parents[1]
    files = [path for folder in ("autograd", "nn", "models", "train") for path in (root / folder).rglob("*.py")]
    found = {name for path in [*files, *root.glob("*.py")] for name in _names(ast.parse(path.read_text("utf-8")))}
    return sorted(name for name in found if name.removeprefix("cupy.") not in OF_TENSORS)


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        parts, at = [], node
        while isinstance(at, ast.Attribute):
            parts.append(at.attr)
            at = at.value
        if isinstance(at, ast.Call):
            at = at.func
        if parts and isinstance(at, ast.Name):
            parts.append(at.id)
        for place, part in enumerate(parts[1:], start=1):  # the last part comes first
            if part in _ROOTS:
                yield ".".join([_ROOTS[part], *reversed(parts[:place])])
                break


def has(offered: dict[str, Any], name: str) -> bool:
    """Return whether a CuPy has a name, for example cupy.cuda.Stream.null, as far as the listed places show."""
    parts = name.split(".")
    before = ((".".join(parts[:i]), parts[i]) for i in range(1, len(parts)))
    return all(part in offered["names"][place] for place, part in before if place in offered["names"])


def parameters_in(line: str) -> tuple[str, ...]:
    """Return a method's parameter names from the first line of its docstring: `ndarray.sum(self, axis=None, ...)`."""
    given = line.partition("(")[2].rpartition(")")[0].replace("/", "").split(",")
    return tuple(part.partition("=")[0].split()[-1] for part in given if part.strip() not in ("", "self"))


def offered() -> dict[str, Any]:
    """Return what the installed CuPy offers: names, parameters, ufuncs, the first lines of the methods' docs."""
    import cupy

    def public(thing: Any) -> list[str]:
        return sorted(name for name in dir(thing) if not name.startswith("_"))

    def parameters(function: Any) -> list[str] | None:
        try:
            return list(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            return None

    def signature(method: Any) -> str:
        return (getattr(method, "__doc__", "") or "").split("\n")[0]

    things = {name: getattr(cupy, name, None) for name in public(cupy)}
    taken = {name: parameters(thing) for name, thing in things.items() if callable(thing)}
    return {
        "version": cupy.__version__,
        "names": {place: public(_thing(place)) for place in PLACES},
        "functions": {name: found for name, found in taken.items() if found is not None},
        "ufuncs": [name for name, thing in things.items() if isinstance(thing, cupy.ufunc)],
        "methods": {name: signature(getattr(cupy.ndarray, name)) for name in public(cupy.ndarray)},
        "dunders": [name for name in dir(cupy.ndarray) if name.startswith("__")],
        "kernels": [signature(cupy.RawModule), signature(cupy.RawKernel.__call__)],
        "priority": cupy.ndarray.__array_priority__,
    }


def _thing(place: str) -> Any:
    """Return a module or class by its name."""
    first, *others = place.split(".")
    thing = importlib.import_module(first)
    for name in others:
        thing = getattr(thing, name)
    return thing


def main() -> None:
    Path(sys.argv[1]).write_text(json.dumps(offered()).replace("], ", "],\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
