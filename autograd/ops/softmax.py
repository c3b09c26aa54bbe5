"""Softmax and its logarithm. The maximum of each row is subtracted first, so that the exponentials can't overflow."""

from typing import Any

import numpy as np

from ..backend import array_module
from ..sums import summed
from ..tensor import Tensor
from .reduction import AlongAxis, floating
from .registry import declare


def _below_top(x: Any, axis: int) -> Any:
    """Subtract the largest element along `axis` from x."""
    x = floating(x)
    return x - x.max(axis=axis, keepdims=True) if x.size else x.copy()


class Softmax(AlongAxis):
    """p_i = exp(x_i) / sum_j exp(x_j); dx = p (g - sum_j g_j p_j). dp_j/dx_i is p_j (1 - p_i) if j = i, and -p_j p_i
    otherwise. dx_i is the sum over j of g_j dp_j/dx_i.
    """

    float16 = "widened"

    def forward(self, x):
        out = array_module(x).exp(_below_top(x, self.axis))
        out /= summed(out, self.axis, keepdims=True)
        self.save(out)
        return out

    def backward(self, g):
        (p,) = self.saved
        return p * (g - summed(g * p, self.axis, keepdims=True))


def _softmax_reference(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


@declare(_softmax_reference)
def softmax(x: Any, axis: int = -1) -> Tensor:
    """Compute exp(x), normalised so that the sum along `axis` is 1, in float32 for float16."""
    return Softmax(axis)(x)


class LogSoftmax(AlongAxis):
    """y_i = x_i - log sum_j exp(x_j); dx = g - exp(y) sum_j g_j."""

    float16 = "widened"

    def forward(self, x):
        xp = array_module(x)
        out = _below_top(x, self.axis)
        if x.size:
            out -= xp.log(summed(xp.exp(out), self.axis, keepdims=True))
        self.save(out)
        return out

    def backward(self, g):
        (out,) = self.saved
        return g - array_module(out).exp(out) * summed(g, self.axis, keepdims=True)


@declare(lambda x, axis=-1: np.log(_softmax_reference(x, axis)))
def log_softmax(x: Any, axis: int = -1) -> Tensor:
    """Compute the logarithm of softmax along `axis`, without computing probabilities, which could underflow."""
    return LogSoftmax(axis)(x)
