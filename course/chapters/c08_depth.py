"""Chapter 8, the exercises: layer norm, its rule, the feed-forward network, and a whole layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import Tensor, ops
from ...nn import Dropout, Linear
from ...nn.feed_forward import feed_forward as nn_feed_forward
from ...nn.transformer import TransformerEncoderLayer
from ..exercise import Exercise, Wrong, need
from .c08_depth_solution import block, feed_forward, layer_norm, layer_norm_rule, self_attention


def numbers(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(8)
    return [rng.standard_normal(shape) for shape in shapes]


# -- layer_norm --------------------------------------------------------------------------------------------------------


def probe_layer_norm(layer_norm: Any) -> dict[str, Any]:
    x, weight, bias = numbers((4, 4), (4,), (4,))
    one, zero = np.ones(4), np.zeros(4)
    return {
        "the row (1, 2, 3, 4) with weight 1 and bias 0": layer_norm(np.array([[1.0, 2, 3, 4]]), one, zero),
        "4 rows with weight 1 and bias 0": layer_norm(3 * x + 2, one, zero),
        "4 rows with weight and bias": layer_norm(3 * x + 2, weight, bias),
        "rows of small numbers, where eps counts": layer_norm(x / 300, weight, bias),
        "a row of equal numbers": layer_norm(np.full((1, 4), 7.0), weight, bias),
    }


def real_layer_norm(x: Any, weight: Any, bias: Any, eps: float = 1e-5) -> np.ndarray:
    return ops.layer_norm(Tensor(x), Tensor(weight), Tensor(bias), eps).data


LAYER_NORM = Exercise(
    layer_norm,
    probe_layer_norm,
    real_layer_norm,
    source="autograd.ops.normalization.LayerNorm.forward",
    hints=(
        "Which mean is subtracted: the mean of all features of one word, or the mean of one feature over all words?",
        "The row 1, 2, 3, 4 has the mean 2.5 and the variance 1.25. It becomes -1.34, -0.45, 0.45, 1.34.",
        "centred = x - x.mean(axis=1, keepdims=True); variance = (centred * centred).mean(axis=1, keepdims=True); "
        "centred / np.sqrt(variance + eps) * weight + bias",
    ),
    changes="""
        Mean and variance are taken over the words (axis 0). Each word has its own mean and variance: axis=1.
        - axis=1
        + axis=0
        You take one mean for the whole array. Each row has its own mean: axis=1, keepdims=True.
        - axis=1, keepdims=True
        +
        The sum of squares is divided by n - 1 here. The variance is the mean of the squares: divide by n.
        - (centred * centred).mean(axis=1, keepdims=True)
        + x.var(axis=1, keepdims=True, ddof=1)
        eps is added to the standard deviation. It should be added to the variance, inside the root: for small numbers
        this makes a difference.
        - np.sqrt(variance + eps)
        + (np.sqrt(variance) + eps)
        eps is missing: a row of equal numbers has the variance 0, and 0 / 0 is NaN.
        - variance + eps
        + variance
        You divide by the variance. Divide by its square root, the standard deviation.
        - np.sqrt(variance + eps)
        + (variance + eps)
        Mean and variance have the shape (length,), which NumPy lines up with the columns (chapter 2): keepdims=True
        keeps them as a column.
        - x.mean(axis=1, keepdims=True)
        + x.mean(axis=1)
        - (centred * centred).mean(axis=1, keepdims=True)
        + x.var(axis=1)
        The mean is not subtracted. (This is RMSNorm, which many newer models use.)
        - x - x.mean(axis=1, keepdims=True)
        + x
        This is right so far, but the result must still be multiplied by weight, and bias must be added.
        - * weight + bias
        +
    """,
)


@LAYER_NORM.right
def row_by_row(x, weight, bias, eps=1e-5):
    rows = [(row - row.mean()) * (row.var() + eps) ** -0.5 for row in x]
    return np.array(rows) * weight + bias


# -- layer_norm_rule ---------------------------------------------------------------------------------------------------


def probe_layer_norm_rule(layer_norm_rule: Any) -> dict[str, Any]:
    x, weight, g = numbers((5, 4), (4,), (5, 4))
    found: dict[str, Any] = {}
    for where, arguments in (
        ("with weight 1", (x, np.ones(4), g)),
        ("with weights", (x, weight, g)),
        ("for small x", (x / 300, weight, g)),
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


LAYER_NORM_RULE = Exercise(
    layer_norm_rule,
    probe_layer_norm_rule,
    real_layer_norm_rule,
    source="autograd.ops.normalization.LayerNorm.backward",
    hints=(
        "If all numbers of a row grow by 1, how does the normed row change? And if all are doubled? So which two "
        "directions can no gradient have?",
        "In the text's example, a row of 3, the mean of h and x_hat times the mean of h · x_hat are subtracted from h. "
        "The result sums to 0.",
        "r * (h - h.mean(axis=1, keepdims=True) - x_hat * (h * x_hat).mean(axis=1, keepdims=True)), with h = g * "
        "weight; then (g * x_hat).sum(axis=0) and g.sum(axis=0).",
    ),
    changes="""
        You treat mean and variance as constants. But they depend on each x of a row, so each x changes the whole row:
        subtract two terms from h.
        - h - h.mean(axis=1, keepdims=True) - x_hat * (h * x_hat).mean(axis=1, keepdims=True)
        + h
        The term of the mean is there, but the term of the variance is missing: x_hat * mean(h * x_hat).
        - - x_hat * (h * x_hat).mean(axis=1, keepdims=True)
        +
        The term of the variance is there, but the term of the mean is missing: mean(h) of each row.
        - - h.mean(axis=1, keepdims=True)
        +
        The mean of h * x_hat says how much of h points along x_hat. To subtract this part, multiply it by x_hat.
        - - x_hat * (h
        + - (h
        This is right if weight is 1. The gradient that arrives at x_hat is h = g * weight: use h instead of g, but only
        in the gradient of x.
        - g * weight
        + g
        Both means are taken over the whole array. Each row has its own means: axis=1, keepdims=True.
        - - h.mean(axis=1, keepdims=True)
        + - h.mean()
        - (h * x_hat).mean(axis=1, keepdims=True)
        + (h * x_hat).mean()
        The factor r is missing: x_hat grows r times as fast as x.
        - dx = r *
        + dx =
        The weight is multiplied by x_hat, so its gradient is the sum of g * x_hat.
        - (g * x_hat).sum
        + g.sum
        weight and bias have the shape (d,) and are used for all rows: sum their gradients over the rows, axis 0.
        - (g * x_hat).sum(axis=0), g.sum(axis=0)
        + g * x_hat, g
        The gradients of weight and bias are sums over the rows, not means.
        - sum(axis=0)
        + mean(axis=0)
    """,
)


@LAYER_NORM_RULE.right
def by_the_matrix(x, weight, g, eps=1e-5):
    """A correct answer that computes the matrix of derivatives of each row, as derived in the text."""
    n, dx, d_weight = x.shape[1], [], 0
    for row, arrived in zip(x, g, strict=True):
        r = (row.var() + eps) ** -0.5
        hat = (row - row.mean()) * r
        matrix = r * (np.eye(n) - 1 / n - np.outer(hat, hat) / n)
        dx.append(matrix.T @ (arrived * weight))
        d_weight = d_weight + arrived * hat
    return [np.array(dx), d_weight, sum(g)]


# -- feed_forward ------------------------------------------------------------------------------------------------------


def probe_feed_forward(feed_forward: Any) -> dict[str, Any]:
    x, w1, b1, w2, b2 = numbers((3, 4), (4, 4), (4,), (4, 4), (4,))
    return {
        "the output without biases": feed_forward(x, w1, 0 * b1, w2, 0 * b2),
        "the output with biases": feed_forward(x, w1, b1, w2, b2),
        "the output with 4 features, 8 inside": feed_forward(x, *numbers((8, 4), (8,), (4, 8), (4,))),
    }


def real_feed_forward(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> np.ndarray:
    up, back = (Linear(*weight.shape[::-1]).astype(np.float64) for weight in (w1, w2))
    up.load_state_dict({"weight": w1, "bias": b1})
    back.load_state_dict({"weight": w2, "bias": b2})
    return nn_feed_forward(Tensor(x), up, back, Dropout(0.0), "relu").data


FEED_FORWARD = Exercise(
    feed_forward,
    probe_feed_forward,
    real_feed_forward,
    source="nn.feed_forward.feed_forward",
    hints=(
        "Does a word see another word here? So which axis remains unchanged in both products?",
        "With d = 4 and n = 16 a word has 4 features, then 16, then 4. Of the 16 about half are below 0 and become 0.",
        "return np.maximum(x @ w1.T + b1, 0) @ w2.T + b2",
    ),
    changes="""
        The relu is missing: between the two matrices no number should be below 0.
        - np.maximum(x @ w1.T + b1, 0)
        + (x @ w1.T + b1)
        The relu comes after the second matrix. It belongs between the two matrices.
        - np.maximum(x @ w1.T + b1, 0) @ w2.T + b2
        + np.maximum((x @ w1.T + b1) @ w2.T + b2, 0)
        b1 is added after the relu. It should be added before the relu: relu(x w1ᵀ + b1).
        - np.maximum(x @ w1.T + b1, 0)
        + (np.maximum(x @ w1.T, 0) + b1)
        The weights are stored as (out, in): multiply by their transposes. If there are as many features inside as
        outside, no error is raised.
        - .T
        +
        Words are rows here, so x comes first: x @ w1.T, not w1 @ x.
        - np.maximum(x @ w1.T + b1, 0) @ w2.T
        + np.maximum(w1 @ x + b1, 0) @ w2
        The second bias is missing.
        - w2.T + b2
        + w2.T
        The output goes through a relu as well, so the layer can never subtract anything from x. Apply the relu only to
        the inner features.
        - np.maximum(x @ w1.T + b1, 0) @ w2.T + b2
        + np.maximum(np.maximum(x @ w1.T + b1, 0) @ w2.T + b2, 0)
    """,
)


@FEED_FORWARD.right
def word_by_word(x, w1, b1, w2, b2):
    hidden = [w1 @ row + b1 for row in x]
    return np.stack([w2 @ (row * (row > 0)) + b2 for row in hidden])


# -- block -------------------------------------------------------------------------------------------------------------


def probe_block(block: Any) -> dict[str, Any]:
    shapes = {
        "self_attn.in_proj_weight": (24, 8), "self_attn.out_proj.weight": (8, 8), "linear1.weight": (16, 8),
        "linear1.bias": (16,), "linear2.weight": (8, 16), "linear2.bias": (8,), "norm1.weight": (8,),
        "norm1.bias": (8,), "norm2.weight": (8,), "norm2.bias": (8,),
    }  # fmt: skip
    weights = dict(zip(shapes, numbers(*shapes.values()), strict=True))
    (x,) = numbers((5, 8))
    return {
        "the output for one word": block(x[:1] * 2, dict(weights), 2),
        "the output for 5 words": block(x + 1, dict(weights), 2),
    }


def real_block(x: Any, weights: Any, heads: int) -> np.ndarray:
    inner, d = weights["linear1.weight"].shape
    layer = TransformerEncoderLayer(d, heads, inner, 0.0, norm_first=True, bias="feed_forward").astype(np.float64)
    layer.load_state_dict(weights)
    return layer(Tensor(x[None])).data[0]


BLOCK = Exercise(
    block,
    probe_block,
    real_block,
    source="nn.transformer.TransformerEncoderLayer.forward",
    hints=(
        "In a pre-norm layer, what is normed: the road itself, or the copy that leaves it?",
        "2 times the same form: x = x + something of a normed x. The second time `something` is feed_forward, and x "
        "is the new one.",
        "x = x + self_attention(layer_norm(x, weights['norm1.weight'], weights['norm1.bias']), "
        "weights['self_attn.in_proj_weight'], weights['self_attn.out_proj.weight'], heads); the second line has "
        "norm2 and feed_forward with weight and bias of linear1, then of linear2.",
    ),
    changes="""
        This is post-norm, norm(x + f(x)), as in the first Transformer. Here the norm comes before f: x + f(norm(x)).
        - normed = layer_norm(x, weights["norm1.weight"], weights["norm1.bias"])
        + normed = x
        - normed = layer_norm(x, weights["norm2.weight"], weights["norm2.bias"])
        + normed = x = layer_norm(x, weights["norm1.weight"], weights["norm1.bias"])
        - x + feed_forward(normed, *linear)
        + layer_norm(x + feed_forward(normed, *linear), weights["norm2.weight"], weights["norm2.bias"])
        The results replace x. They should be added to it, both times.
        - x = x + self
        + x = self
        - x + feed_forward
        + feed_forward
        You add to the normed x. The norm makes a copy for the layer; what is added to is x as it was.
        - normed = layer_norm(x
        + normed = x = layer_norm(x
        Both parts read the same x. The feed-forward network comes second: it reads what attention has added.
        - x = x + self
        + out = x + self
        - return x
        + return out
        The norms are missing: attention and the network each get a normed copy of x.
        - layer_norm(x, weights["norm1.weight"], weights["norm1.bias"])
        + x
        - layer_norm(x, weights["norm2.weight"], weights["norm2.bias"])
        + x
        norm1 is used twice. The feed-forward network has its own, norm2.
        - weights["norm2.weight"], weights["norm2.bias"]
        + weights["norm1.weight"], weights["norm1.bias"]
        At the end you add to the x from the beginning, so what attention added is lost: x = x + ... first.
        - x = x + self
        + out = x + self
        - layer_norm(x, weights["norm2
        + layer_norm(out, weights["norm2
        The feed-forward network adds to x, and attention replaces it. Both add: x + attention(...).
        - x = x + self
        + x = self
        Attention adds to x, and the feed-forward network replaces it. Both add: x + feed_forward(...).
        - x + feed_forward
        + feed_forward
    """,
)


def parts(weights: Any, heads: int) -> Any:
    """Return norm1, attention, norm2 and feed_forward as functions of x."""
    linear = [weights[f"linear{number}.{kind}"] for number in (1, 2) for kind in ("weight", "bias")]
    w_in, w_out = weights["self_attn.in_proj_weight"], weights["self_attn.out_proj.weight"]
    norm1, norm2 = (
        lambda x, name=name: layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"])
        for name in ("norm1", "norm2")
    )
    return norm1, lambda x: self_attention(x, w_in, w_out, heads), norm2, lambda x: feed_forward(x, *linear)


@BLOCK.right
def in_two_steps(x, weights, heads):
    norm1, attend, norm2, feed = parts(weights, heads)
    out = x.copy()
    for norm, work in ((norm1, attend), (norm2, feed)):
        out += work(norm(out))
    return out
