"""The solution of chapter 9: the layers of encoder and decoder, and the translator."""

import numpy as np

from ...nn.positional import sinusoidal_table

# The building blocks of chapters 6 to 8. `w` is a dictionary of weights by name, such as w["output.bias"].


def linear(x, w, name):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def norm(x, w, name):
    """Normalise each row to mean 0 and variance 1, then scale and shift the row."""
    centred = x - x.mean(axis=-1, keepdims=True)
    std = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return centred / std * w[f"{name}.weight"] + w[f"{name}.bias"]


def attention(x, memory, w, name, heads, mask):
    """Return multi-head attention of the rows of x (batch, queries, d) to the rows of memory (batch, keys, d).

    mask is boolean, True for allowed keys, and broadcasts to (batch, heads, queries, keys).
    """
    weights, biases = (np.split(w[f"{name}.in_proj_{kind}"], 3) for kind in ("weight", "bias"))
    q, k, v = (
        (rows @ weight.T + bias).reshape(len(rows), rows.shape[1], heads, -1).swapaxes(1, 2)
        for rows, weight, bias in zip((x, memory, memory), weights, biases, strict=True)
    )
    scores = np.where(mask, q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3]), -np.inf)
    e = np.exp(scores - scores.max(axis=3, keepdims=True))
    mixed = (e / e.sum(axis=3, keepdims=True) @ v).swapaxes(1, 2)
    return linear(mixed.reshape(x.shape), w, f"{name}.out_proj")


def feed_forward(x, w, name):
    return linear(np.maximum(linear(x, w, f"{name}.linear1"), 0), w, f"{name}.linear2")


def shifted(sentences, pad, bos, eos):
    """Return the decoder's inputs and targets, two arrays (batch, longest + 1) of ids, padded with `pad`.

    sentences: lists of ids, without `bos` and `eos`.
    """
    # your turn: After <bos> and the first n words, which word should the decoder predict? Write down the input and the
    # target for the sentence [5, 6, 7]. They have the same length.
    longest = max(map(len, sentences))
    fill = [[pad] * (longest - len(ids)) for ids in sentences]
    read = [[bos, *ids, *more] for ids, more in zip(sentences, fill, strict=True)]
    say = [[*ids, eos, *more] for ids, more in zip(sentences, fill, strict=True)]
    return np.array(read), np.array(say)


def embed(ids, table):
    """Return vectors (batch, length, d) for ids (batch, length): rows of the table (vocabulary, d), plus positions."""
    # your turn: Take the row of the table for each id, times sqrt(d). Then add sinusoidal_table(length, d), whose row t
    # belongs to position t.
    d = table.shape[1]
    return table[ids] * np.sqrt(d) + sinusoidal_table(ids.shape[1], d)


def encoder_layer(x, w, name, heads, mask):
    """Return the encoder layer of x (batch, length, d). Its weights begin with f"{name}.self_attn", f"{name}.norm1"
    etc.
    """
    # your turn: There are two steps, each of the form norm(x + step(x)). In the first step the words look at each
    # other. The second step is feed_forward(..., name).
    x = norm(x + attention(x, x, w, f"{name}.self_attn", heads, mask), w, f"{name}.norm1")
    return norm(x + feed_forward(x, w, name), w, f"{name}.norm2")


def decoder_layer(x, memory, w, name, heads, own_mask, memory_mask):
    """Return the decoder layer of x (batch, length, d). memory (batch, source length, d): the output of the encoder."""
    # your turn: There are three steps, each of the form norm(x + step(x)): attention to the words of the target,
    # attention to the source (weights f"{name}.multihead_attn"), and feed_forward.
    x = norm(x + attention(x, x, w, f"{name}.self_attn", heads, own_mask), w, f"{name}.norm1")
    x = norm(x + attention(x, memory, w, f"{name}.multihead_attn", heads, memory_mask), w, f"{name}.norm2")
    return norm(x + feed_forward(x, w, name), w, f"{name}.norm3")


def transformer(source, target, w, heads, layers, pad=0):
    """Return the logits (batch, target length, vocabulary) of the word after each word of `target`.

    source (batch, source length), target (batch, target length): ids. `layers`: number of layers in each stack, with
    the names "encoder.layers.0", ..., "decoder.layers.0", ... The tables are w["source_embedding.weight"] and
    w["target_embedding.weight"], the last layer is "output".
    """
    # your turn: Make two masks: a mask for the padding of the source, and a causal mask for the target. Then apply the
    # encoder layers to the embedded source, and the decoder layers to the embedded target; each decoder layer gets the
    # output of the *last* encoder layer. At the end apply the linear layer "output".
    seen = (source != pad)[:, None, None, :]
    causal = np.tri(target.shape[1], dtype=bool)
    memory = embed(source, w["source_embedding.weight"])
    for i in range(layers):
        memory = encoder_layer(memory, w, f"encoder.layers.{i}", heads, seen)
    x = embed(target, w["target_embedding.weight"])
    for i in range(layers):
        x = decoder_layer(x, memory, w, f"decoder.layers.{i}", heads, causal, seen)
    return linear(x, w, "output")
