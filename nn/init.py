"""Initialisers, which overwrite a parameter and return it, with numbers of `generator` or the default generator."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..autograd import Generator, Tensor, default_generator
from ..kinds import checked_op

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


@checked_op
def uniform_(tensor: Tensor, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Draw from the uniform distribution between `low` and `high`."""
    if _skipped.get():
        return tensor
    return _fill(tensor, (generator or default_generator).numpy.uniform(low, high, tensor.shape))


@checked_op
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Draw from the normal distribution with `mean` and standard deviation `std`."""
    if _skipped.get():
        return tensor
    return _fill(tensor, (generator or default_generator).numpy.normal(mean, std, tensor.shape))


@checked_op
def constant_(tensor: Tensor, val: float) -> Tensor:
    return _fill(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    return _fill(tensor, 1)


@checked_op
def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, *,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw from the normal distribution, again and again until each number is between `a` and `b`. Raises ValueError
    unless mean - 5 std < b, mean + 5 std > a and a < b.
    """
    if not (a < b and mean + 5 * std > a and mean - 5 * std < b):
        raise ValueError(f"trunc_normal_: there are hardly any numbers from {a} to {b} for {mean=}, {std=}")
    if not _skipped.get():
        normal = (generator or default_generator).numpy.normal
        values = normal(mean, std, tensor.shape)
        while (outside := (values < a) | (values > b)).any():
            values[outside] = normal(mean, std, int(outside.sum()))
        _fill(tensor, values)
    return tensor


def _fans(name: str, tensor: Tensor) -> tuple[int, int]:
    """Return the number of inputs and of outputs of a weight (out_features, in_features)."""
    if tensor.ndim != 2:
        raise ValueError(f"{name} needs a weight of shape (out_features, in_features), not {tensor.shape}")
    return tensor.shape[1], tensor.shape[0]


@checked_op
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Draw a weight (out_features, in_features) from a uniform distribution, variance 2 gain^2 / (fan_in + fan_out).
    Source: Glorot and Bengio 2010, equation 16. Raises ValueError unless the tensor has two axes.
    """
    bound = gain * math.sqrt(6 / sum(_fans("xavier_uniform_", tensor)))
    return uniform_(tensor, -bound, bound, generator=generator)


@checked_op
def xavier_normal_(tensor: Tensor, gain: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Draw as `xavier_uniform_` does, from a normal distribution."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans("xavier_normal_", tensor))), generator=generator)


def _kaiming(name: str, tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    """Return the standard deviation gain / sqrt(fan)."""
    gains = {"leaky_relu": math.sqrt(2 / (1 + a * a)), "relu": math.sqrt(2), "tanh": 5 / 3, "linear": 1, "sigmoid": 1}
    if mode not in ("fan_in", "fan_out") or nonlinearity not in gains:
        raise ValueError(f"{name}: mode must be 'fan_in' or 'fan_out', nonlinearity one of {', '.join(gains)}")
    return gains[nonlinearity] / math.sqrt(_fans(name, tensor)[mode == "fan_out"])


@checked_op
def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", *,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw a weight (out_features, in_features) from a uniform distribution whose variance is gain^2 / fan, where the
    gain depends on the activation after the layer; `a` is the slope of leaky_relu. Source: He et al. 2015, arXiv
    1502.01852. Raises ValueError for an unknown name, or unless the tensor has two axes.
    """
    bound = math.sqrt(3) * _kaiming("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator=generator)


@checked_op
def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", *,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw as `kaiming_uniform_` does, from a normal distribution."""
    return normal_(tensor, 0.0, _kaiming("kaiming_normal_", tensor, a, mode, nonlinearity), generator=generator)
