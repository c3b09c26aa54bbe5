"""Compute x W^T + b on plain arrays, for the rows x of a decoding step."""

from typing import Any

from ...autograd.backend import array_module
from ...autograd.ops.linalg import product
from ...autograd.quick import parallel_for, replaceable
from ...nn import Linear


class Affine:
    """Computes x W^T + b for arrays x (rows, in_features).

    W is (out_features, in_features), and b is (out_features,) or None.

    Attributes:
        weight: W^T, a view of the parameter, or the copy that `pack` makes.
    """

    def __init__(self, weight: Any, bias: Any):
        self.weight, self.bias = weight.T, bias
        self.in_features, self.out_features = self.weight.shape
        self.xp, self.dtype = array_module(weight), weight.dtype

    def buffer(self, rows: int) -> Any:
        """Allocate an array for the results of up to this number of rows."""
        return self.xp.empty((rows, self.out_features), self.dtype)

    def __call__(self, x: Any, buffer: Any = None, relu: bool = False) -> Any:
        """Map (rows, in_features) to (rows, out_features). The result is written into `buffer` if there is one."""
        y = (self.buffer(len(x)) if buffer is None else buffer)[: len(x), : self.out_features]

        def some_rows(first: int, last: int) -> None:
            self.xp.matmul(x[first:last], self.weight, out=y[first:last])
            finish(y[first:last], self.bias, relu)

        if len(x) == 1:
            product(x, self.weight, out=y)
            finish(y, self.bias, relu)
        else:
            parallel_for(self.xp, len(x), some_rows, cost=self.weight.size / 50)  # multiplications in a nanosecond
        return y


def finish(y: Any, bias: Any, relu: bool) -> None:
    """Add the bias, then apply ReLU, in place."""
    if bias is not None:
        y += bias
    if relu:
        array_module(y).maximum(y, 0, out=y)


@replaceable
def affine(weight: Any, bias: Any) -> Affine:
    """Return the Affine of a weight and a bias; with `fast`, a PackedAffine, whose weights `pack` can cut."""
    return Affine(weight, bias)


def affine_of(linear: Linear) -> Affine:
    return affine(linear.weight.data, None if linear.bias is None else linear.bias.data)


@replaceable
def pack(layers: list[Any]) -> None:
    """Copy the weights into the memory layout that is fastest for few rows: here W^T."""
    for layer in layers:
        layer.weight = layer.xp.ascontiguousarray(layer.weight)
