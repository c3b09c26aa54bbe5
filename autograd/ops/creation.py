"""Constant tensors with the shape of another tensor, for backward rules that work for both arrays and Tensors."""

from __future__ import annotations

from typing import Any

from ..backend import array_module
from ..tensor import Tensor, array_of


def zeros_like(x: Any) -> Tensor:
    """Return zeros of x's shape and dtype; no gradient flows through them."""
    x = array_of(x)
    return Tensor(array_module(x).zeros_like(x))


def ones_like(x: Any) -> Tensor:
    """Return ones of x's shape and dtype; no gradient flows through them."""
    x = array_of(x)
    return Tensor(array_module(x).ones_like(x))
