"""Activation functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..tensor import Tensor
from .registry import declare


class ReLU(Function):
    """max(x, 0); the gradient passes where the output is positive."""

    def forward(self, x):
        out = array_module(x).maximum(x, 0)
        self.save(out)
        return out

    def backward(self, g):
        (out,) = self.saved
        return g * (out > 0)


@declare(lambda x: np.where(x > 0, x, 0.0))
def relu(x: Any) -> Tensor:
    """max(x, 0), elementwise; the gradient at 0 is 0."""
    return ReLU()(x)
