"""Initialisers, which overwrite a parameter and return it, with numbers of `generator` or the default generator."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..autograd import Generator, Tensor, default_generator
from ..autograd.arguments import checked

_skipped: ContextVar[bool] = ContextVar("skipped", default=False)


@contextmanager
def skip_init() -> Iterator[None]:
    """Disable initialisers inside the block, for a model whose weights are loaded afterwards."""
    token = _skipped.set(True)
    try:
        yield
    finally:
        _skipped.reset(token)


def _fill(tensor: Tensor, values: Any) -> Tensor:
    tensor.data[...] = values
    tensor.mark_changed()
    return tensor


def zeros_(tensor: Tensor) -> Tensor:
    return _fill(tensor, 0)


@checked
def uniform_(tensor: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Draw from the uniform distribution between `low` and `high`."""
    if _skipped.get():
        return tensor
    return _fill(tensor, (generator or default_generator).numpy.uniform(low, high, tensor.shape))


@checked
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Draw from the normal distribution with `mean` and standard deviation `std`."""
    if _skipped.get():
        return tensor
    return _fill(tensor, (generator or default_generator).numpy.normal(mean, std, tensor.shape))


@checked
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Draw a weight (out_features, in_features) from a uniform distribution, variance 2 gain^2 / (fan_in + fan_out).
    Source: Glorot and Bengio 2010, equation 16. Raises ValueError unless the tensor has two axes.
    """
    if tensor.ndim != 2:
        raise ValueError(f"xavier_uniform_ needs a weight of shape (out_features, in_features), not {tensor.shape}")
    bound = gain * math.sqrt(6 / sum(tensor.shape))
    return uniform_(tensor, -bound, bound, generator=generator)
