"""Normalisation layers."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autograd import Parameter, Tensor, ops
from ..autograd.arguments import sizes
from ..kinds import one_of
from .module import Module

#: The norms that `make_norm` creates; "layer_std" is the layer norm with `eps_outside`.
NORMS = ("layer", "rms", "layer_std")


class LayerNorm(Module):
    """A layer that normalises each row (..., features) to mean 0 and variance 1, then applies `weight` and `bias`. If
    `normalized_shape` is not the number of features but several sizes, a row is all elements of these last axes.

    `eps` is inside the square root, as in PyTorch. With `eps_outside`, the result before `weight` and `bias` is (x -
    mean) / (std + eps), as in several of the reports. The standard deviation std has the divisor features - 1. For a
    row of equal features, this result is 0.
    Raises ValueError if `eps_outside` is true unless there is one axis of 2 or more features, and for an input with
    other last axes. Source: arXiv 1607.06450.
    """

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-5, *, eps_outside: bool = False):
        shape = sizes("LayerNorm: normalized_shape", normalized_shape)
        if eps_outside and (len(shape) != 1 or shape[0] < 2):
            raise ValueError(f"eps_outside needs one axis of 2 or more features, not {shape}: use the norm 'layer'")
        self.normalized_shape, self.eps, self.eps_outside = shape, eps, eps_outside
        self.by_op = len(shape) == 1 and not eps_outside  # whether ops.layer_norm(x, weight, bias, eps) computes it
        self.weight, self.bias = Parameter(np.ones(shape, np.float32)), Parameter(np.zeros(shape, np.float32))

    def forward(self, x: Tensor) -> Tensor:
        if self.by_op:
            return ops.layer_norm(x, self.weight, self.bias, self.eps)
        if not self.eps_outside:
            shape = self.normalized_shape
            return over_last_axes("LayerNorm", ops.layer_norm, x, shape, self.weight, self.bias, eps=self.eps)
        centred, std = x - x.mean(axis=-1, keepdims=True), ops.std(x, axis=-1, keepdims=True, ddof=1)
        return centred / (std + self.eps) * self.weight + self.bias

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    """A layer that divides each row by its root mean square, then multiplies by `weight`. The interface is PyTorch's.
    Source: arXiv 1910.07467.

    Args:
        normalized_shape: the sizes of the last axes, over which the mean is taken, or an int for the last axis only.
        eps: the number added to the mean square. None means the machine epsilon of the input's dtype (float32's for
            float16).
        elementwise_affine: whether the layer has a `weight` of shape `normalized_shape`, initially ones.

    Raises ValueError for an input whose last axes are not `normalized_shape`.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True
    ):
        self.normalized_shape, self.eps = sizes("RMSNorm: normalized_shape", normalized_shape), eps
        self.weight = Parameter(np.ones(self.normalized_shape, np.float32)) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        eps = float(np.finfo(np.promote_types(x.dtype, np.float32)).eps) if self.eps is None else self.eps
        return over_last_axes("RMSNorm", ops.rms_norm, x, self.normalized_shape, self.weight, eps=eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"


def over_last_axes(
    name: str, op: Callable[..., Tensor], x: Tensor, shape: tuple[int, ...], *parameters: Any, eps: float
) -> Tensor:
    """Call op(rows, *parameters, eps) for x (..., *shape) and parameters (*shape), whose axes `shape` become one axis.
    Raises ValueError if the last axes of x are others.
    """
    before = len(x.shape) - len(shape)
    if not shape or before < 0 or x.shape[before:] != shape:
        raise ValueError(f"{name}: the last axes of an input of shape {x.shape} must have the sizes {shape}")
    if len(shape) == 1:
        return op(x, *parameters, eps)
    flat = [None if parameter is None else ops.reshape(parameter, -1) for parameter in parameters]
    return op(x.reshape((*x.shape[:before], math.prod(shape))), *flat, eps).reshape(x.shape)


def make_norm(kind: str, features: int, eps: float = 1e-5) -> LayerNorm | RMSNorm:
    """Return the normalisation layer for `kind`, one of `NORMS`. Raises ValueError for another kind."""
    one_of("norm", kind, NORMS)
    return RMSNorm(features, eps) if kind == "rms" else LayerNorm(features, eps, eps_outside=kind == "layer_std")
