"""Public names that are imported when they are first used, so that importing a package costs nothing."""

import importlib
import sys
from collections.abc import Callable
from functools import cache
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` (PEP 562) of a package, given its `__name__`.

    The names are those that the package imports in its block `if TYPE_CHECKING:`, from which editors know them too.
    """

    @cache
    def origins() -> dict[str, str]:
        import ast  # so that importing the package stays cheap

        source: Any = sys.modules[package].__loader__
        tree = ast.parse(source.get_source(package))
        block = next(
            node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        )
        imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
        return {name.name: "." * node.level + (node.module or "") for node in imports for name in node.names}

    def get(name: str) -> Any:
        if name.startswith("__") or name not in origins():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if origins()[name] == ".":
            return importlib.import_module(f".{name}", package)
        return getattr(importlib.import_module(origins()[name], package), name)

    return get, lambda: sorted(origins())
