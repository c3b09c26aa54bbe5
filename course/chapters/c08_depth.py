"""Chapter 8, the exercises: layer norm, its rule, the feed-forward network, and a whole layer."""

from typing import Any

import numpy as np

from ...autograd import Tensor, ops
from ...nn import Dropout, Linear
from ...nn.feed_forward import feed_forward as nn_feed_forward
from ...nn.transformer import TransformerEncoderLayer
from ..exercise import Wrong, need, normal


def probe_layer_norm(layer_norm: Any) -> dict[str, Any]:
    x, weight, bias = normal(8, (4, 4), (4,), (4,))
    one, zero = np.ones(4), np.zeros(4)
    return {
        "the row (1, 2, 3, 4) with weight 1 and bias 0": layer_norm(np.array([[1.0, 2, 3, 4]]), one, zero),
        "4 rows with weight 1 and bias 0": layer_norm(3 * x + 2, one, zero),
        "4 rows with weight and bias": layer_norm(3 * x + 2, weight, bias),
        "rows of small numbers, where eps counts": layer_norm(x / 300, weight, bias),
        "4 rows with eps=0.1": layer_norm(x, weight, bias, eps=0.1),
        "a row of equal numbers": layer_norm(np.full((1, 4), 7.0), weight, bias),
    }


def real_layer_norm(x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> np.ndarray:
    return ops.layer_norm(Tensor(x), Tensor(weight), Tensor(bias), eps).data


def probe_layer_norm_rule(layer_norm_rule: Any) -> dict[str, Any]:
    x, weight, g = normal(8, (5, 4), (4,), (5, 4))
    found: dict[str, Any] = {}
    for where, arguments in (
        ("with weight 1", (x, np.ones(4), g)),
        ("with weights", (x, weight, g)),
        ("for small x", (x / 300, weight, g)),
        ("with eps=0.1", (x, weight, g, 0.1)),
    ):
        gradients = need(layer_norm_rule(*arguments), (tuple, list), "layer_norm_rule(x, weight, g)")
        if len(gradients) != 3:
            raise Wrong(f"layer_norm_rule returned {len(gradients)} values, not the gradients of x, weight and bias.")
        names = ("bias", "weight", "x")
        found |= {f"the gradient of {name} {where}": one for name, one in zip(names, gradients[::-1], strict=True)}
    return found


def real_layer_norm_rule(x: Any, weight: Any, g: Any, eps: float = 1e-5) -> Any:
    x, weight, bias = (Tensor(array, requires_grad=True) for array in (x, weight, np.zeros_like(weight)))
    ops.layer_norm(x, weight, bias, eps).backward(g)
    return x.grad, weight.grad, bias.grad


def probe_feed_forward(feed_forward: Any) -> dict[str, Any]:
    x, w1, b1, w2, b2 = normal(8, (3, 4), (4, 4), (4,), (4, 4), (4,))
    return {
        "the output without biases": feed_forward(x, w1, 0 * b1, w2, 0 * b2),
        "the output with biases": feed_forward(x, w1, b1, w2, b2),
        "the output with 4 features, 8 inside": feed_forward(x, *normal(8, (8, 4), (8,), (4, 8), (4,))),
    }


def real_feed_forward(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> np.ndarray:
    up, back = (Linear(*weight.shape[::-1]).astype(np.float64) for weight in (w1, w2))
    up.load_state_dict({"weight": w1, "bias": b1})
    back.load_state_dict({"weight": w2, "bias": b2})
    return nn_feed_forward(Tensor(x), up, back, Dropout(0.0), "relu").data


def probe_block(block: Any) -> dict[str, Any]:
    shapes = {
        "self_attn.in_proj_weight": (24, 8), "self_attn.out_proj.weight": (8, 8), "linear1.weight": (16, 8),
        "linear1.bias": (16,), "linear2.weight": (8, 16), "linear2.bias": (8,), "norm1.weight": (8,),
        "norm1.bias": (8,), "norm2.weight": (8,), "norm2.bias": (8,),
    }  # fmt: skip
    weights = dict(zip(shapes, normal(8, *shapes.values()), strict=True))
    (x,) = normal(8, (5, 8))
    return {
        "the output for one word": block(x[:1] * 2, dict(weights), 2),
        "the output for 5 words": block(x + 1, dict(weights), 2),
    }


def real_block(x: Any, weights: Any, heads: int) -> np.ndarray:
    inner, d = weights["linear1.weight"].shape
    layer = TransformerEncoderLayer(d, heads, inner, 0.0, norm_first=True, bias="feed_forward").astype(np.float64)
    layer.load_state_dict(weights)
    return layer(Tensor(x[None])).data[0]
