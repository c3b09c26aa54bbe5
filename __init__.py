"""handloom: a Transformer written from scratch, from a reverse-mode autograd engine up to a translator."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .errors import InputError

if TYPE_CHECKING:
    from .autograd import Parameter, Tensor, enable_grad, grad, manual_seed, no_grad

__version__ = "0.1.0"

__all__ = ["InputError", "Parameter", "Tensor", "enable_grad", "grad", "manual_seed", "no_grad"]


def __getattr__(name: str) -> Any:
    """The engine is imported with the first use of one of its names: so a program can begin with `train.cli.start`."""
    if name not in (*__all__, "autograd"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    engine = importlib.import_module(".autograd", __name__)
    return engine if name == "autograd" else getattr(engine, name)
