"""Fully connected layers by the CUDA kernels: linear layers, feed-forward networks, and the output layer with its loss.

They replace the plain implementations of linear.py and linear_cross_entropy.py for float16 and float32 arrays on a
device. One kernel computes all steps between two products. cuBLAS computes the products of contiguous matrices, for
which it can use tensor cores.
"""

from typing import Any

import numpy as np

from ..backend import Array, array_module
from ..ops.linalg import contiguous_rows, rows_of
from ..ops.linear import Linear, check_shapes, linear_activation_plain
from ..ops.linear_cross_entropy import linear_cross_entropy_plain
from ..ops.registry import QuickImplementation, all_of, implements
from ..quick import slices
from ..row_gradient import SelfAdding
from ..tensor import Tensor, array_of
from . import fused
from .fused import NO_DROPOUT, column_sums
from .ops import by_kernels, by_kernels_without_weights, dropout_key, mask_again
from .products import add_product, product

#: Maxima of a block: bytes of logits, and rows. The float16 sum of so many rows stays far from overflow.
BLOCK_BYTES, MAX_ROWS = 1 << 28, 4096


@implements(Linear, "device", by_kernels)
class LinearOnDevice(Linear):
    """A linear layer by cuBLAS on two-dimensional arrays. A kernel sums the bias's gradient."""

    def forward(self, x, weight, bias=None):
        check_shapes(x, weight, bias)
        self.save(x, weight)
        y = product(rows_of(x), weight.T)
        if bias is not None:
            y += bias
        return y.reshape(*x.shape[:-1], len(weight))

    def backward(self, g):
        if isinstance(g, Tensor) or not g.size:
            return Linear.backward(self, g)
        (x, weight), needs = self.saved, (*self.needs, False)
        g = contiguous_rows(g)
        dx = ProductGradient(g, weight, x.shape) if needs[0] else None
        dw = ProductGradient(g.T, rows_of(x), weight.shape) if needs[1] else None
        return (dx, dw, column_sums(g) if needs[2] else None)[: len(self.inputs)]


class ProductGradient(SelfAdding):
    """The gradient x @ y in an array of `shape`. cuBLAS adds the product to a gradient from other calls."""

    def __init__(self, x: Array, y: Array, shape: tuple[int, ...]):
        self.x, self.y, self.shape, self.dtype = x, y, shape, x.dtype

    def first(self) -> Array:
        return self.dense()

    def plus(self, other: Array, owned: bool) -> Array:
        if not owned or not other.flags.c_contiguous:
            return other + self.dense()
        product(self.x, self.y, out=other.reshape(len(self.x), self.y.shape[1]), add=True)
        return other

    def dense(self) -> Array:
        out = array_module(self.x).empty(self.shape, self.dtype)
        product(self.x, self.y, out=out.reshape(len(self.x), self.y.shape[1]))
        return out


def known_activation(arrays: list[Any], options: dict[str, Any]) -> str | None:
    """Condition: the kernel has the activation."""
    return None if options["activation"] in fused.ACTIVATIONS else f"the kernel has no {options['activation']}"


