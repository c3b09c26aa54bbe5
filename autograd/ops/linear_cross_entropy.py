"""The output layer and its cross-entropy in one op, for large vocabularies."""

from typing import Any

import numpy as np

from ..backend import array_module
from ..origin import is_grad_enabled
from ..tensor import Tensor, array_of, constant_array
from .elementwise import promoted
from .linear import check_shapes, linear
from .loss import _cross_entropy_reference, check_target, checked_smoothing, cross_entropy
from .reduction import narrowed, widened
from .registry import declare, dispatch


def linear_cross_entropy_plain(
    x: Any, weight: Any, bias: Any = None, *, target: Any, ignore_index: int, reduction: str, label_smoothing: float,
    block_rows: int | None = None, record: bool = False,
) -> Tensor:  # fmt: skip
    """Compute cross_entropy(x W^T + b, target) with all logits at once."""
    logits = linear(widened(x), widened(weight), widened(bias))  # float16 might overflow
    options: dict[str, Any] = {"reduction": reduction, "label_smoothing": label_smoothing}
    return narrowed(cross_entropy(logits, target, ignore_index=ignore_index, **options), x)


def _reference(x, weight, bias, target, *, block_rows=None, **options):
    logits = np.einsum("...i,oi->...o", x, weight) + (0 if bias is None else bias)
    return _cross_entropy_reference(logits, target, **options)


@declare(_reference)
def linear_cross_entropy(
    x: Any,
    weight: Any,
    bias: Any,
    target: Any,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    block_rows: int | None = None,
) -> Tensor:
    """Compute cross_entropy(linear(x, weight, bias), target). The quick implementations never store all logits at once.

    Args:
        x: (..., features).
        weight, bias: (classes, features), and (classes,) or None.
        target: (...), integers; targets equal to `ignore_index` (padding) are excluded from the sum and the mean.
        reduction: "sum", or "mean" over the other targets; the mean over no target is NaN, and its gradient is 0.
        label_smoothing: s in [0, 1], as in `cross_entropy`.
        block_rows: number of rows of logits in memory at a time. None selects the rows that fit into 32 MB or half of
            the weight's size, whichever is more, or on a GPU into 256 MB.

    Raises ValueError for shapes that don't fit or options out of range, IndexError for a class out of range.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(f"linear_cross_entropy: reduction must be 'mean' or 'sum', not {reduction!r}")
    label_smoothing = checked_smoothing("linear_cross_entropy", label_smoothing)
    if block_rows is not None and block_rows < 1:
        raise ValueError(f"linear_cross_entropy: block_rows must be at least 1, not {block_rows}")
    x, weight, bias = promoted(x, weight, bias)
    operands = (x, weight) if bias is None else (x, weight, bias)
    arrays = [array_of(operand) for operand in operands]
    xp = array_module(arrays[0])
    target = xp.asarray(constant_array(target, "linear_cross_entropy: targets"))
    check_shapes(*arrays)
    check_target("linear_cross_entropy", target, (*arrays[0].shape[:-1], len(arrays[1])), ignore_index)
    record = is_grad_enabled() and any(isinstance(o, Tensor) and o.requires_grad for o in operands)
    return dispatch(
        linear_cross_entropy_plain, operands, target=target, ignore_index=ignore_index, reduction=reduction,
        label_smoothing=label_smoothing, block_rows=block_rows, record=record,
    )  # fmt: skip
