"""Faster implementations for a CPU: threads, compiled loops, MKL, and the quick implementations of ops.

Importing this package registers the quick implementations.
"""

from .. import quick
from . import compiled, compiled_ops, dropout, embedding, heads, loss, mkl, products


@quick.replaces(quick.libraries)
def libraries() -> dict[str, tuple[str | None, str | None]]:
    return {
        "compiled_loops": (compiled.library(), compiled.missing()),
        "mkl": (mkl.library(), mkl.missing()),
    }
