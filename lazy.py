"""Public names that are imported when they are first used, so that importing a package costs nothing."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` (PEP 562) of a package.

    Args:
        package: the package's `__name__`.
        modules: for each public name the module that defines it, such as ".trainer", relative to the package. A name
            whose module is an empty string is a module of the package.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not modules[name]:
            return importlib.import_module(f".{name}", package)
        return getattr(importlib.import_module(modules[name], package), name)

    return get, lambda: sorted(modules)
