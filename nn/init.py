"""Initialisers: they fill a parameter in place and return it.

`fan_in` and `fan_out` are read from a weight (out_features, in_features); each takes a `generator`, the default one
if None.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..autograd import Generator, Tensor, default_generator

GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "gelu": math.sqrt(2)}


def _fans(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ValueError(f"fan in and fan out need at least two dimensions, not shape {tensor.shape}")
    receptive = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def _fill(tensor: Tensor, values: Any) -> Tensor:
    tensor.data[...] = values
    tensor.mark_changed()
    return tensor


def constant_(tensor: Tensor, value: float) -> Tensor:
    return _fill(tensor, value)


def zeros_(tensor: Tensor) -> Tensor:
    return _fill(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    return _fill(tensor, 1)


def uniform_(tensor: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Uniform between `low` and `high`."""
    return _fill(tensor, (generator or default_generator).numpy.uniform(low, high, tensor.shape))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Normal with `mean` and standard deviation `std`."""
    return _fill(tensor, (generator or default_generator).numpy.normal(mean, std, tensor.shape))


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    *,
    low: float = -2.0,
    high: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal, drawn again wherever it falls outside `low`..`high`."""
    numpy = (generator or default_generator).numpy
    values = numpy.normal(mean, std, tensor.shape)
    while (outside := (values < low) | (values > high)).any():
        values[outside] = numpy.normal(mean, std, int(outside.sum()))
    return _fill(tensor, values)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Uniform with variance 2 gain^2 / (fan_in + fan_out). Source: Glorot and Bengio 2010, equation 16."""
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator=generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Normal with variance 2 gain^2 / (fan_in + fan_out). Source: Glorot and Bengio 2010."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))), generator=generator)


def kaiming_uniform_(tensor: Tensor, nonlinearity: str = "relu", *, generator: Generator | None = None) -> Tensor:
    """Uniform with variance gain^2 / fan_in. Source: He et al. 2015, arXiv 1502.01852, equation 10."""
    bound = GAINS[nonlinearity] * math.sqrt(3 / _fans(tensor)[0])
    return uniform_(tensor, -bound, bound, generator=generator)


def kaiming_normal_(tensor: Tensor, nonlinearity: str = "relu", *, generator: Generator | None = None) -> Tensor:
    """Normal with variance gain^2 / fan_in. Source: He et al. 2015, arXiv 1502.01852, equation 10."""
    return normal_(tensor, 0.0, GAINS[nonlinearity] / math.sqrt(_fans(tensor)[0]), generator=generator)


def lecun_normal_(tensor: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Normal with variance 1 / fan_in. Source: LeCun et al. 1998, "Efficient BackProp", equation 16."""
    return kaiming_normal_(tensor, "linear", generator=generator)


def orthogonal_(tensor: Tensor, gain: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """A random matrix with orthonormal rows or columns, times `gain`. Source: Saxe et al. 2014, arXiv 1312.6120."""
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    square = (generator or default_generator).numpy.normal(size=(max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(square)
    q *= np.sign(np.diag(r))  # makes the distribution uniform over the orthogonal matrices
    return _fill(tensor, gain * (q if rows >= columns else q.T).reshape(tensor.shape))
