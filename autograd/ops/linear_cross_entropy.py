"""The output layer and its loss in one, for large vocabularies: rows in blocks, so that never all logits are held."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function
from ..grad_mode import is_grad_enabled
from ..parallel import parallel_for, pieces
from ..tensor import Tensor, array_of
from .elementwise import promoted
from .linalg import rows_of
from .linear import FLOPS, linear
from .linear_on_device import LinearCrossEntropyOnDevice
from .loss import _cross_entropy_reference, cross_entropy, divisor_of_mean
from .on_device import runs_kernels
from .registry import declare

#: Bytes of logits held at a time, or half of the weight's if that is more. Each block costs the products bringing the
#: weight into BLAS's own order and adding to dW; one of all logits would take more memory than all else in the step.
BLOCK_BYTES = 1 << 25

#: The classes are cut into so many parts, for threads to share.
CLASS_PARTS = 8


class LinearCrossEntropy(Function):
    """Cross-entropy of the classes t under softmax(z), z = x W^T + b, its gradients computed along with the loss.

    With E = exp(z - max z), row sums l, smoothing s, V classes and class weights w (1 by default), a row's loss is
    a (lse - z_t) + (s/V) sum_c w_c (lse - z_c), a = (1 - s) w_t, so with k = a + (s/V) sum w

        dz = (k / l) F,   F = E - (l / k) (a onehot(t) + (s/V) w).

    F stays in the memory of z; k / l, like the mean's divisor, is multiplied to the narrow side: dx = (k/l) (F W) and
    dW = F^T ((k/l) x). Rows that don't count (padding) are left out of all products. The loss is one number, so the
    gradients need only be multiplied by its own, and no logit is computed twice.
    """

    def __init__(self, target, class_weight, ignore_index, reduction, label_smoothing, block_rows, record):
        self.target, self.class_weight, self.ignore_index = target, class_weight, ignore_index
        self.reduction, self.label_smoothing = reduction, label_smoothing
        self.block_rows, self.record = block_rows, record

    def forward(self, x, weight, bias=None):
        self.save(x, weight, *(() if bias is None else (bias,)))
        loss, *gradients = self.compute(x, weight, bias)
        if self.record:
            self.keep(*gradients)
        return loss

    def compute(self, x, weight, bias):
        """The loss and, if it is to be differentiated, dx, dW and db."""
        xp = array_module(x)
        self.wide = wide = np.dtype(np.float32) if x.dtype == np.float16 else x.dtype
        rows, real = rows_of(x), xp.flatnonzero(self.target != self.ignore_index)
        rows = (rows if len(real) == len(rows) else rows[real]).astype(wide, copy=False)
        target, weight_wide = self.target[real], weight.astype(wide, copy=False)
        classes = len(weight)
        smooth = self.label_smoothing / max(classes, 1)
        row_weight = xp.ones(len(real), wide) if self.class_weight is None else self.class_weight[target].astype(wide)
        own = (1 - self.label_smoothing) * row_weight
        # What smoothing takes from each class, and from all together.
        each = smooth if self.class_weight is None else smooth * self.class_weight.astype(wide)
        total_each = wide.type(self.label_smoothing) if self.class_weight is None else each.sum()
        total_weight = row_weight.sum() if self.reduction == "mean" else 1
        count = xp.where(total_weight == 0, 1, total_weight)
        losses = xp.empty(len(real), wide)
        dx: Any = None
        dw: Any = None
        db: Any = None
        if self.record:
            dx, dw = xp.empty(rows.shape, wide), xp.empty(weight.shape, wide)
            db = None if bias is None else xp.zeros(classes, wide)
        most = max(BLOCK_BYTES, weight_wide.nbytes // 2)
        step = self.block_rows or max(most // max(classes * wide.itemsize, 1), 1)
        step = -(-len(real) // max(-(-len(real) // step), 1))  # blocks of equal size
        buffer = xp.empty((step, classes), wide)
        for start in range(0, len(real), max(step, 1)):
            block = slice(start, min(start + step, len(real)))
            z = buffer[: block.stop - start]
            factor = xp.empty((len(z), 1), wide)
            terms = own[block], each, total_each, count
            self.block(xp, z, rows[block], target[block], weight_wide, bias, terms, losses[block], factor)
            if self.record:
                dx[block] = self.gradients(xp, z, rows[block], factor, weight_wide, dw, db, first=start == 0)
        if self.record:
            if not len(real):
                dw[...] = 0
            dx = self.spread(xp, dx, real, x)
            dw = dw.astype(weight.dtype, copy=False)
            db = None if db is None else db.astype(bias.dtype, copy=False)
        return xp.asarray(losses.sum() / divisor_of_mean(xp, total_weight)).astype(x.dtype), dx, dw, db

    def block(self, xp, z, rows, target, weight, bias, terms, losses, factor):
        """Losses of a block of rows; `z` ends as F, `factor` as k / l over the mean's divisor."""
        own, each, total_each, count = terms

        def logits(start, stop):
            xp.matmul(rows, weight[start:stop].T, out=z[:, start:stop])

        def softmax(start, stop):
            for piece in pieces(start, stop, z.shape[1] // 4):
                y, a = z[piece], own[piece]
                at_target = xp.arange(len(y)), target[piece]
                if bias is not None:
                    y += bias
                y -= y.max(axis=1, keepdims=True)
                loss = -a * y[at_target]
                if self.label_smoothing:
                    loss -= y.sum(axis=1) * each if self.class_weight is None else y @ each
                xp.exp(y, out=y)
                total = y.sum(axis=1)
                k = a + total_each
                losses[piece] = loss + k * xp.log(total)
                if not self.record:
                    continue
                scale = total / xp.where(k == 0, 1, k)
                if self.label_smoothing:
                    y -= scale[:, None] * each
                y[at_target] -= scale * a
                factor[piece] = (k / total / count)[:, None]

        # The product by classes: each thread brings its part of the weight into BLAS's own order, not all of it.
        parallel_for(xp, len(weight), logits, cost=rows.size / FLOPS)
        parallel_for(xp, len(z), softmax, cost=2.0 * z.shape[1])

    def gradients(self, xp, f, rows, factor, weight, dw, db, first):
        """dx of the rows, (k/l) (F W); dW += F^T ((k/l) x) and db += F^T (k/l), which the first block writes."""
        scaled = rows * factor
        size = max(-(-len(weight) // CLASS_PARTS), 1)
        d_parts = xp.zeros((CLASS_PARTS, *rows.shape), f.dtype)  # added up in one order, whatever the threads

        def part(start, stop):
            for number in range(start, stop):
                classes = slice(number * size, min((number + 1) * size, len(weight)))
                if classes.start >= classes.stop:
                    continue
                xp.matmul(f[:, classes], weight[classes], out=d_parts[number])
                if db is not None:
                    db[classes] += factor[:, 0] @ f[:, classes]
                if first:
                    xp.matmul(f[:, classes].T, scaled, out=dw[classes])
                    continue
                for piece in pieces(classes.start, classes.stop, rows.shape[1] // 4):
                    dw[piece] += f[:, piece].T @ scaled

        parallel_for(xp, CLASS_PARTS, part, cost=2 * size * rows.size / FLOPS)
        return d_parts.sum(axis=0) * factor

    def spread(self, xp, dx, real, x):
        """dx of all rows from that of the real ones."""
        if len(real) < len(self.target):
            every = xp.zeros((len(self.target), x.shape[-1]), dx.dtype)
            every[real] = dx
            dx = every
        return dx.astype(x.dtype, copy=False).reshape(x.shape)

    def backward(self, g):
        # The kept gradients are handed over; a second pass through a retained graph computes them anew.
        gradients = self.kept or self.compute(*self.saved, *([None] * (3 - len(self.saved))))[1:]
        self.keep()
        if g != 1:
            for gradient in gradients:
                if gradient is not None:
                    gradient *= g
        return tuple(gradients[: len(self.inputs)])

    def composed(self, x, weight, bias=None):
        return cross_entropy(
            linear(x, weight, bias),
            self.target.reshape(x.shape[:-1]),
            weight=self.class_weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


def _reference(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    target: np.ndarray,
    *,
    class_weight: np.ndarray | None = None,
    block_rows: int | None = None,
    **options: Any,
) -> Any:
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
    """cross_entropy(linear(x, weight, bias), target) without ever holding all logits.

    Args:
        x: (..., features).
        weight, bias: (classes, features), and (classes,) or None.
        target: (...), integers; positions equal to `ignore_index` (padding) count nowhere and cost nothing.
        class_weight: (classes,) or None: the weight of each class.
        reduction: "mean" (over the weights of the targets that count; NaN, with the gradient 0, if none do) or
            "sum".
        label_smoothing: s in [0, 1], as in `cross_entropy`.
        block_rows: rows of logits held at a time; None for what fits into 32 MB or half of the weight's
            size, on a device into 256 MB.

    Raises ValueError for shapes that don't fit or options out of range, IndexError for a class out of range.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(f"linear_cross_entropy: reduction {reduction!r} is neither mean nor sum")
    label_smoothing = float(label_smoothing)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"linear_cross_entropy: label_smoothing {label_smoothing} is not within 0..1")
    if block_rows is not None and block_rows < 1:
        raise ValueError(f"linear_cross_entropy: block_rows must be at least 1, not {block_rows}")
    x, weight, bias = promoted(x, weight, bias)
    operands = (x, weight) if bias is None else (x, weight, bias)
    arrays = [array_of(operand) for operand in operands]
    xp = array_module(arrays[0])
    target, class_weight = xp.asarray(array_of(target)), array_of(class_weight)
    classes, features = arrays[1].shape
    if arrays[0].shape[-1:] != (features,) or (bias is not None and arrays[2].shape != (classes,)):
        shapes = ", ".join(str(array.shape) for array in arrays)
        raise ValueError(f"linear_cross_entropy: x, weight and bias of shapes {shapes} don't fit together")
    if target.shape != arrays[0].shape[:-1] or target.dtype.kind not in "iu":
        raise ValueError(
            f"linear_cross_entropy: x {arrays[0].shape} needs integer targets of shape {arrays[0].shape[:-1]}, not "
            f"{target.dtype}{list(target.shape)}"
        )
    if class_weight is not None and class_weight.shape != (classes,):
        raise ValueError(f"linear_cross_entropy: class_weight {class_weight.shape} for {classes} classes")
    if xp is np:
        wrong = (target != ignore_index) & ((target < 0) | (target >= classes))
        if wrong.any():
            raise IndexError(f"linear_cross_entropy: class {target[wrong][0]} is outside 0..{classes - 1}")
    record = is_grad_enabled() and any(isinstance(o, Tensor) and o.requires_grad for o in operands)
    if xp is np:
        function: Any = LinearCrossEntropy(
            target.reshape(-1), class_weight, ignore_index, reduction, label_smoothing, block_rows, record
        )
        return function(*operands)

    def composed(x: Any, weight: Any, bias: Any = None) -> Tensor:
        options: dict[str, Any] = {"ignore_index": ignore_index, "reduction": reduction}
        options["label_smoothing"] = label_smoothing
        return cross_entropy(linear(x, weight, bias), target, weight=class_weight, **options)

    if class_weight is not None or not runs_kernels(*arrays):
        return composed(*operands)
    flat = xp.ascontiguousarray(target.reshape(-1).astype(np.int64, copy=False))
    function = LinearCrossEntropyOnDevice(
        flat, ignore_index, reduction, label_smoothing, block_rows, record, composed
    )
    return function(*operands)
