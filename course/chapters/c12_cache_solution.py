"""What chapter 12 builds: a decoder that computes each word once; the learner's file is cut from this one."""

import numpy as np

from ...nn.positional import sinusoidal_table

# The blocks of chapter 9 once more, with attention in three pieces: project, attend, merge.


def linear(x, w, name):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def norm(x, w, name):
    centred = x - x.mean(axis=-1, keepdims=True)
    std = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return centred / std * w[f"{name}.weight"] + w[f"{name}.bias"]


def feed_forward(x, w, name):
    return linear(np.maximum(linear(x, w, f"{name}.linear1"), 0), w, f"{name}.linear2")


def project(x, w, name, which, heads):
    """The queries (which = 0), keys (1) or values (2) of x (batch, length, d): (batch, heads, length, d / heads)."""
    weight, bias = (np.split(w[f"{name}.in_proj_{kind}"], 3)[which] for kind in ("weight", "bias"))
    return (x @ weight.T + bias).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def attend(q, k, v, mask=True):
    """Attention of queries (batch, heads, queries, e) to keys and values (batch, heads, keys, e), without a cache."""
    scores = np.where(mask, q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3]), -np.inf)
    e = np.exp(scores - scores.max(axis=3, keepdims=True))
    return e / e.sum(axis=3, keepdims=True) @ v


def merge(mixed, w, name):
    """(batch, heads, length, e) -> (batch, length, d): the heads side by side, then the last matrix of attention."""
    batch, heads, length, e = mixed.shape
    return linear(mixed.swapaxes(1, 2).reshape(batch, length, heads * e), w, f"{name}.out_proj")


class State:
    """What is stored about the sentences that are being said.

    keys, values: for each decoder layer (batch, heads, words said, e), of its self-attention.
    memory_keys, memory_values: for each decoder layer (batch, heads, source length, e), of its attention to the source.
    memory_mask: (batch, 1, 1, source length), True = may look.
    """

    def __init__(self, memory_keys, memory_values, memory_mask):
        self.memory_keys, self.memory_values, self.memory_mask = memory_keys, memory_values, memory_mask
        batch, heads, _, e = memory_keys[0].shape
        self.keys = [np.empty((batch, heads, 0, e)) for _ in memory_keys]
        self.values = [np.empty((batch, heads, 0, e)) for _ in memory_keys]

    @property
    def length(self):
        """Words said so far."""
        return self.keys[0].shape[2]


def attend_new(q, k, v, keys, values):
    """Let a new word look at all words before it, and at itself.

    q, k, v: of the new word, (batch, heads, 1, e); keys, values: of those before, (batch, heads, past, e).
    Returns the output of attention, (batch, heads, 1, e), and the keys and values, to which its own are appended.
    """
    # your turn: Append its key to the keys and its value to the values (np.concatenate, along which axis?). Then attend
    # without a mask: there are no later words yet.
    keys, values = np.concatenate([keys, k], axis=2), np.concatenate([values, v], axis=2)
    return attend(q, keys, values), keys, values


def start(memory, source, w, heads, layers, pad=0):
    """Return a State without words. memory (batch, source length, d) is the encoder's output for the ids `source`."""
    # your turn: The source never changes, so each layer's keys and values for the source are computed here, once:
    # project(memory, w, "decoder.layers.0.multihead_attn", ...) and so on. The mask is True at the words.
    names = [f"decoder.layers.{i}.multihead_attn" for i in range(layers)]
    keys, values = ([project(memory, w, name, which, heads) for name in names] for which in (1, 2))
    return State(keys, values, (source != pad)[:, None, None, :])


def step(ids, state, w, heads):
    """Append one word to each sentence, ids (batch,); return the logits (batch, vocabulary) of the next word.

    The new keys and values are put into the state.
    """
    table = w["target_embedding.weight"]
    d = table.shape[1]
    # your turn: Only the new word goes through the layers: x is (batch, 1, d). Embed it: at which position? Then go
    # layer by layer as in chapter 9. The first step uses attend_new with the keys and values of this layer. The second
    # step uses the keys and values of the memory, so only a query is projected.
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
    """Keep these sentences of the batch, in this order, by changing the state. A sentence may be kept twice."""
    # your turn: Select the rows of everything in the state whose first axis is the batch: five things, four of which
    # are lists with one array for each layer.
    state.memory_mask = state.memory_mask[rows]
    for arrays in (state.keys, state.values, state.memory_keys, state.memory_values):
        arrays[:] = [array[rows] for array in arrays]
