"""Functions as layers, among them the losses; names and arguments are PyTorch's."""

import inspect
from collections.abc import Callable
from typing import Any

from ..autograd import Tensor, ops
from . import functional
from .module import Module


def _layer(name: str, function: Callable[..., Any], inputs: int = 1) -> Any:
    """Return the class of a layer `function(*inputs, *options)` that is made with these options. Its attributes are the
    options, of which an array is a buffer.
    """
    signature = inspect.signature(function)
    names = list(signature.parameters)[inputs:]

    class Layer(Module):
        def __init__(self, *options: Any, **named: Any):
            bound = signature.bind(*[None] * inputs, *options, **named)
            bound.apply_defaults()
            for key in names:
                value = bound.arguments[key]
                (self.register_buffer if hasattr(value, "shape") else self.__setattr__)(key, value)

        def forward(self, *x: Any) -> Any:
            return function(*x, **{key: getattr(self, key) for key in names})

        def extra_repr(self) -> str:
            return ", ".join(f"{key}={value!r:.60}" for key in names if (value := getattr(self, key)) is not None)

    Layer.__name__ = Layer.__qualname__ = name
    options = [f"{key}={signature.parameters[key].default!r}" for key in names]
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
CrossEntropyLoss, NLLLoss = (
    _layer("CrossEntropyLoss", functional.cross_entropy, 2),
    _layer("NLLLoss", functional.nll_loss, 2),
)
MSELoss, L1Loss = _layer("MSELoss", ops.mse_loss, 2), _layer("L1Loss", ops.l1_loss, 2)
BCELoss = _layer("BCELoss", ops.binary_cross_entropy, 2)
BCEWithLogitsLoss = _layer("BCEWithLogitsLoss", ops.binary_cross_entropy_with_logits, 2)
