"""Public names that are imported when they are first used, so that importing a package costs nothing."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` (PEP 562) of a package.

    Args:
        package: the package's `__name__`.
        modules: the public names, with blanks between them, by the module that defines them, such as ".trainer",
            relative to the package. The names of an empty string are modules of the package.
    """
    origins = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not origins[name]:
            return importlib.import_module(f".{name}", package)
        return getattr(importlib.import_module(origins[name], package), name)

    return get, lambda: sorted(origins)
