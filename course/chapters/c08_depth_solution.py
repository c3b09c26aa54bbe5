"""The solution of chapter 8: layer norm with its rule, the feed-forward network, and a whole pre-norm layer."""

import numpy as np


def self_attention(x, w_in, w_out, heads):
    """Return the attention of chapter 7 without positions and mask, for x (length, d), w_in (3 d, d), w_out (d, d)."""
    q, k, v = (part.reshape(len(x), heads, -1).swapaxes(0, 1) for part in np.split(x @ w_in.T, 3, axis=1))
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    out = e / e.sum(axis=-1, keepdims=True) @ v
    return out.swapaxes(0, 1).reshape(x.shape) @ w_out.T


def layer_norm(x, weight, bias, eps=1e-5):
    """Normalise each row of x (length, d) to mean 0 and variance 1, then multiply by weight (d,) and add bias (d,)."""
    # your turn: Compute the mean and the variance of each row (along which axis?), each as a column, so that they
    # broadcast to the shape of x. Add eps inside the square root.
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred / np.sqrt(variance + eps) * weight + bias


def layer_norm_rule(x, weight, g, eps=1e-5):
    """Return the gradients of x, weight and bias from the gradient g (length, d) of layer_norm(x, weight, bias)."""
    # your turn: Compute x_hat, r and h = g * weight, as in the text. Then the gradient of x is one line: which two
    # terms are subtracted from h? For the gradients of weight and bias, remember chapter 2: both are copied to all
    # rows.
    centred = x - x.mean(axis=1, keepdims=True)
    r = 1 / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + eps)
    x_hat, h = centred * r, g * weight
    dx = r * (h - h.mean(axis=1, keepdims=True) - x_hat * (h * x_hat).mean(axis=1, keepdims=True))
    return dx, (g * x_hat).sum(axis=0), g.sum(axis=0)


def feed_forward(x, w1, b1, w2, b2):
    """Return the feed-forward network of x (length, d), with weights w1 (n, d), b1 (n,), w2 (d, n), b2 (d,)."""
    # your turn: Multiply by w1 and add b1, replace numbers below 0 by 0, then multiply by w2 and add b2. Weights are
    # stored as (out, in).
    return np.maximum(x @ w1.T + b1, 0) @ w2.T + b2


def block(x, weights, heads):
    """Return the output (length, d) of a pre-norm layer for x (length, d). `weights` is a dictionary with PyTorch's
    names:

    self_attn.in_proj_weight, self_attn.out_proj.weight, linear1.weight, linear1.bias, linear2.weight, linear2.bias,
    norm1.weight, norm1.bias, norm2.weight, norm2.bias.
    """
    # your turn: There are two steps of the same form: add to x a result that is computed from a normalised copy of x.
    # The first step uses norm1 and attention, and the second uses norm2 and the feed-forward network (linear1,
    # linear2).
    normed = layer_norm(x, weights["norm1.weight"], weights["norm1.bias"])
    x = x + self_attention(normed, weights["self_attn.in_proj_weight"], weights["self_attn.out_proj.weight"], heads)
    normed = layer_norm(x, weights["norm2.weight"], weights["norm2.bias"])
    linear = [weights[f"linear{number}.{kind}"] for number in (1, 2) for kind in ("weight", "bias")]
    return x + feed_forward(normed, *linear)
