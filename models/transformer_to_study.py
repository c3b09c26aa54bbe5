"""The Transformer on one page: from token ids to the logits of the next token, in ops of `handloom.autograd`.

`Seq2SeqTransformer` (seq2seq.py) computes the same from the same weights; dropout, padding, caches and options are left
out here. Each function is followed by the files of the real layer. Tests compare the logits and all gradients of both,
for an included model with pre-norm layers:

>>> from handloom import load
>>> translator = load("everyday-de-en")
>>> source, target = np.array(translator.source_ids(["Wo ist er?"])), np.array([[translator.tokenizer.bos_id]])
>>> logits = transformer(source, target, weights_of(translator.model), translator.model.config)  # (1, 1, 4000)
>>> translator.tokenizer.decode(logits.numpy()[0].argmax(axis=-1))
'Where'

Shapes: B sentences, S source and T target tokens, D features, H heads of D / H features, V tokens in the vocabulary.
"""

import numpy as np

from ..autograd import ops


def weights_of(model):
    """Return the weights by name, such as "encoder.layers.0.norm1.weight"; a shared matrix has several names."""
    layers = model.named_modules()
    return {f"{layer}.{name}": weight for layer, module in layers for name, weight in vars(module).items()}


def embed(ids, w, name):  # nn/embedding.py, nn/positional.py
    """Return the tokens' vectors times sqrt(D), plus a sine and a cosine wave for each pair of features."""
    table = w[f"{name}.weight"]  # (V, D)
    d = table.shape[1]
    angle = np.arange(ids.shape[1])[:, None] / 10000 ** (np.arange(0, d, 2) / d)  # (T, D/2)
    waves = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(-1, d)  # (T, D): sine, cosine, sine, ...
    return ops.embedding(ids, table) * d**0.5 + waves.astype(table.dtype)  # (B, T) -> (B, T, D)


def linear(x, w, name):  # nn/linear.py
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def norm(x, w, name):  # nn/normalization.py
    """Give each vector mean 0 and variance 1, then scale and shift it."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred * (variance + 1e-5) ** -0.5 * w[f"{name}.weight"] + w[f"{name}.bias"]


def attention(x, memory, w, name, heads, mask=None):  # nn/attention.py, autograd/ops/attention.py
    """Each row of x (B, T, D) asks, each row of memory (B, S, D) answers. `mask` (T, S) is True where x may look."""
    q_weight, k_weight, v_weight = ops.split(w[f"{name}.in_proj_weight"], 3)  # (D, D) each
    q_bias, k_bias, v_bias = ops.split(w[f"{name}.in_proj_bias"], 3)

    def split_heads(y):  # (B, T, D) -> (B, H, T, D/H)
        return y.reshape(*y.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    q = split_heads(x @ q_weight.T + q_bias)
    k, v = split_heads(memory @ k_weight.T + k_bias), split_heads(memory @ v_weight.T + v_bias)
    scores = q @ k.transpose(0, 1, 3, 2) * q.shape[-1] ** -0.5  # (B, H, T, S)
    if mask is not None:
        scores = ops.where(mask, scores, -np.inf)
    out = ops.softmax(scores) @ v  # (B, H, T, D/H)
    return linear(out.transpose(0, 2, 1, 3).reshape(x.shape), w, f"{name}.out_proj")


def feed_forward(x, w, name):  # nn/feed_forward.py
    return linear(ops.relu(linear(x, w, f"{name}.linear1")), w, f"{name}.linear2")


def encode(source, w, config):  # nn/transformer.py
    """Return the memory (B, S, D) of the source (B, S)."""
    x = embed(source, w, "source_embedding")
    for i in range(config.encoder_layers):
        layer = f"encoder.layers.{i}"
        h = norm(x, w, f"{layer}.norm1")
        x = x + attention(h, h, w, f"{layer}.self_attn", config.nhead)
        x = x + feed_forward(norm(x, w, f"{layer}.norm2"), w, layer)
    return norm(x, w, "encoder.norm")


def decode(target, memory, w, config):  # nn/transformer.py, models/seq2seq.py
    """Return the logits (B, T, V) of the token after each token of the target (B, T)."""
    x = embed(target, w, "target_embedding")
    past = np.tri(target.shape[1], dtype=bool)  # (T, T): a token sees itself and earlier tokens
    for i in range(config.decoder_layers):
        layer = f"decoder.layers.{i}"
        h = norm(x, w, f"{layer}.norm1")
        x = x + attention(h, h, w, f"{layer}.self_attn", config.nhead, past)
        x = x + attention(norm(x, w, f"{layer}.norm2"), memory, w, f"{layer}.multihead_attn", config.nhead)
        x = x + feed_forward(norm(x, w, f"{layer}.norm3"), w, layer)
    return linear(norm(x, w, "decoder.norm"), w, "output")


def transformer(source, target, w, config):  # models/seq2seq.py
    """Return the logits (B, T, V) for a source (B, S) and a target (B, T), with the weights `w` by name."""
    return decode(target, encode(source, w, config), w, config)
