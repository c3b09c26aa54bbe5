"""The output layer and its cross-entropy in one op, for large vocabularies."""

from typing import Any

import numpy as np

from ...kinds import one_of
from ..backend import array_module, constant
from ..half import in_float32
from ..tensor import Tensor, array_of, constant_array, is_recorded
from .dropout import check_probability
from .elementwise import promoted
from .linear import check_shapes, linear
from .loss import _cross_entropy_reference, check_classes, cross_entropy
from .registry import declare, dispatch


@in_float32  # float16 logits might overflow
def linear_cross_entropy_plain(
    x: Any, weight: Any, bias: Any = None, *, target: Any, class_weight: Any, ignore_index: int, reduction: str,
    label_smoothing: float, block_rows: int | None = None, record: bool = False,
) -> Tensor:  # fmt: skip
    """Compute cross_entropy(x W^T + b, target) with all logits at once."""
    return cross_entropy(
        linear(x, weight, bias), target, weight=class_weight, ignore_index=ignore_index, reduction=reduction,
        label_smoothing=label_smoothing,
    )  # fmt: skip


def _reference(x, weight, bias, target, *, class_weight=None, block_rows=None, **options):
    logits = np.einsum("...i,oi->...o", x, weight) + (0 if bias is None else bias)
    return _cross_entropy_reference(logits, target, weight=class_weight, **options)


@declare(_reference)
def linear_cross_entropy(
    x: Any,
    weight: Any,
    bias: Any,
    target: Any,
    *,
    class_weight: Any = None,
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
        class_weight: (classes,), the weight of each class; None for equal weights.
        reduction: "sum", or "mean", which divides by the sum of the targets' class weights; the mean over no target is
            NaN, and its gradient is 0.
        label_smoothing: s in [0, 1], as in `cross_entropy`.
        block_rows: number of rows of logits in memory at a time. None selects the rows that fit into 32 MB or half of
            the weight's size, whichever is more, or on a GPU into 256 MB.

    Raises ValueError for shapes that don't fit or options out of range, IndexError for a class out of range.
    """
    one_of("linear_cross_entropy: reduction", reduction, ("mean", "sum"))
    check_probability("linear_cross_entropy: label_smoothing", label_smoothing)
    if block_rows is not None and block_rows < 1:
        raise ValueError(f"linear_cross_entropy: block_rows must be at least 1, not {block_rows}")
    x, weight, bias = promoted(x, weight, bias)
    operands = (x, weight) if bias is None else (x, weight, bias)
    arrays = [array_of(operand) for operand in operands]
    xp = array_module(arrays[0])
    target = xp.array(constant_array(target, "linear_cross_entropy: targets"))  # copies: buffers may be filled again
    if class_weight is not None:
        class_weight = constant(xp, constant_array(class_weight, "linear_cross_entropy: class weights")).copy()
    check_shapes(*arrays)
    classes = len(arrays[1])
    if target.shape != arrays[0].shape[:-1] or target.dtype.kind not in "iu":
        raise ValueError(
            f"linear_cross_entropy: x {arrays[0].shape} needs integer targets of shape {arrays[0].shape[:-1]}, not "
            f"{target.dtype}{list(target.shape)}"
        )
    if class_weight is not None and class_weight.shape != (classes,):
        raise ValueError(f"class_weight of shape {class_weight.shape} does not fit {classes} classes")
    check_classes("linear_cross_entropy", target, classes, ignore_index)
    return dispatch(
        linear_cross_entropy_plain, operands, target=target, class_weight=class_weight, ignore_index=ignore_index,
        reduction=reduction, label_smoothing=label_smoothing, block_rows=block_rows, record=is_recorded(*operands),
    )  # fmt: skip
