"""Faster implementations for a CPU: threads, compiled loops, MKL, and the quick implementations of ops.

Importing this package registers the quick implementations.
"""

from .. import quick
from . import compiled, compiled_ops, embedding, heads, loss, mkl, products, recurrence


@quick.replaces(quick.libraries)
def libraries() -> dict[str, tuple[str | None, str | None]]:
    from importlib.metadata import version  # slow to import, and needed once

    found = {"compiled_loops": ("numba", compiled.missing()), "mkl": ("mkl", mkl.missing())}
    return {use: (None if why else f"{name} {version(name)}", why) for use, (name, why) in found.items()}
