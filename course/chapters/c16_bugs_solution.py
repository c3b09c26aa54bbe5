"""The solution of chapter 16: tools that find mistakes in a model that still learns."""

import numpy as np

from ...autograd import Parameter, ops

VOCABULARY, LENGTH, D, INNER, LAYERS = 11, 6, 8, 24, 2


def new_weights(seed=0):
    """Return random weights by name, in float64."""
    rng = np.random.default_rng(seed)
    shapes = {"table": (VOCABULARY, D), "positions": (LENGTH, D), "output": (D, VOCABULARY)}
    for i in range(LAYERS):
        shapes |= {f"{kind}{i}": (D, D) for kind in "qkv"} | {f"up{i}": (D, INNER), f"down{i}": (INNER, D)}
    return {name: Parameter(rng.standard_normal(shape) / np.sqrt(D)) for name, shape in shapes.items()}


def suspect(w, ids):
    """Return the logits (batch, length, vocabulary) of the token after each token of ids (batch, length).

    This language model contains five mistakes. Its loss falls in training. Do not change this function.
    """
    length = ids.shape[1]
    x = ops.embedding(ids, w["table"]) + w["positions"][0]
    for i in range(LAYERS):
        h = x - x.mean(axis=0, keepdims=True)
        h = h / ((h * h).mean(axis=0, keepdims=True) + 1e-5) ** 0.5
        q, k, v = (h @ w[f"{kind}{i}"] for kind in "qkv")
        scores = ops.where(np.tri(length, k=1, dtype=bool), q @ k.swapaxes(1, 2) / D**0.5, -np.inf)
        x = x + ops.softmax(scores, axis=1) @ v
        x = x + ops.relu(x @ w[f"up{i}"]) @ w["down0"]
    return x @ w["output"]


def sees_the_future(model, w, ids):
    """Return whether the logits of a position depend on later tokens: a bool. ids (batch, length), length > 1."""
    # your turn: Run the model twice, the second time with a copy of ids with a different last token in each row. Which
    # positions of the logits may differ, and which may not?
    other = ids.copy()
    other[:, -1] = (other[:, -1] + 1) % VOCABULARY
    return not np.allclose(model(w, ids).data[:, :-1], model(w, other).data[:, :-1])


def mixes_the_batch(model, w, ids):
    """Return whether the logits of a sentence depend on other sentences of its batch. ids (batch, length)."""
    # your turn: Run the model on the whole batch, and on the first sentence alone, as a batch of one: ids[:1].
    return not np.allclose(model(w, ids).data[:1], model(w, ids[:1]).data)


def unused(model, w, ids):
    """Return the sorted names of the weights with an unused row. Every token occurs in ids (batch, length)."""
    # your turn: An unused row has the gradient 0, and `grad` stays None if no operation uses the weight. Set `grad` of
    # each weight to None, call backward on a number computed from all logits, such as the sum of their squares, and
    # look at each row of each gradient.
    for parameter in w.values():
        parameter.grad = None
    (model(w, ids) ** 2).sum().backward()
    return sorted(name for name, one in w.items() if one.grad is None or (one.grad == 0).all(axis=1).any())


def mended(w, ids):
    """The corrected `suspect`."""
    # your turn: Copy the lines of `suspect` here. Run your three tools after each change: they show which mistakes
    # remain.
    length = ids.shape[1]
    x = ops.embedding(ids, w["table"]) + w["positions"][:length]
    for i in range(LAYERS):
        h = x - x.mean(axis=2, keepdims=True)
        h = h / ((h * h).mean(axis=2, keepdims=True) + 1e-5) ** 0.5
        q, k, v = (h @ w[f"{kind}{i}"] for kind in "qkv")
        scores = ops.where(np.tri(length, dtype=bool), q @ k.swapaxes(1, 2) / D**0.5, -np.inf)
        x = x + ops.softmax(scores, axis=2) @ v
        x = x + ops.relu(x @ w[f"up{i}"]) @ w[f"down{i}"]
    return x @ w["output"]
