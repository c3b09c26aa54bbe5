"""Dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import Array, array_module
from ..function import Function
from ..parallel import parallel_for, pieces
from ..random import Generator, default_generator
from ..tensor import Tensor, array_of
from .elementwise import add, promoted
from .on_device import DropoutAddOnDevice, DropoutOnDevice, drop_of, runs_kernels
from .registry import declare


class Dropout(Function):
    """x times a mask of 0 and 1/(1-p); the gradient passes through the same mask."""

    def __init__(self, p, generator):
        self.p, self.generator = p, generator

    def forward(self, x):
        mask, scale = self.generator.keep_mask(x.shape, self.p)
        self.keep(array_module(x).asarray(mask), x.dtype.type(scale))
        return masked(x, *self.kept)

    def backward(self, g):
        mask, scale = self.kept
        return g * mask * scale if isinstance(g, Tensor) else masked(g, mask, scale)


def masked(x: Array, mask: Array, scale: Any, added: Array | None = None) -> Array:
    """x * mask * scale + added, all of one shape, in pieces on all threads."""
    xp = array_module(x)
    out = xp.empty(x.shape, x.dtype)
    flat_x, flat_mask, flat_out = x.reshape(-1), mask.reshape(-1), out.reshape(-1)
    flat_added = None if added is None else added.reshape(-1)

    def part(start, stop):
        for piece in pieces(start, stop, 1):
            y = flat_out[piece]
            xp.multiply(flat_x[piece], flat_mask[piece], out=y)
            y *= scale
            if flat_added is not None:
                y += flat_added[piece]

    parallel_for(xp, x.size, part, cost=0.5)
    return out


class DropoutAdd(Function):
    """residual + dropout(x)."""

    def __init__(self, p, generator):
        self.p, self.generator = p, generator

    def forward(self, x, residual):
        if x.shape != residual.shape:
            raise ValueError("x and the residual must have one shape")
        mask, scale = self.generator.keep_mask(x.shape, self.p)
        self.keep(array_module(x).asarray(mask), x.dtype.type(scale))
        return masked(x, self.kept[0], self.kept[1], residual)

    def backward(self, g):
        mask, scale = self.kept
        return g * mask * scale if isinstance(g, Tensor) else masked(g, mask, scale), g


def _dropout_reference(x: np.ndarray, p: float = 0.5, *, training: bool = True, generator: Generator) -> np.ndarray:
    mask, scale = generator.keep_mask(x.shape, p)
    return np.where(mask, x * scale, 0.0) if training else x


@declare(_dropout_reference)
def dropout(x: Any, p: float = 0.5, *, training: bool = True, generator: Generator | None = None) -> Tensor:
    """Zero each element with probability p and scale the rest by 1/(1-p); x itself unless `training`.

    p is rounded to a multiple of 2^-16. Source: Srivastava et al. 2014 (JMLR 15), in its inverted form.
    Raises ValueError unless 0 <= p <= 1.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p = {p} is not a probability")
    if not training or p == 0:
        return x if isinstance(x, Tensor) else Tensor(x)
    if runs_kernels(array_of(x)):
        return DropoutOnDevice(drop_of(array_of(x), p, generator or default_generator))(x)
    return Dropout(p, generator or default_generator)(x)


@declare(
    lambda x, residual, p=0.5, *, training=True, generator: (
        residual + _dropout_reference(x, p, training=training, generator=generator)
    )
)
def dropout_add(
    x: Any, residual: Any, p: float = 0.5, *, training: bool = True, generator: Generator | None = None
) -> Tensor:
    """residual + dropout(x), in one: how a sublayer's output joins what goes past it. Both have one shape.

    Raises ValueError unless 0 <= p <= 1, or for other shapes.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout_add: p = {p} is not a probability")
    x, residual = promoted(x, residual)
    if not training or p == 0:
        return add(x, residual)
    if runs_kernels(array_of(x)):
        return DropoutAddOnDevice(drop_of(array_of(x), p, generator or default_generator))(x, residual)
    return DropoutAdd(p, generator or default_generator)(x, residual)
