"""Matrix products in bfloat16: float32 operands are rounded to bfloat16 and multiplied, with sums in float32.

A bfloat16 number is the upper half of a float32 number: it has the range of float32, but only 8 significant bits, so
rounding changes a number by at most 1 part in 256. In return it takes half the memory, and processors with instructions
for it multiply twice as many numbers in the same time. The product of two such numbers is exact in float32. This module
has the plain form, which rounds the operands and multiplies in float32. `fast/bfloat16.py` has the instructions.
"""

from contextvars import ContextVar
from typing import Any

import numpy as np

from .origin import Switch
from .quick import replaceable

#: Whether products are rounded: within `bfloat16_products`.
rounding: ContextVar[bool] = ContextVar("bfloat16_products", default=False)
#: A float32 number plus this, plus the last bit to keep, carries into the upper half if it is to be rounded up.
_BELOW_HALF, _UPPER_HALF = np.uint32(0x7FFF), np.uint32(0xFFFF0000)


class bfloat16_products(Switch):  # noqa: N801  (reads as a statement: `with bfloat16_products():`)
    """Context manager and decorator: round the float32 operands of products of two matrices to bfloat16, on the CPU.

    These are the products of linear layers, of the output layer with its loss, of recurrent layers, and of `matmul`
    with a matrix. Products of stacks of matrices, such as those of attention, stay in float32. The backward pass
    belongs into the block, too: its products are rounded only there. `bfloat16_products(False)` within a block
    multiplies in float32 again.
    """

    def __init__(self, on: bool = True) -> None:
        super().__init__(rounding, on)


def rounds(*arrays: Any) -> bool:
    """Return whether a product of these arrays is one in bfloat16: within a block, for float32 matrices of NumPy."""
    return rounding.get() and all(isinstance(x, np.ndarray) and x.ndim == 2 and x.dtype == np.float32 for x in arrays)


def rounded(x: np.ndarray) -> np.ndarray:
    """Return float32 numbers rounded to bfloat16: to the nearest, or halfway between two to the even one."""
    bits = x.view(np.uint32)
    last = (bits >> 16) & 1
    out = ((bits + _BELOW_HALF + last) & _UPPER_HALF).view(np.float32)
    np.copyto(out, x, where=np.isnan(x))  # the addition can carry a NaN over into -0
    return out


@replaceable
def bfloat16_carried_out() -> str:
    """Return in words how these products are computed here."""
    return "rounds the operands and multiplies in float32, which is slower than fp32 (HANDLOOM_PLAIN=1)"
