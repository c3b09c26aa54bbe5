"""handloom: a Transformer written from scratch, including its reverse-mode autograd engine."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .autograd import Parameter, Tensor, enable_grad, grad, manual_seed, no_grad
    from .errors import InputError
    from .train.tasks.loading import load

__version__ = "0.2.0"

__all__ = ["InputError", "Parameter", "Tensor", "enable_grad", "grad", "load", "manual_seed", "no_grad"]

_MODULES = {"InputError": ".errors", "load": ".train.tasks.loading"}


def __dir__() -> list[str]:
    """Return the public names, for completion in an interactive session."""
    return ["__version__", "autograd", *__all__]


def __getattr__(name: str) -> Any:
    """Import a module when one of its names is first used; `import handloom` itself imports nothing."""
    if name not in (*__all__, "autograd"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_MODULES.get(name, ".autograd"), __name__)
    return module if name == "autograd" else getattr(module, name)
