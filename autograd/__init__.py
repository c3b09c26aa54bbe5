"""Reverse-mode automatic differentiation on NumPy and CuPy arrays."""

from .tensor import Parameter, Tensor  # isort: skip  (first: every other module of the engine needs it)
from . import ops
from .engine import enable_grad, grad, is_grad_enabled, no_grad
from .function import Function
from .random import Generator, default_generator, manual_seed

__all__ = [
    "Function",
    "Generator",
    "Parameter",
    "Tensor",
    "default_generator",
    "enable_grad",
    "grad",
    "is_grad_enabled",
    "manual_seed",
    "no_grad",
    "ops",
]
