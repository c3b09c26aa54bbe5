"""Dropout for NumPy arrays on several threads: replaces `Dropout` and `dropout_add_plain` of dropout.py.

The results equal those of `Dropout` and `dropout_add_plain`. Arrays are processed in pieces that stay in the cache, so
that mask, scale and residual take one pass over memory instead of three.
"""

from typing import Any

import numpy as np

from ..backend import Array
from ..ops.dropout import Dropout, dropout_add_plain
from ..ops.registry import QuickImplementation, implements, on_cpu
from ..quick import blocks
from ..tensor import Tensor
from .costs import MASKED
from .parallel import parallel_for


def masked(x: Array, mask: Array, scale: Any, added: Array | None = None) -> Array:
    """Compute x * mask * scale + added, for arrays of the same shape, on several threads."""
    out = np.empty(x.shape, x.dtype)
    flat_x, flat_mask, flat_out = x.reshape(-1), mask.reshape(-1), out.reshape(-1)
    flat_added = None if added is None else added.reshape(-1)

    def part(start, stop):
        for piece in blocks(start, stop):
            y = flat_out[piece]
            np.multiply(flat_x[piece], flat_mask[piece], out=y)
            y *= scale
            if flat_added is not None:
                y += flat_added[piece]

    parallel_for(np, x.size, part, cost=MASKED)
    return out


@implements(Dropout, "cpu", on_cpu)
class DropoutOnCPU(QuickImplementation):
    """Dropout on the CPU: x times a mask of 0 and 1/(1-p), plus a residual if there is one."""

    composed = None

    def forward(self, x, *residual):
        mask, scale = self.generator.keep_mask(x.shape, self.p)
        self.keep(mask, x.dtype.type(scale))
        return masked(x, *self.kept, *residual)

    def backward(self, g):
        mask, scale = self.kept
        dx = g * mask * scale if isinstance(g, Tensor) else masked(g, mask, scale)
        return (dx, g)[: len(self.inputs)]


@implements(dropout_add_plain, "cpu", on_cpu)
class DropoutAddOnCPU(DropoutOnCPU):
    pass
