"""The fully connected layer."""

import math
from typing import Any

import numpy as np

from ..autograd import Parameter, Tensor, ops
from ..autograd.quick import replaceable
from . import init
from .module import Module


class Linear(Module):
    """The linear layer x W^T + b: (..., in_features) -> (..., out_features).

    `weight` has the shape (out_features, in_features), and `bias` has (out_features,) or is None. Their initial values
    are uniform in +-1/sqrt(in_features), as in PyTorch.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        if in_features < 1:
            raise ValueError(f"Linear: in_features must be at least 1, not {in_features}")
        self.in_features, self.out_features = in_features, out_features
        bound = 1 / math.sqrt(in_features)
        self.weight = Parameter(np.empty((out_features, in_features), np.float32))
        init.uniform_(self.weight, -bound, bound)
        self.bias = None
        if bias:
            self.bias = Parameter(np.empty(out_features, np.float32))
            init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weight, self.bias)

    def cross_entropy(self, x: Tensor, target: Any, **options: Any) -> Tensor:
        """Compute ops.cross_entropy(self(x), target, **options) by `ops.linear_cross_entropy`, without all logits."""
        return cross_entropy_of(self, x, target, **options)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


@replaceable
def cross_entropy_of(output: Module, x: Tensor, target: Any, *, class_weight: Any = None, **options: Any) -> Tensor:
    """Compute the cross-entropy of the logits output(x); see `ops.cross_entropy`."""
    return ops.cross_entropy(output(x), target, weight=class_weight, **options)
