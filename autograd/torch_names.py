"""PyTorch's methods for tensors, by handloom's ops, where NumPy's arrays have no method of that name; and what to write
for those that handloom lacks. No method returns a view or changes its tensor. `docs/from_pytorch.md` compares both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .numpy_habits import Missing, NumPyHabits
from .operators import Operators, called

if TYPE_CHECKING:
    from . import ops as _ops
    from .tensor import Tensor

Method = Callable[..., Any]


def one_or_many(sizes: tuple[Any, ...]) -> Any:
    """Return the sizes or axes of a call f(2, 3), f((2, 3)) or f(2)."""
    return sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int | np.integer) else sizes


def _casts(dtype: Any) -> Method:
    return lambda self: self.astype(dtype)


class TorchNames:
    """The part of `Tensor` for people who come from PyTorch."""

    __slots__ = ()

    exp, log, sqrt, rsqrt, sin, cos, tanh, sigmoid = called("exp log sqrt rsqrt sin cos tanh sigmoid")
    relu, abs, square, softmax, log_softmax = called("relu abs square softmax log_softmax")
    logsumexp, norm, masked_fill, pow = called("logsumexp norm masked_fill power")
    tril, triu, unsqueeze, gather, clamp = called("tril triu expand_dims gather clip")

    view, clone = Operators.reshape, NumPyHabits.copy  # neither is a view; the gradient passes through

    def permute(self: Any, *axes: Any) -> Tensor:
        """Permute the axes, as `transpose` with several arguments."""
        return self.transpose(one_or_many(axes))

    def expand(self: Any, *shape: Any) -> Tensor:
        """Broadcast to a shape, in which -1 keeps the size of an axis."""
        wanted = tuple(one_or_many(shape))
        own = (1,) * (len(wanted) - self.ndim) + self.shape
        sizes = [old if size == -1 else size for old, size in zip(own, wanted, strict=False)]
        return _ops.broadcast_to(self, sizes)

    def chunk(self: Any, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """Split into at most `chunks` parts along an axis, of which the last may be smaller."""
        size = self.shape[dim]
        if chunks < 1:
            raise ValueError(f"chunk: the number of chunks must be at least 1, not {chunks}")
        step = max(-(-size // chunks), 1)
        return _ops.split(self, list(range(step, size, step)), axis=dim)

    def contiguous(self: Any) -> Tensor:
        """Return the tensor itself: no op depends on the order of elements in memory."""
        return self

    def numel(self: Any) -> int:
        """Return the number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    float, double, half = _casts(np.float32), _casts(np.float64), _casts(np.float16)
    long, bool = _casts(np.int64), _casts(np.bool_)

    def type_as(self: Any, other: Any) -> Tensor:
        """Cast to the dtype of another tensor."""
        return self.astype(other.dtype)


#: What to write instead of PyTorch's other methods.
INSTEAD = {
    "add sub mul div": "the operators x + y, x - y, x * y, x / y", "matmul mm bmm": "x @ y",
    "eq ne lt le gt ge": "the comparisons x == y, x < y", "cpu": 'x.to("cpu")', "cuda": 'x.to("cuda")',
    "int type": "x.astype(dtype)", "index_select": "ops.take(x, index, axis)", "masked_select": "x[mask]",
    "expand_as": "ops.broadcast_to(x, y.shape)", "view_as reshape_as": "x.reshape(y.shape)",
    "dim": "x.ndim", "t": "x.T",
    "new_zeros new_ones new_full new_tensor": "ops.zeros(shape, dtype=x.dtype)", "unbind": "tuple(x)",
    "repeat_interleave": "x.repeat(n, axis)", "tile": "ops.tile(x, reps)", "nelement": "x.numel()",
    "split split_with_sizes": "ops.split(x, parts) with the number of equal parts or the list of the cuts' indices",
    "retain_grad": "x.register_hook(f)", "stride": "x.data.strides", "is_cuda": "x.device", "topk": "ops.topk(x, k)",
    "scatter scatter_add": "ops.setitem(x, index, value) or ops.scatter_add(x, index, values)",
    "amax": "x.max(axis)", "amin": "x.min(axis)", "gelu silu erf": "ops.gelu(x), ops.silu(x) or ops.erf(x)",
    "isnan isinf isfinite": "np.isnan(x.data), ...", "normal_ uniform_": "nn.init.normal_(x) or nn.init.uniform_(x)",
    "add_ sub_ mul_ div_ pow_ clamp_": "x += y, x -= y, ..., for a parameter under no_grad()",
    "zero_ fill_ copy_ masked_fill_ index_fill_ scatter_ scatter_add_": "x[...] = y or x[index] = y",
    "unsqueeze_ squeeze_ transpose_ t_ detach_": "the method without _, as in x = x.detach()",
}  # fmt: skip
for _names, _cure in INSTEAD.items():
    for _name in _names.split():
        setattr(TorchNames, _name, Missing(_name, _cure))
