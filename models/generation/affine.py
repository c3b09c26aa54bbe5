"""Compute x W^T + b on plain arrays, for the rows x of a decoding step."""

from typing import Any

from ...autograd import Tensor, no_grad
from ...autograd.backend import array_module
from ...autograd.ops.linalg import product
from ...autograd.quick import replaceable
from ...nn import Linear, Module
from ...nn.module import computes_as


class Affine:
    """Computes x W^T + b for arrays x (rows, in_features); W is (out_features, in_features), b may be None.

    `copy` is the copy of W^T that `pack` makes, or `weight`, which is a view of the parameter and for a single row up
    to five times as fast. `blocks` and `multiply` are set when `fast.affine` has packed the weights.
    """

    blocks: Any = None
    multiply: Any = None

    def __init__(self, weight: Any, bias: Any):
        self.weight, self.bias = weight.T, bias
        self.copy = self.weight
        self.in_features, self.out_features = self.weight.shape
        self.xp, self.dtype = array_module(weight), weight.dtype

    def __call__(self, x: Any, buffer: Any = None, relu: bool = False) -> Any:
        """Map (rows, in_features) to (rows, out_features). The result is written into `buffer` if there is one."""
        y = self.xp.empty((len(x), self.out_features), self.dtype) if buffer is None else buffer[: len(x)]
        if self.multiply is not None and x.shape[1] == self.in_features:  # it gets addresses, and checks nothing
            self.multiply(self.xp.ascontiguousarray(x, self.dtype), self.blocks, self.bias, y, relu)
            return y

        product(x, self.weight if len(x) == 1 else self.copy, out=y)
        if self.bias is not None:
            y += self.bias
        return self.xp.maximum(y, 0, out=y) if relu else y


class Called:
    """A layer with its own forward that treats each position alone, in the place of an Affine."""

    blocks: Any = None

    def __init__(self, layer: Module):
        self.layer = layer

    def __call__(self, x: Any, buffer: Any = None, relu: bool = False) -> Any:
        with no_grad():
            y = self.layer(Tensor(x)).data.copy()
        return array_module(y).maximum(y, 0, out=y) if relu else y


def affine_of(linear: Any) -> Any:
    """Return an Affine, or a Called for a layer with its own forward."""
    if not computes_as(linear, Linear):
        return Called(linear)
    return Affine(linear.weight.data, None if linear.bias is None else linear.bias.data)


@replaceable
def pack(layers: list[Affine]) -> None:
    """Copy the weights into the memory layout that is fastest for few rows: here W^T."""
    for layer in layers:
        layer.copy = layer.xp.ascontiguousarray(layer.weight)
