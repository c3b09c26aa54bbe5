"""Reverse-mode automatic differentiation on NumPy and CuPy arrays."""

from . import engine, ops
from .bfloat16 import bfloat16_products
from .checkpoint import checkpoint
from .engine import grad
from .function import Function
from .gradcheck import gradcheck, gradgradcheck
from .observe.anomaly import AnomalyError, detect_anomaly
from .observe.drawing import draw_graph
from .observe.observing import Observer
from .ops.registry import explain, is_plain, plain
from .origin import enable_grad, is_grad_enabled, no_grad
from .quick import PLAIN
from .random import Generator, default_generator, manual_seed
from .tensor import Parameter, Tensor, bind

bind(ops, engine)

if not PLAIN:
    from . import fast, kernels

__all__ = [
    "AnomalyError", "Function", "Generator", "Observer", "Parameter", "Tensor", "bfloat16_products", "checkpoint",
    "default_generator", "detect_anomaly", "draw_graph", "enable_grad", "explain", "grad", "gradcheck", "gradgradcheck",
    "is_grad_enabled", "is_plain", "manual_seed", "no_grad", "ops", "plain",
]  # fmt: skip
