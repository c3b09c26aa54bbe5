"""Gated linear units (the first half of an axis times an activation of the second half), and the table of activations.

Source: Dauphin et al. 2017 (arXiv 1612.08083), Shazeer 2020 (arXiv 2002.05202).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..tensor import Tensor, shape_of
from .activation import gelu, relu, sigmoid, silu
from .indexing import getitem
from .reduction import normalized_axes
from .registry import OPS, declare


def _gated(name: str, activation: Callable[[Any], Tensor]) -> Callable[..., Tensor]:
    """Create the public function a * activation(b) of the halves a, b of an axis."""

    def reference(x: np.ndarray, axis: int = -1) -> np.ndarray:
        a, b = np.split(x, 2, axis)
        return a * OPS[activation.__name__].reference(b)

    def function(x: Any, axis: int = -1) -> Tensor:
        a, b = _halves(name, x, axis)
        return a * activation(b)

    function.__name__ = function.__qualname__ = name
    how = f"Compute a * {activation.__name__}(b) for the halves a, b of x along `axis`"
    function.__doc__ = f"{how}. Raises ValueError if the axis has an odd size."
    return declare(reference)(function)


def _halves(name: str, x: Any, axis: int) -> tuple[Tensor, Tensor]:
    shape = shape_of(x)
    (axis,) = normalized_axes(axis, len(shape))
    if shape[axis] % 2:
        raise ValueError(f"{name}: axis {axis} of shape {shape} must have an even size")
    half, before = shape[axis] // 2, (slice(None),) * axis
    return getitem(x, (*before, slice(None, half))), getitem(x, (*before, slice(half, None)))


glu = _gated("glu", sigmoid)
reglu = _gated("reglu", relu)
geglu = _gated("geglu", gelu)
swiglu = _gated("swiglu", silu)


class Activation(NamedTuple):
    """An activation function that a model's layers can use.

    `gated` is true if the result has half as many features as the input, in the middle of a feed-forward network.
    `names` are the activation's names in a config.json of the package transformers; handloom writes the first.
    """

    op: Callable[..., Tensor]
    names: tuple[str, ...] = ()
    gated: bool = False
    options: Mapping[str, Any] = MappingProxyType({})

    def __call__(self, x: Any) -> Tensor:
        return self.op(x, **self.options)


#: The activations by name. To add one, add a row here.
ACTIVATIONS = {
    "relu": Activation(relu, ("relu",)),
    "gelu": Activation(gelu, ("gelu", "gelu_python")),
    "gelu_tanh": Activation(gelu, ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"), options={"approximate": "tanh"}),
    "silu": Activation(silu, ("silu", "swish")),
    "glu": Activation(glu, gated=True),
    "reglu": Activation(reglu, gated=True),
    "geglu": Activation(geglu, gated=True),
    "swiglu": Activation(swiglu, gated=True),
}
