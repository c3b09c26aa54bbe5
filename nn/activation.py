"""Functions of one Tensor as layers; names and arguments are PyTorch's."""

import inspect
from collections.abc import Callable
from typing import Any

from ..autograd import Tensor, ops
from .module import Module


def _layer(name: str, function: Callable[..., Any]) -> Any:
    """Return the class of a layer `function(x, *options)` that is made with these options."""
    signature = inspect.signature(function)

    class Layer(Module):
        def __init__(self, *options: Any, **named: Any):
            bound = signature.bind(None, *options, **named)
            bound.apply_defaults()
            _, *self.options = bound.arguments.items()

        def forward(self, x: Any) -> Any:
            return function(x, **dict(self.options))

        def extra_repr(self) -> str:
            return ", ".join(f"{name}={value!r}" for name, value in self.options)

    Layer.__name__ = Layer.__qualname__ = name
    options = [f"{option}={x.default!r}" for option, x in list(signature.parameters.items())[1:]]
    Layer.__doc__ = f"The layer {name}({', '.join(options)})."
    return Layer


def _flatten(x: Tensor, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    first, last = range(x.ndim)[start_dim], range(x.ndim)[end_dim]
    if first > last:
        raise ValueError(f"Flatten: start_dim {start_dim} is behind end_dim {end_dim} of an input of shape {x.shape}")
    return x.reshape(*x.shape[:first], -1, *x.shape[last + 1 :])


ReLU, GELU, SiLU = _layer("ReLU", ops.relu), _layer("GELU", ops.gelu), _layer("SiLU", ops.silu)
Tanh, Sigmoid, LeakyReLU = _layer("Tanh", ops.tanh), _layer("Sigmoid", ops.sigmoid), _layer("LeakyReLU", ops.leaky_relu)
Softmax = _layer("Softmax", lambda x, dim=-1: ops.softmax(x, dim))
Identity, Flatten = _layer("Identity", lambda x: x), _layer("Flatten", _flatten)