@implements(linear_activation_plain, "device", all_of(known_activation, by_kernels))
class LinearActivationOnDevice(QuickImplementation):
    """The op dropout(activation(x W^T + b)): one product and one kernel in the forward pass, one kernel and two
    products in the backward pass.

    For ReLU the kernel overwrites the product, because the result determines the gradient: the slope is 1 where the
    result is above 0, and both negative and dropped elements have gradient 0.
    """

    def forward(self, x, weight, bias=None):
        check_shapes(x, weight, bias)
        self.drop = dropout_key(x, self.dropout, self.generator) if self.dropout else NO_DROPOUT
        self.save(x, weight, *(() if bias is None else (bias,)))
        linear = product(contiguous_rows(x), weight.T)
        in_place = linear if self.activation == "relu" else None
        y = fused.bias_activation_dropout(linear, bias, self.activation, self.drop, out=in_place)
        # The backward kernel computes the activation's input from the product and the bias, or from the result alone.
        self.keep(linear, None if self.activation == "relu" else bias)
        return y.reshape(*x.shape[:-1], len(weight))

    def backward(self, g):
        (x, weight), (linear, bias) = self.saved[:2], self.kept
        dz, db = fused.bias_activation_dropout_backward(contiguous_rows(g), linear, bias, self.activation, self.drop)
        dx = ProductGradient(dz, weight, x.shape) if self.needs[0] else None
        dw = ProductGradient(dz.T, contiguous_rows(x), weight.shape) if self.needs[1] else None
        return (dx, dw, db)[: len(self.inputs)]

    def dropout_mask(self):
        x, weight = map(array_of, self.saved[:2])
        return mask_again(self.drop if self.dropout else None, (*x.shape[:-1], len(weight)), x)


@implements(linear_cross_entropy_plain, "device", by_kernels_without_weights)
class LinearCrossEntropyOnDevice(QuickImplementation):
    """The op LinearCrossEntropy of `linear_cross_entropy.py` without class weights.

    Rows are processed in blocks, and no logits are stored in float32. A kernel computes the losses from a block of
    products and overwrites the products with F = softmax - target, whose elements lie within -1 .. 1 for any loss
    scale. dx = F W and dW = F^T x are computed immediately. The backward pass multiplies dx and dW by the incoming
    gradient divided by the number of targets that are not ignored.
    """

    float16 = "mixed"
    target: Any

    def forward(self, x, weight, bias=None):
        self.save(x, weight, *(() if bias is None else (bias,)))
        self.target = array_module(x).ascontiguousarray(self.target.reshape(-1).astype(np.int64, copy=False))
        losses, *gradients = self.compute(x, weight, bias)
        mean = self.reduction == "mean"
        loss, count = fused.total_loss(losses, self.target, self.ignore_index, x.dtype, mean=mean)
        if self.record:
            self.keep(count, *gradients)
        return loss

    def compute(self, x, weight, bias=None):
        """Return the loss of each row and, if they are needed, the gradients dx, dW and db of the sum of the losses."""
        xp, rows, (classes, features) = array_module(x), contiguous_rows(x), weight.shape
        count, weight = len(rows), xp.ascontiguousarray(weight)
        step = min(self.block_rows or max(BLOCK_BYTES // max(classes * x.itemsize, 1), 1), MAX_ROWS, max(count, 1))
        step = -(-count // max(-(-count // step), 1))  # blocks of equal size
        losses, buffer = xp.empty(count, np.float32), xp.empty((step, classes), x.dtype)
        dx: Any = xp.empty((count, features), x.dtype) if self.record else None
        dw: Any = None
        db: Any = None
        for block in slices(0, count, max(step, 1)):
            z = buffer[: block.stop - block.start]
            product(rows[block], weight.T, out=z)
            options: Any = {"gradient": self.record, "out": losses[block]}
            fused.cross_entropy_rows(z, bias, self.target[block], self.ignore_index, self.label_smoothing, **options)
            if self.record:
                product(z, weight, out=dx[block])
                part = None if bias is None else column_sums(z)
                if step == count:
                    dw, db = product(z.T, rows), part
                    continue
                dw = xp.zeros(weight.shape, np.float32) if dw is None else dw  # float32: the blocks' sums grow
                add_product(dw, z.T, rows[block])
                if part is not None:
                    db = part.astype(np.float32) if db is None else db + part
        return losses, None if dx is None else dx.reshape(x.shape), dw, db

    def backward(self, g):
        count, *gradients = self.kept
        if not gradients:  # already handed over: a second pass through a retained graph computes them again
            gradients = self.compute(*self.saved)[1:]
        self.keep(count)
        return tuple(fused.scale_gradients(g, count, gradients, self.saved[0].dtype)[: len(self.inputs)])
