"""Elementwise functions, softmax and changes of shape as layers; names and arguments are PyTorch's."""

from collections.abc import Callable
from typing import Any, ClassVar

from ..autograd import Tensor, ops
from .module import Module


class _Op(Module):
    """A layer that calls `op` with the layer's options."""

    op: ClassVar[Callable[..., Tensor]]

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}

    def forward(self, x: Tensor) -> Tensor:
        return type(self).op(x, **self.options)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.options.items())


class ReLU(_Op):
    """The layer that computes `ops.relu`."""

    op = staticmethod(ops.relu)


class SiLU(_Op):
    """The layer that computes `ops.silu`."""

    op = staticmethod(ops.silu)


class Tanh(_Op):
    """The layer that computes `ops.tanh`."""

    op = staticmethod(ops.tanh)


class Sigmoid(_Op):
    """The layer that computes `ops.sigmoid`."""

    op = staticmethod(ops.sigmoid)


class GELU(_Op):
    """The layer that computes `ops.gelu`; `approximate` is "none" or "tanh"."""

    op = staticmethod(ops.gelu)

    def __init__(self, approximate: str = "none"):
        self.options = {"approximate": approximate}


class LeakyReLU(_Op):
    """The layer that computes `ops.leaky_relu`."""

    op = staticmethod(ops.leaky_relu)

    def __init__(self, negative_slope: float = 0.01):
        self.options = {"negative_slope": negative_slope}


class Softmax(_Op):
    """The layer that computes `ops.softmax` along the axis `dim`."""

    op = staticmethod(ops.softmax)

    def __init__(self, dim: int = -1):
        self.options = {"axis": dim}


class Identity(Module):
    """A layer that returns its input."""

    def forward(self, x: Any) -> Any:
        return x


class Flatten(Module):
    """A layer that merges the axes `start_dim` to `end_dim` into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        axes = range(len(x.shape))
        first, last = axes[self.start_dim], axes[self.end_dim]
        if first > last:
            raise ValueError(f"Flatten: start_dim {self.start_dim} is behind end_dim {self.end_dim} of {x.shape}")
        return x.reshape(*x.shape[:first], -1, *x.shape[last + 1 :])

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
