"""Dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function, raw
from ..random import Generator, default_generator
from ..tensor import Tensor
from .on_device import DropoutOnDevice, drop_of, runs_kernels
from .registry import declare


class Dropout(Function):
    """x times a mask of 0 and 1/(1-p); the gradient passes through the same mask."""

    def __init__(self, p, generator):
        self.p, self.generator = p, generator

    def forward(self, x):
        mask, scale = self.generator.keep_mask(x.shape, self.p)
        mask = array_module(x).asarray(mask)
        self.keep(mask, x.dtype.type(scale))
        out = x * mask
        out *= self.kept[1]
        return out

    def backward(self, g):
        mask, scale = self.kept
        return g * mask * scale


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
    if runs_kernels(raw(x)):
        return DropoutOnDevice(drop_of(p, generator or default_generator))(x)
    return Dropout(p, generator or default_generator)(x)
