"""Dropout as a layer."""

from ..autograd import Generator, Tensor, ops
from ..autograd.ops.dropout import check_probability
from .module import Module


class Dropout(Module):
    """A layer that, in training, zeros each element with probability `p` and scales the other elements by 1/(1-p).

    In evaluation mode the layer returns its input. Random numbers come from `generator`, or from the default generator
    if `generator` is None. Raises ValueError unless 0 <= p <= 1.
    """

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None):
        check_probability("Dropout: p", p)
        self.p, self.generator = p, generator

    def forward(self, x: Tensor) -> Tensor:
        return ops.dropout(x, self.p, training=self.training, generator=self.generator)

    def extra_repr(self) -> str:
        return f"p={self.p}"
