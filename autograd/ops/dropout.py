"""Dropout."""

from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..random import Generator, default_generator
from ..tensor import Tensor
from .elementwise import add, promoted
from .registry import declare, dispatch


class Dropout(Function):
    """y = x times a mask of 0 and 1/(1-p); dx = g times the same mask."""

    def __init__(self, p, generator):
        self.p, self.generator = p, generator

    def forward(self, x):
        mask, scale = self.generator.keep_mask(x.shape, self.p)
        self.keep(array_module(x).asarray(mask), x.dtype.type(scale))
        return x * self.kept[0] * self.kept[1]

    def backward(self, g):
        mask, scale = self.kept
        return g * mask * scale


def check_probability(name: str, p: float) -> None:
    """Raise ValueError unless 0 <= p <= 1."""
    if not 0 <= p <= 1:
        raise ValueError(f"{name} must be a probability from 0 to 1, not {p}")


def _dropout_reference(x: np.ndarray, p: float = 0.5, *, training: bool = True, generator: Generator) -> np.ndarray:
    mask, scale = generator.keep_mask(x.shape, p)
    return np.where(mask, x * scale, 0.0) if training else x


@declare(_dropout_reference)
def dropout(x: Any, p: float = 0.5, *, training: bool = True, generator: Generator | None = None) -> Tensor:
    """Zero each element with probability p and scale the other elements by 1/(1-p). If `training` is false, return x
    itself.

    p is rounded to a multiple of 2^-16. Source: Srivastava et al. 2014 (JMLR 15), in the "inverted" form.
    Raises ValueError unless 0 <= p <= 1.
    """
    check_probability("dropout: p", p)
    if not training or p == 0:
        return x if isinstance(x, Tensor) else Tensor(x)
    (x,) = promoted(x)
    return dispatch(Dropout, (x,), p=p, generator=generator or default_generator)


def dropout_add_plain(x: Any, residual: Any, *, p: float, generator: Generator) -> Tensor:
    """Compute residual + dropout(x)."""
    return add(residual, Dropout(p, generator)(x))


@declare(
    lambda x, residual, p=0.5, *, training=True, generator: (
        residual + _dropout_reference(x, p, training=training, generator=generator)
    )
)
def dropout_add(
    x: Any, residual: Any, p: float = 0.5, *, training: bool = True, generator: Generator | None = None
) -> Tensor:
    """Compute residual + dropout(x): a residual connection around a sublayer with output x. The shapes of x and
    residual must be equal. Raises ValueError unless 0 <= p <= 1, or if the shapes differ.
    """
    check_probability("dropout_add: p", p)
    x, residual = promoted(x, residual)
    if x.shape != residual.shape:
        raise ValueError(f"dropout_add: x {list(x.shape)} and the residual {list(residual.shape)} differ in shape")
    if not training or p == 0:
        return add(x, residual)
    return dispatch(dropout_add_plain, (x, residual), p=p, generator=generator or default_generator)
