"""Compares fused ops with the same function composed of small ops: values, first and second derivatives, rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Generator, Tensor, grad, ops


def softmax_composed(x: Tensor) -> Tensor:
    e = ops.exp(x - x.max(axis=-1, keepdims=True).detach())
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm_composed(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / ops.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * weight + bias


def rms_norm_composed(x: Tensor, weight: Tensor) -> Tensor:
    return x * ops.rsqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * weight


def cross_entropy_composed(x: Tensor) -> Tensor:
    target, real = np.array([0, 4, 2]), np.array([1.0, 1.0, 0.0], x.dtype)
    chosen = 0.9 * ops.log_softmax(x)[np.arange(3), target] + 0.1 * ops.log_softmax(x).mean(axis=-1)
    return -(chosen * real).sum() / 2


def gelu_composed(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + ops.erf(x / math.sqrt(2)))


def gelu_tanh_composed(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + ops.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


MASK = np.random.default_rng(5).random((2, 1, 5, 7)) < 0.7
MASK[0, 0, 2] = False


def attention_fused(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    return ops.attention(query, key, value, mask=MASK, causal=True, bias=bias, dropout=0.3, generator=Generator(3))


def attention_small(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
    # The fused op draws its mask over (batch, key, heads, query).
    keep, factor = Generator(3).keep_mask((2, 7, 2, 5), 0.3)
    keep = (keep.transpose(0, 2, 3, 1) * factor).astype(query.dtype)
    allowed = MASK & np.tri(5, 7, 2, dtype=bool)
    e = ops.where(allowed, ops.exp(query @ key.swapaxes(-1, -2) * query.shape[-1] ** -0.5 + bias), 0.0)
    total = e.sum(axis=-1, keepdims=True)
    return e / (total + (total == 0)) * keep @ value


def dropout_composed(x: Tensor) -> Tensor:
    keep, factor = Generator(4).keep_mask(x.shape, 0.4)
    return x * (keep * factor).astype(x.dtype)


def residual_layer_norm_fused(used: int) -> Any:
    """One of the two outputs alone, the other not used."""

    def function(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return ops.residual_layer_norm(x, residual, weight, bias, 0.4, both=True, generator=Generator(4))[used]

    return function


def residual_layer_norm_composed(used: int) -> Any:
    def function(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        total = residual + dropout_composed(x)
        return (layer_norm_composed(total, weight, bias), total + 0.0 * (weight + bias))[used]

    return function


PAIRS: dict[str, tuple[Any, Any, tuple[tuple[int, ...], ...]]] = {
    "softmax": (ops.softmax, softmax_composed, ((4, 7),)),
    "log_softmax": (ops.log_softmax, lambda x: ops.log(softmax_composed(x)), ((4, 7),)),
    "logsumexp": (
        lambda x: ops.logsumexp(x, axis=-1),
        lambda x: ops.log(ops.exp(x).sum(axis=-1)),
        ((4, 7),),
    ),
    "layer_norm": (ops.layer_norm, layer_norm_composed, ((4, 7), (7,), (7,))),
    "residual_layer_norm": (
        residual_layer_norm_fused(0),
        residual_layer_norm_composed(0),
        ((4, 7), (4, 7), (7,), (7,)),
    ),
    "residual_layer_norm, sum": (
        residual_layer_norm_fused(1),
        residual_layer_norm_composed(1),
        ((4, 7), (4, 7), (7,), (7,)),
    ),
    "rms_norm": (ops.rms_norm, rms_norm_composed, ((4, 7), (7,))),
    "cross_entropy": (
        lambda x: ops.cross_entropy(x, np.array([0, 4, -100]), label_smoothing=0.1),
        cross_entropy_composed,
        ((3, 5),),
    ),
    "linear": (
        ops.linear,
        lambda x, w, b: ops.einsum("...i,oi->...o", x, w) + b,
        ((2, 3, 5), (4, 5), (4,)),
    ),
    "gelu": (ops.gelu, gelu_composed, ((20,),)),
    "gelu tanh": (lambda x: ops.gelu(x, "tanh"), gelu_tanh_composed, ((20,),)),
    "silu": (ops.silu, lambda x: x / (1 + ops.exp(-x)), ((20,),)),
    "mish": (ops.mish, lambda x: x * ops.tanh(ops.log(1 + ops.exp(x))), ((20,),)),
    "var": (lambda x: ops.var(x, axis=0), lambda x: ((x - x.mean(axis=0)) ** 2).mean(axis=0), ((5, 3),)),
    "std": (lambda x: ops.std(x, axis=0), lambda x: ops.sqrt(((x - x.mean(axis=0)) ** 2).mean(axis=0)), ((5, 3),)),
    "norm": (lambda x: ops.norm(x, axis=0), lambda x: ops.sqrt((x * x).sum(axis=0)), ((5, 3),)),
    "dropout": (lambda x: ops.dropout(x, 0.4, generator=Generator(4)), dropout_composed, ((20,),)),
    "attention": (attention_fused, attention_small, ((2, 2, 5, 3), (2, 2, 7, 3), (2, 2, 7, 4), (1, 2, 5, 7))),
}


def arrays_for(name: str, dtype: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(len(name))
    return [rng.standard_normal(shape).astype(dtype) for shape in PAIRS[name][2]]


def derivatives(function: Any, arrays: list[np.ndarray]) -> tuple[Any, list[Any], list[Any]]:
    """The output; its gradients for a random output gradient, which must be the same when recorded; and the gradients
    of a random contraction of these."""
    rng = np.random.default_rng(9)
    leaves = [Tensor(a, requires_grad=True) for a in arrays]
    out = function(*leaves)
    g = Tensor(np.asarray(rng.standard_normal(out.shape), dtype=out.dtype), requires_grad=True)
    plain = grad(out, leaves, g, retain_graph=True)
    first = grad(out, leaves, g, create_graph=True)
    for a, b in zip(plain, first, strict=True):
        np.testing.assert_allclose(
            a.data, b.data, rtol=3000 * np.finfo(out.dtype).eps, atol=300 * np.finfo(out.dtype).eps
        )
    total = sum(
        ((d * rng.standard_normal(d.shape).astype(d.dtype)).sum() for d in first), Tensor(np.zeros((), out.dtype))
    )
    return out.data, [d.data for d in plain], [d.data for d in grad(total, [*leaves, g])]


@pytest.mark.parametrize("name", PAIRS)
def test_fused_equals_composed_to_second_order(name: str) -> None:
    fused, composed, _ = PAIRS[name]
    ours, truth = derivatives(fused, arrays_for(name, np.float64)), derivatives(composed, arrays_for(name, np.float64))
    np.testing.assert_allclose(ours[0], truth[0], rtol=1e-11, atol=1e-13)
    for order in (1, 2):
        for a, b in zip(ours[order], truth[order], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", PAIRS)
def test_fused_rounds_no_worse_than_composed(name: str) -> None:
    """In float32 the error is at most twice that of the composed function in the output, three times in gradients."""
    fused, composed, _ = PAIRS[name]
    truth = derivatives(composed, [a.astype(np.float64) for a in arrays_for(name, np.float32)])
    ours, plain = (derivatives(f, arrays_for(name, np.float32)) for f in (fused, composed))

    def error(found: Any, true: Any) -> float:
        return float(np.abs(found - true).max() / max(np.abs(true).max(), 1e-30))

    # A few units in the last place are tolerated in any case.
    unit = 4 * float(np.finfo(np.float32).eps)
    assert error(ours[0], truth[0]) <= 2 * error(plain[0], truth[0]) + unit
    for a, b, true in zip(ours[1], plain[1], truth[1], strict=True):
        assert error(a, true) <= 3 * error(b, true) + unit


def test_one_tensor_as_all_arguments_of_a_fused_op() -> None:
    """attention(x, x, x) and inputs computed from one another: each argument contributes once."""
    rng = np.random.default_rng(1)
    x = Tensor(rng.standard_normal((1, 1, 3, 2)), requires_grad=True)
    g = rng.standard_normal((1, 1, 3, 2))
    for second in (x, x * 2):
        plain = grad(ops.attention(x, second, x), x, g, retain_graph=True)
        recorded = grad(ops.attention(x, second, x), x, g, create_graph=True)
        np.testing.assert_allclose(recorded.data, plain.data, rtol=1e-12)
