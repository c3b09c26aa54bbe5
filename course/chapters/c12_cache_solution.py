"""The solution of chapter 12: a decoder that computes each word once."""

import numpy as np

from ...nn.positional import sinusoidal_table

# The building blocks of chapter 9, with attention in three functions: project, attend, merge.


def linear(x, w, name):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def norm(x, w, name):
    centred = x - x.mean(axis=-1, keepdims=True)
    std = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return centred / std * w[f"{name}.weight"] + w[f"{name}.bias"]


def feed_forward(x, w, name):
    return linear(np.maximum(linear(x, w, f"{name}.linear1"), 0), w, f"{name}.linear2")


def project(x, w, name, which, heads):
    """Return queries (which = 0), keys (1) or values (2) (batch, heads, length, d / heads) of x (batch, length, d)."""
    weight, bias = (np.split(w[f"{name}.in_proj_{kind}"], 3)[which] for kind in ("weight", "bias"))
    return (x @ weight.T + bias).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def attend(q, k, v, mask=True):
    """Return attention of queries (batch, heads, queries, e) to keys and values (batch, heads, keys, e)."""
    scores = np.where(mask, q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3]), -np.inf)
    e = np.exp(scores - scores.max(axis=3, keepdims=True))
    return e / e.sum(axis=3, keepdims=True) @ v


def merge(mixed, w, name):
    """Put the heads of x (batch, heads, length, e) side by side, and multiply by the last matrix of attention."""
    batch, heads, length, e = mixed.shape
    return linear(mixed.swapaxes(1, 2).reshape(batch, length, heads * e), w, f"{name}.out_proj")


class State:
    """The cache of a batch of sentences that are being generated.

    keys, values: of the self-attention of each decoder layer, (batch, heads, words so far, e).
    memory_keys, memory_values: of the attention to the source of each layer, (batch, heads, source length, e).
    memory_mask: (batch, 1, 1, source length), True for words and False for padding.
    """

    def __init__(self, memory_keys, memory_values, memory_mask):
        self.memory_keys, self.memory_values, self.memory_mask = memory_keys, memory_values, memory_mask
        batch, heads, _, e = memory_keys[0].shape
        self.keys = [np.empty((batch, heads, 0, e)) for _ in memory_keys]
        self.values = [np.empty((batch, heads, 0, e)) for _ in memory_keys]

    @property
    def length(self):
        """The number of words so far."""
        return self.keys[0].shape[2]


def attend_new(q, k, v, keys, values):
    """Let a new word look at all words before it, and at itself.

    q, k, v: of the new word, (batch, heads, 1, e). keys, values: of the words before, (batch, heads, past, e).
    Returns the output of attention, (batch, heads, 1, e), the keys with k appended, and the values with v appended.
    """
    # your turn: Append k to the keys and v to the values (np.concatenate, along which axis?). Then attend without a
    # mask: there are no later words yet.
    keys, values = np.concatenate([keys, k], axis=2), np.concatenate([values, v], axis=2)
    return attend(q, keys, values), keys, values


def start(memory, source, w, heads, layers, pad=0):
    """Return a State without words. memory (batch, source length, d) is the encoder's output for the ids `source`."""
    # your turn: The source never changes, so compute the keys and values of the source here for each layer, with
    # project(memory, w, "decoder.layers.0.multihead_attn", ...) for layer 0. The mask is True for words.
    names = [f"decoder.layers.{i}.multihead_attn" for i in range(layers)]
    keys, values = ([project(memory, w, name, which, heads) for name in names] for which in (1, 2))
    return State(keys, values, (source != pad)[:, None, None, :])


def step(ids, state, w, heads):
    """Append the words ids (batch,) to the sentences, and return the logits (batch, vocabulary) of the next words.

    The new keys and values are stored in the state.
    """
    table = w["target_embedding.weight"]
    d = table.shape[1]
    # your turn: Compute the layers only for the new word, with x (batch, 1, d). Which position does the embedding need?
    # Then go layer by layer as in chapter 9. The first step uses attend_new with the keys and values of this layer. The
    # second step uses the keys and values of the memory, so only a query is projected.
    x = table[ids][:, None] * np.sqrt(d) + sinusoidal_table(state.length + 1, d)[-1]
    for i in range(len(state.keys)):
        name = f"decoder.layers.{i}"
        q, k, v = (project(x, w, f"{name}.self_attn", which, heads) for which in range(3))
        mixed, state.keys[i], state.values[i] = attend_new(q, k, v, state.keys[i], state.values[i])
        x = norm(x + merge(mixed, w, f"{name}.self_attn"), w, f"{name}.norm1")
        q = project(x, w, f"{name}.multihead_attn", 0, heads)
        mixed = attend(q, state.memory_keys[i], state.memory_values[i], state.memory_mask)
        x = norm(x + merge(mixed, w, f"{name}.multihead_attn"), w, f"{name}.norm2")
        x = norm(x + feed_forward(x, w, name), w, f"{name}.norm3")
    return linear(x, w, "output")[:, 0]


def select(state, rows):
    """Change the state so that its sentences are those at the indices `rows`, in this order. Indices can repeat."""
    # your turn: Select the rows of every array in the state whose first axis is the batch. The state has five
    # attributes, four of which are lists with an array for each layer.
    state.memory_mask = state.memory_mask[rows]
    for arrays in (state.keys, state.values, state.memory_keys, state.memory_values):
        arrays[:] = [array[rows] for array in arrays]
