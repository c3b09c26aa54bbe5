"""What handloom and the stand-in ask of CuPy, and what a CuPy says to it: the installed one, or the one of the record.

    python -m tests.support.fake_cupy.contract [FILE]  # ask the installed CuPy; into FILE, or print

`cupy_13.json` is the answer of CuPy 13. To write it again, run this where CuPy 13 is installed (no GPU is needed).
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from handloom.autograd.kernels.loading import FOLDER
from tests.support.fake_cupy.signatures import ATTRIBUTES, CONSTANTS, DTYPES, FREE_METHODS, FUNCTIONS, METHODS, UFUNCS

RECORD = Path(__file__).with_name("cupy_13.json")
#: Of cupy.cuda, beside what `names_in_package` finds.
CUDA = [
    "Stream.begin_capture", "Stream.end_capture", "Stream.is_capturing", "MemoryPool.total_bytes",
    "MemoryPool.free_all_blocks", "using_allocator", "graph.Graph.launch", "Device.attributes",
    "Device.compute_capability",
    "runtime.getDeviceProperties", "runtime.runtimeGetVersion", "runtime.driverGetVersion",
]  # fmt: skip
CUPYX = ["scatter_add", "allow_synchronize", "DeviceSynchronized"]
#: What the package calls on `xp` only where that is handloom's own ops, for Tensors.
OF_TENSORS = {"erf", "sigmoid", "softplus", "astype"}
_ROOTS = dict.fromkeys(("import_cupy", "array_module", "xp", "cupy", "_cupy"), "cupy") | {"cupyx": "cupyx"}


def names_in_package() -> list[str]:
    """Every `xp.NAME`, `cupy.NAME.NAME`, `import_cupy().NAME` and `cupyx.NAME` in the package's text, as cupy.NAME."""
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


def asked() -> dict[str, Any]:
    """What to ask: names by kind."""
    names = [*CONSTANTS, *DTYPES, *FREE_METHODS, *ATTRIBUTES, "bool_", "shape", "ndim", "size"]
    lists = {"functions": list(FUNCTIONS), "ufuncs": UFUNCS, "methods": list(METHODS), "names": names}
    return {**lists, "cuda": CUDA, "cupyx": CUPYX, "package": names_in_package()}


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """What the installed CuPy says: which of the names it has, and what its functions take."""
    import cupy
    import cupyx

    def has(thing: Any, name: str) -> bool:
        for part in name.split("."):
            thing = getattr(thing, part, None)
        return thing is not None

    def signature(method: Any) -> str:
        return (method.__doc__ or "").split("\n")[0]

    return {
        "asked": asked,
        "version": cupy.__version__,
        "functions": {name: list(inspect.signature(getattr(cupy, name)).parameters) for name in asked["functions"]},
        "ufuncs": [name for name in asked["ufuncs"] if isinstance(getattr(cupy, name, None), cupy.ufunc)],
        "methods": {name: signature(getattr(cupy.ndarray, name)) for name in asked["methods"]},
        "names": [name for name in asked["names"] if hasattr(cupy.ndarray, name) or hasattr(cupy, name)],
        "dunders": [name for name in dir(cupy.ndarray) if name.startswith("__")],
        "cupyx": [name for name in asked["cupyx"] if hasattr(cupyx, name)],
        "kernels": [signature(cupy.RawModule), signature(cupy.RawKernel.__call__)],
        "priority": cupy.ndarray.__array_priority__,
        "kernel": hasattr(cupy.RawKernel, "max_dynamic_shared_size_bytes"),
        "cuda": [name for name in asked["cuda"] if has(cupy.cuda, name)],
        "package": [name for name in asked["package"] if has(sys.modules[name.split(".")[0]], name.partition(".")[2])],
    }


def main() -> None:
    text = json.dumps(answer(asked()))
    if sys.argv[1:]:
        Path(sys.argv[1]).write_text(text.replace("], ", "],\n").replace("}, ", "},\n") + "\n", encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
