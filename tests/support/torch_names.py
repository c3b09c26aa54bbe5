"""Ops under PyTorch's names and signatures, called through handloom's; only names and conventions are translated.

Conventions that differ in general: `dim` and `keepdim`, the correction of var and std, and that PyTorch takes a 0-d
tensor for a vector of one element, so that it accepts an axis there.
"""

# ruff: noqa: A006, E501  (a table: one op a line, in PyTorch's argument names)

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from handloom.autograd import Tensor, ops
from handloom.autograd.ops.indexing import along_axis


def axes(x: Any, dim: Any) -> Any:
    """`dim` as an axis: all axes for an empty list, none for a 0-d x."""
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return None
    if x.ndim == 0:
        np.empty(1).sum(axis=tuple(dim) if isinstance(dim, list | tuple) else dim)  # raises for dim=1
        return None
    return tuple(dim) if isinstance(dim, list | tuple) else dim


def reduced(op: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim=None, keepdim=False, **kw: op(x, axis=axes(x, dim), keepdims=keepdim and x.ndim > 0, **kw)


def as_vector(op: Callable[..., Any]) -> Callable[..., Any]:
    """For ops along one axis: a 0-d x is computed as a vector of one element."""

    def call(x: Any, dim: int = -1, *args: Any, **kwargs: Any) -> Any:
        if x.ndim:
            return op(x, dim, *args, **kwargs)
        return op(ops.reshape(x, (1,)), dim, *args, **kwargs).reshape(())

    return call


def spread_of(op: Callable[..., Any]) -> Callable[..., Any]:
    def call(
        x: Any, dim: Any = None, *args: Any, unbiased: bool = True, correction: Any = None, keepdim: bool = False
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        elif args:
            unbiased, keepdim = (*args, keepdim)[:2]
        ddof = int(unbiased) if correction is None else correction
        return op(x, axis=axes(x, dim), keepdims=keepdim and x.ndim > 0, ddof=ddof)

    return call


def flat(shape: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], list | tuple) else tuple(shape)


def full_index(x: Any, dim: int, index: np.ndarray) -> Any:
    """gather's and scatter's `index` for all axes; along the others it may be shorter than x, and starts at 0."""
    shape = tuple(x.shape[a] if a == dim % x.ndim else size for a, size in enumerate(index.shape))
    if any(size > full for a, (size, full) in enumerate(zip(index.shape, x.shape, strict=True)) if a != dim % x.ndim):
        raise ValueError(f"index {index.shape} is larger than the tensor {x.shape}")
    return along_axis("gather", shape, index, dim)


def gather(x: Any, dim: int, index: Any) -> Any:
    if x.ndim == 0 or index.ndim == 0:
        return gather(ops.reshape(x, (-1,)), dim, index.reshape(-1)).reshape(index.shape)
    return ops.getitem(x, full_index(x, dim, index))


def scatter(op: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any, dim: int, index: Any, src: Any) -> Any:
        if x.ndim == 0:
            return call(ops.reshape(x, (1,)), dim, index.reshape(-1), ops.reshape(src, (-1,))).reshape(())
        if index.size == 0:
            return x * 1
        part = tuple(slice(size) for size in index.shape)
        return op(x, full_index(x, dim, index), src[part] if isinstance(src, Tensor) else src)

    return call


def index_along(x: Any, dim: int, index: Any) -> Any:
    return (*(slice(None),) * (dim % max(x.ndim, 1)), np.reshape(index, -1))


def index_select(x: Any, dim: int, index: Any) -> Any:
    if x.ndim == 0:
        return ops.take(ops.reshape(x, (1,)), np.reshape(index, -1), axis=dim).reshape(())
    return ops.take(x, np.reshape(index, -1), axis=dim)


def index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Any:
    if x.ndim == 0:
        return index_add(ops.reshape(x, (1,)), dim, index, ops.reshape(source, (-1,)), alpha=alpha).reshape(())
    return ops.scatter_add(x, index_along(x, dim, index), source * alpha)


def select(x: Any, dim: int, index: int) -> Any:
    return x[(*(slice(None),) * (dim % x.ndim), index)]


def chunks(x: Any, sizes: list[int], dim: int) -> Any:
    return ops.split(x, np.cumsum(sizes)[:-1].tolist(), axis=dim)


def split(x: Any, size: Any, dim: int = 0) -> Any:
    if isinstance(size, int):
        total = x.shape[dim]
        size = [min(size, total - start) for start in range(0, total, size)] or [0]
    return chunks(x, list(size), dim)


def chunk(x: Any, count: int, dim: int = 0) -> Any:
    return split(x, max(math.ceil(x.shape[dim] / count), 1), dim)


def unbind(x: Any, dim: int = 0) -> Any:
    return tuple(select(x, dim, i) for i in range(x.shape[dim]))


def as_mask(mask: Any) -> Any:
    return mask.data if isinstance(mask, Tensor) else mask


def norm_of(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    axis = axes(x, dim)
    if axis is None:
        out = ops.norm(ops.reshape(x, (-1,)), ord=ord, axis=0)
        return out.reshape((1,) * x.ndim) if keepdim else out
    if isinstance(axis, tuple) and len(axis) == 1:
        axis = axis[0]
    if isinstance(axis, tuple):  # the norm of all elements in several axes: moved to the end and flattened
        kept = [a for a in range(x.ndim) if a not in {b % x.ndim for b in axis}]
        flat_x = ops.reshape(
            ops.transpose(x, (*kept, *axis)), (*(x.shape[a] for a in kept), math.prod(x.shape[a] for a in axis))
        )
        out = ops.norm(flat_x, ord=ord, axis=-1)
        return out.reshape(tuple(x.shape[a] if a in kept else 1 for a in range(x.ndim))) if keepdim else out
    return ops.norm(x, ord=ord, axis=axis, keepdims=keepdim)


def softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    return ops.where(x.data * beta > threshold, x, ops.softplus(x * beta) / beta)


def layer_norm(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    if tuple(x.shape[x.ndim - len(normalized_shape) :]) != tuple(normalized_shape):
        raise ValueError(f"normalized_shape {normalized_shape} of {x.shape}")
    size = math.prod(normalized_shape)
    rows = ops.reshape(x, (*x.shape[: x.ndim - len(normalized_shape)], size))
    weight = np.ones(size) if weight is None else ops.reshape(weight, (size,))
    bias = np.zeros(size) if bias is None else ops.reshape(bias, (size,))
    return ops.layer_norm(rows, weight, bias, eps).reshape(x.shape)


def rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    if not normalized_shape or tuple(x.shape[x.ndim - len(normalized_shape) :]) != tuple(normalized_shape):
        raise ValueError(f"normalized_shape {normalized_shape} of {x.shape}")
    size = math.prod(normalized_shape)
    rows = ops.reshape(x, (*x.shape[: x.ndim - len(normalized_shape)], size))
    eps = float(np.finfo(x.dtype).eps) if eps is None else eps
    return ops.rms_norm(rows, None if weight is None else ops.reshape(weight, (size,)), eps).reshape(x.shape)


def classes_last(x: Any) -> Any:
    return ops.moveaxis(x, 1, -1) if x.ndim > 2 else x


def cross_entropy(x: Any, target: Any, weight: Any = None, **kwargs: Any) -> Any:
    if isinstance(target, Tensor):
        target = classes_last(target)
    return ops.cross_entropy(classes_last(x), target, weight=as_mask(weight), **kwargs)


def attention(
    q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, **kw: Any
) -> Any:
    leading = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    four = (1,) * (2 - len(leading)) + leading
    q, k, v = (ops.reshape(ops.broadcast_to(x, leading + x.shape[-2:]), four + x.shape[-2:]) for x in (q, k, v))
    if is_causal:  # PyTorch aligns the diagonal at the beginning, handloom at the end
        attn_mask = np.tril(np.ones((q.shape[-2], k.shape[-2]), dtype=bool))
    if attn_mask is not None:
        attn_mask = ops.reshape(attn_mask, (1,) * (4 - attn_mask.ndim) + attn_mask.shape)
    kind = "mask" if attn_mask is None or attn_mask.dtype == bool else "bias"
    out = ops.attention(q, k, v, **{kind: attn_mask}, dropout=dropout_p, **kw)
    return ops.reshape(out, leading + out.shape[-2:])


def pad(x: Any, widths: Any, mode: str = "constant", value: float | None = None) -> Any:
    pairs = [(widths[i], widths[i + 1]) for i in range(0, len(widths), 2)][::-1]
    full = ((0, 0),) * (x.ndim - len(pairs)) + tuple(pairs)
    cut = tuple(slice(max(-b, 0), size - max(-a, 0)) for (b, a), size in zip(full, x.shape, strict=True))
    x = ops.getitem(x, cut)
    full = tuple((max(b, 0), max(a, 0)) for b, a in full)
    mode = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    return ops.pad(x, full, mode, constant_values=value or 0)


def expand(x: Any, *shape: Any) -> Any:
    shape = flat(shape)
    sizes = (1,) * (len(shape) - x.ndim) + x.shape
    return ops.broadcast_to(x, tuple(size if s == -1 else s for s, size in zip(shape, sizes, strict=True)))


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if not x.ndim:
        return ops.reshape(x, (1,))
    start, end = start_dim % x.ndim, end_dim % x.ndim
    return ops.reshape(x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


def unflatten(x: Any, dim: int, sizes: Any) -> Any:
    return ops.reshape(x, (*x.shape[: dim % x.ndim], *sizes, *x.shape[dim % x.ndim + 1 :]))


def squeeze(x: Any, dim: Any = None) -> Any:
    if dim is None or x.ndim == 0:
        return ops.squeeze(x)
    dims = tuple(dim) if isinstance(dim, list | tuple) else (dim,)
    return ops.squeeze(x, axis=tuple(d for d in dims if x.shape[d] == 1))


def repeat(x: Any, *reps: Any) -> Any:
    if len(flat(reps)) < x.ndim:
        raise ValueError("fewer repeats than axes")
    return ops.tile(x, flat(reps))


def repeat_interleave(x: Any, repeats: Any, dim: Any = None, output_size: Any = None) -> Any:
    if isinstance(repeats, np.ndarray) and repeats.size == 1:
        repeats = int(repeats.reshape(()))
    if x.ndim == 0:
        x = ops.reshape(x, (1,))
    return ops.repeat(x, repeats, axis=dim)


def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if x.ndim == 0:
        return tuple(t.reshape(()) for t in topk(ops.reshape(x, (1,)), k, dim, largest))
    return ops.topk(x, k, dim, largest)


def sort(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    if x.ndim == 0:
        return x * 1, np.zeros((), int)
    return ops.topk(x, x.shape[dim], dim, largest=True) if descending else (ops.sort(x, dim), ops.argsort(x, dim))


def take_along(x: Any, index: Any, dim: Any = None) -> Any:
    return ops.take_along_axis(x, index.reshape(-1) if dim is None else index, dim)


def log_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    return as_vector(ops.log_softmax)(x if dtype is None else ops.astype(x, dtype), dim)


def softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    return as_vector(ops.softmax)(x if dtype is None else ops.astype(x, dtype), dim)


def extreme(pairwise: Any, reduction: Any, order: Any) -> Callable[..., Any]:
    """max and min: of two tensors, of all elements, or with their indices along an axis."""

    def call(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, Tensor) or not isinstance(x, Tensor):
            return pairwise(x, dim)
        if dim is None:
            return reduction(x)
        if x.ndim == 0:
            return x * 1, np.zeros((), int)
        chosen = order(x, axis=dim, keepdims=True).data
        value = ops.take_along_axis(x, chosen, dim)
        return (value, chosen) if keepdim else (ops.squeeze(value, dim), chosen.squeeze(dim))

    return call


def roll(x: Any, shifts: Any, dims: Any = None) -> Any:
    if x.ndim == 0 and dims is None:
        return x * 1
    shifts = tuple(shifts) if isinstance(shifts, list | tuple) else shifts
    dims = tuple(dims) if isinstance(dims, list | tuple) else dims
    return ops.roll(
        x,
        shifts[0] if isinstance(shifts, tuple) and len(shifts) == 1 and dims in (None, ()) else shifts,
        axis=dims or (0 if dims == 0 else None),
    )


def at_least_1d(xs: Any) -> list[Any]:
    return [x if x.ndim else ops.reshape(x, (1,)) for x in xs]


def rot90(x: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    if len(dims) != 2 or dims[0] % x.ndim == dims[1] % x.ndim:
        raise ValueError(f"a plane has two axes, not {dims}")
    for _ in range(k % 4):
        x = ops.swapaxes(ops.flip(x, axis=dims[1]), *dims)
    return x


def diff(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    if n < 0:
        raise ValueError(f"differences of order {n}")
    if n == 0:
        return x * 1
    x = ops.concatenate([part for part in (prepend, x, append) if part is not None], axis=dim)
    before = (slice(None),) * (dim % x.ndim)
    for _ in range(n):
        x = x[(*before, slice(1, None))] - x[(*before, slice(None, -1))]
    return x


def kron(x: Any, y: Any) -> tuple[Any, tuple[int, ...]]:
    ndim = max(x.ndim, y.ndim)
    x, y = (ops.reshape(t, (1,) * (ndim - t.ndim) + t.shape) for t in (x, y))
    left = ops.reshape(x, tuple(s for side in x.shape for s in (side, 1)))
    right = ops.reshape(y, tuple(s for side in y.shape for s in (1, side)))
    return left * right, tuple(a * b for a, b in zip(x.shape, y.shape, strict=True))


def matrix_transposed(x: Any) -> Any:
    return x if x.ndim < 2 else ops.transpose(x)


def scaled(x: Any, alpha: Any) -> Any:
    return x if alpha == 1 else x * alpha


def addmm(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    if beta == 0:
        return expand(ops.zeros_like(x), ops.matmul(a, b).shape) * 1 + scaled(ops.matmul(a, b), alpha)
    return scaled(x, beta) + scaled(ops.matmul(a, b), alpha)


def as_reduction(op: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, target, reduction="mean", **kw: op(
        x, target, reduction=reduction, **{k: as_mask(v) for k, v in kw.items()}
    )


unary = {
    "abs": ops.abs, "acos": ops.arccos, "acosh": ops.arccosh, "asin": ops.arcsin, "asinh": ops.arcsinh, "atan": ops.arctan,
    "atanh": ops.arctanh, "ceil": ops.ceil, "cos": ops.cos, "cosh": ops.cosh, "erf": ops.erf, "exp": ops.exp, "exp2": ops.exp2,
    "expm1": ops.expm1, "floor": ops.floor, "log": ops.log, "log10": ops.log10, "log1p": ops.log1p, "log2": ops.log2,
    "neg": ops.negative, "reciprocal": ops.reciprocal, "round": ops.rint, "rsqrt": ops.rsqrt, "sigmoid": ops.sigmoid,
    "sign": ops.sign, "sgn": ops.sign, "sin": ops.sin, "sinh": ops.sinh, "sqrt": ops.sqrt, "square": ops.square, "tan": ops.tan,
    "tanh": ops.tanh, "trunc": ops.trunc, "ravel": ops.ravel, "clone": lambda x, **kw: x * 1, "positive": lambda x: +x,
    "nn.functional.silu": lambda x, inplace=False: ops.silu(x), "nn.functional.mish": lambda x, inplace=False: ops.mish(x),
    "nn.functional.softsign": ops.softsign, "nn.functional.logsigmoid": ops.log_sigmoid,
    "nn.functional.relu": lambda x, inplace=False: ops.relu(x), "nn.functional.selu": lambda x, inplace=False: ops.selu(x),
}  # fmt: skip

TORCH_OPS: dict[str, Callable[..., Any]] = {
    "frac": lambda x: x - ops.trunc(x),
    "deg2rad": lambda x: x * (math.pi / 180),
    "rad2deg": lambda x: x * (180 / math.pi),
    "nn.functional.tanhshrink": lambda x: x - ops.tanh(x),
    "nn.functional.relu6": lambda x, inplace=False: ops.clip(x, 0, 6),
    "nn.functional.hardtanh": lambda x, min_val=-1.0, max_val=1.0, inplace=False: ops.clip(x, min_val, max_val),
    "nn.functional.celu": lambda x, alpha=1.0, inplace=False: ops.elu(x / alpha) * alpha,
    "hstack": lambda xs: ops.concatenate(at_least_1d(xs), axis=0 if max(x.ndim for x in xs) < 2 else 1),
    "vstack": lambda xs: ops.concatenate([x if x.ndim > 1 else ops.reshape(x, (1, -1)) for x in xs], axis=0),
    "column_stack": lambda xs: ops.concatenate([x if x.ndim > 1 else ops.reshape(x, (-1, 1)) for x in xs], axis=1),
    "rot90": rot90,
    "diff": diff,
    "kron": lambda x, y: ops.reshape(*kron(x, y)),
    "dist": lambda x, y, p=2: norm_of(x - y, p),
    **unary,
    "add": lambda x, y, alpha=1: ops.add(x, scaled(y, alpha)),
    "sub": lambda x, y, alpha=1: ops.subtract(x, scaled(y, alpha)),
    "rsub": lambda x, y, alpha=1: ops.subtract(y, scaled(x, alpha)),
    "mul": ops.multiply,
    "div.no_rounding_mode": ops.divide,
    "true_divide": ops.divide,
    "pow": ops.power,
    "float_power": ops.power,
    "__radd__": lambda x, y: y + x,
    "__rmul__": lambda x, y: y * x,
    "__rsub__": lambda x, y: y - x,
    "__rdiv__": lambda x, y: y / x,
    "__rpow__": lambda x, y: y**x,
    "__rmod__": lambda x, y: y % x,
    "__rmatmul__": lambda x, y: y @ x,
    "remainder": ops.remainder,
    "atan2": ops.arctan2,
    "hypot": ops.hypot,
    "logaddexp": ops.logaddexp,
    "maximum": ops.maximum,
    "minimum": ops.minimum,
    "max.binary": extreme(ops.maximum, ops.max, ops.argmax),
    "min.binary": extreme(ops.minimum, ops.min, ops.argmin),
    "max.reduction_no_dim": extreme(ops.maximum, ops.max, ops.argmax),
    "min.reduction_no_dim": extreme(ops.minimum, ops.min, ops.argmin),
    "max.reduction_with_dim": extreme(ops.maximum, ops.max, ops.argmax),
    "min.reduction_with_dim": extreme(ops.minimum, ops.min, ops.argmin),
    "clamp": lambda x, min=None, max=None: ops.clip(x, min, max),
    "clamp_min": lambda x, min: ops.clip(x, min=min),
    "clamp_max": lambda x, max: ops.clip(x, max=max),
    "where": lambda x, condition, y: ops.where(condition, x, y),
    "masked_fill": ops.masked_fill,
    "lerp": lambda x, y, weight: x + (y - x) * weight,
    "addcmul": lambda x, a, b, value=1: x + a * b * value,
    "addcdiv": lambda x, a, b, value=1: x + a / b * value,
    "sum": lambda x, dim=None, keepdim=False, dtype=None: reduced(ops.sum)(x, dim, keepdim),
    "mean": lambda x, dim=None, keepdim=False, dtype=None: reduced(ops.mean)(x, dim, keepdim),
    "prod": lambda x, dim=None, keepdim=False, dtype=None: reduced(ops.prod)(x, dim, keepdim),
    "amax": reduced(ops.max),
    "amin": reduced(ops.min),
    "argmax": reduced(ops.argmax),
    "argmin": reduced(ops.argmin),
    "logsumexp": reduced(ops.logsumexp),
    "var": spread_of(ops.var),
    "var.unbiased": spread_of(ops.var),
    "std": spread_of(ops.std),
    "std.unbiased": spread_of(ops.std),
    "var_mean": lambda x, *a, **kw: (spread_of(ops.var)(x, *a, **kw), spread_of(lambda x, ddof, **k: ops.mean(x, **k))(x, *a, **kw)),
    "std_mean": lambda x, *a, **kw: (spread_of(ops.std)(x, *a, **kw), spread_of(lambda x, ddof, **k: ops.mean(x, **k))(x, *a, **kw)),
    "linalg.vector_norm": norm_of,
    "norm.fro": lambda x, p=None, dim=None, keepdim=False: norm_of(x, 2, dim, keepdim),
    "norm.inf": lambda x, p, dim=None, keepdim=False: norm_of(x, p, dim, keepdim),
    "cumsum": lambda x, dim, dtype=None: as_vector(ops.cumsum)(x, dim),
    "reshape": lambda x, *shape: ops.reshape(x, flat(shape)),
    "view": lambda x, *shape: ops.reshape(x, flat(shape)),
    "view_copy": lambda x, *shape: ops.reshape(x, flat(shape)),
    "reshape_as": lambda x, y: ops.reshape(x, y.shape),
    "view_as": lambda x, y: ops.reshape(x, y.shape),
    "flatten": flatten,
    "unflatten": unflatten,
    "permute": lambda x, *dims: ops.transpose(x, flat(dims)),
    "permute_copy": lambda x, *dims: ops.transpose(x, flat(dims)),
    "transpose": lambda x, a, b: ops.swapaxes(x, a, b) if x.ndim else x * 1,
    "transpose_copy": lambda x, a, b: ops.swapaxes(x, a, b) if x.ndim else x * 1,
    "T": matrix_transposed,
    "mT": lambda x: x.mT,
    "movedim": lambda x, source, destination: ops.moveaxis(x, *(tuple(a) if isinstance(a, list) else a for a in (source, destination))) if x.ndim else x * 1,
    "unsqueeze": lambda x, dim: ops.expand_dims(x, dim),
    "unsqueeze_copy": lambda x, dim: ops.expand_dims(x, dim),
    "squeeze": squeeze,
    "squeeze.multiple": squeeze,
    "squeeze_copy": squeeze,
    "expand": expand,
    "expand_copy": expand,
    "expand_as": lambda x, y: ops.broadcast_to(x, y.shape),
    "broadcast_to": lambda x, shape: expand(x, shape),
    "cat": lambda xs, dim=0: ops.concatenate([x for x in xs if getattr(x, "shape", ()) != (0,)] or xs, axis=dim),
    "stack": lambda xs, dim=0: ops.stack(xs, axis=dim),
    "split": split,
    "split.list_args": split,
    "split_with_sizes": split,
    "split_with_sizes_copy": split,
    "unsafe_split": split,
    "chunk": chunk,
    "unsafe_chunk": chunk,
    "unbind": unbind,
    "unbind_copy": unbind,
    "select": select,
    "flip": lambda x, dims: ops.flip(x, axis=tuple(dims)),
    "fliplr": lambda x: ops.flip(x, axis=1),
    "flipud": lambda x: ops.flip(x, axis=0),
    "roll": roll,
    "tile": lambda x, dims: ops.tile(x, tuple(dims)),
    "repeat": repeat,
    "repeat_interleave": repeat_interleave,
    "diagonal": lambda x, offset=0, dim1=0, dim2=1: ops.diagonal(x, offset, dim1, dim2),
    "diagonal_copy": lambda x, offset=0, dim1=0, dim2=1: ops.diagonal(x, offset, dim1, dim2),
    "linalg.diagonal": lambda x, offset=0, dim1=-2, dim2=-1: ops.diagonal(x, offset, dim1, dim2),
    "trace": ops.trace,
    "tril": lambda x, diagonal=0: ops.tril(x, diagonal),
    "triu": lambda x, diagonal=0: ops.triu(x, diagonal),
    "nn.functional.pad.constant": pad,
    "nn.functional.pad.reflect": pad,
    "nn.functional.pad.replicate": pad,
    "nn.functional.pad.circular": pad,
    "constant_pad_nd": lambda x, widths, value=0: pad(x, widths, "constant", value),
    "__getitem__": lambda x, index: ops.getitem(x, index),
    "index_put": lambda x, index, values, accumulate=False: (ops.scatter_add if accumulate else ops.setitem)(x, tuple(index), values),
    "gather": gather,
    "scatter_add": scatter(ops.scatter_add),
    "index_select": index_select,
    "index_add": index_add,
    "take": lambda x, index: ops.take(x, index),
    "take_along_dim": take_along,
    "masked_select": lambda x, mask: ops.getitem(ops.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape)), np.broadcast_to(mask, np.broadcast_shapes(x.shape, mask.shape))),
    "sort": sort,
    "msort": lambda x: ops.sort(x, 0) if x.ndim else x * 1,
    "argsort": lambda x, dim=-1, descending=False, stable=False: sort(x, dim, descending)[1],
    "topk": topk,
    "matmul": ops.matmul,
    "mm": ops.matmul,
    "bmm": ops.matmul,
    "mv": ops.matmul,
    "dot": ops.dot,
    "vdot": ops.dot,
    "linalg.vecdot": lambda x, y, dim=-1: ops.sum(x * y, axis=dim),
    "inner": ops.inner,
    "outer": ops.outer,
    "addmm": addmm,
    "addmm.decomposed": addmm,
    "addmv": addmm,
    "baddbmm": addmm,
    "addr": lambda x, a, b, beta=1, alpha=1: scaled(x, beta) + scaled(ops.outer(a, b), alpha),
    "tensordot": lambda x, y, dims=2: ops.tensordot(x, y, axes=dims),
    "einsum": lambda operands, equation: ops.einsum(equation, *operands),
    "softmax": softmax,
    "softmax.with_dtype": softmax,
    "log_softmax": log_softmax,
    "log_softmax.with_dtype": log_softmax,
    "nn.functional.softmin": lambda x, dim, dtype=None: softmax(-x, dim, dtype),
    "nn.functional.softplus": softplus,
    "nn.functional.leaky_relu": lambda x, negative_slope=0.01, inplace=False: ops.leaky_relu(x, negative_slope),
    "nn.functional.elu": lambda x, alpha=1.0, inplace=False: ops.elu(x, alpha),
    "nn.functional.gelu": lambda x, approximate="none": ops.gelu(x, approximate),
    "nn.functional.glu": lambda x, dim=-1: ops.glu(x, dim),
    "nn.functional.layer_norm": layer_norm,
    "nn.functional.rms_norm": rms_norm,
    "nn.functional.linear": ops.linear,
    "nn.functional.embedding": lambda weight, ids, padding_idx=None, **kw: ops.embedding(ids, weight, padding_id=None if padding_idx is None else padding_idx % weight.shape[0]),
    "nn.functional.cross_entropy": cross_entropy,
    "nn.functional.mse_loss": as_reduction(ops.mse_loss),
    "nn.functional.l1_loss": as_reduction(ops.l1_loss),
    "nn.functional.binary_cross_entropy": lambda x, target, weight=None, reduction="mean": as_reduction(ops.binary_cross_entropy)(x, target, reduction, weight=weight),
    "nn.functional.binary_cross_entropy_with_logits": lambda x, target, weight=None, reduction="mean", pos_weight=None: as_reduction(ops.binary_cross_entropy_with_logits)(x, target, reduction, weight=weight, pos_weight=pos_weight),
    "nn.functional.dropout": lambda x, p=0.5, training=True, inplace=False: ops.dropout(x, p, training=training),
    "nn.functional.scaled_dot_product_attention": attention,
}  # fmt: skip
