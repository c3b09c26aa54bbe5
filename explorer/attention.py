"""The views "Translate", "One head" and "Next word". "Translate" shows all attention maps, "One head" shows how one
query's attention is computed, and "Next word" shows the most probable tokens at each position.
"""

from typing import Any

import numpy as np

from ..errors import InputError
from .asking import Ask
from .packing import packed
from .subject import Layer, Pass, Subject

CANDIDATES = 10


def translate(subject: Subject, ask: Ask) -> dict[str, Any]:
    """Return the model's answer to a text, the tokens, and all attention weights (heads, queries, keys)."""
    seen = subject.watched(ask.text(), ask.heads_off())
    return {
        "kind": subject.kind,
        "text": seen.text,
        "answer": seen.answer,
        "shares": seen.shares,
        "tokens": seen.tokens,
        "layers": [described(layer) | {"weights": packed(layer.weights)} for layer in seen.layers],
    }


def head(subject: Subject, ask: Ask) -> dict[str, Any]:
    """Return the arrays and the results of one query of one attention head.

    The arrays are q (head_dim,), K and V (keys, head_dim), the terms added to the scores (keys,) and the scale. The
    model's results are the weights (keys,) and the output (head_dim,).
    """
    seen = subject.watched(ask.text(), ask.heads_off())
    layer = chosen_layer(seen, ask)
    heads, queries, _ = layer.weights.shape
    number, query = ask.whole("head", 0, heads - 1), ask.whole("query", 0, queries - 1)
    call = layer.call
    return place(seen, layer) | {
        "scale": layer.scale,
        "q": packed(call.query[0, number, query]),
        "k": packed(call.key[0, number]),
        "v": packed(call.value[0, number]),
        "added": packed(layer.added()[number, query]),
        "weights": packed(layer.weights[number, query]),
        "output": packed(call.output[0, number, query]),
    }


def following(subject: Subject, ask: Ask) -> dict[str, Any]:
    """Return the generated token and the most probable ones at each position, by softmax(logits / temperature)."""
    off, temperature = ask.heads_off(), ask.number("temperature", 0.1, 5.0, 1.0)
    seen = subject.watched(ask.text(), off)
    with subject.without(off):
        scores = subject.logits(seen) / temperature
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    positions = []
    for row, read, written in zip(shares, seen.tokens["read"], seen.tokens["written"], strict=True):
        best = np.argsort(-row, kind="stable")[:CANDIDATES]
        candidates = [[token, float(row[i])] for i, token in zip(best, map(subject.token, best), strict=True)]
        entropy = float(-(row * np.log(np.maximum(row, 1e-300))).sum())
        positions.append({"read": read, "written": written, "candidates": candidates, "entropy": entropy})
    return {"temperature": temperature, "positions": positions}


def chosen_layer(seen: Pass, ask: Ask) -> Layer:
    """Return the requested attention layer, by default the last. Raises InputError if the model has no attention."""
    if not seen.layers:
        raise InputError("This model is recurrent: it has no attention.")
    return seen.layer(ask.choice("layer", [layer.name for layer in seen.layers], seen.layers[-1].name))


def place(seen: Pass, layer: Layer) -> dict[str, Any]:
    """Return the description of a layer, and its tokens for queries and for keys."""
    return {"layer": described(layer), "rows": seen.tokens[layer.rows], "columns": seen.tokens[layer.columns]}


def described(layer: Layer) -> dict[str, Any]:
    names = ("name", "title", "number", "rows", "columns")
    return {name: getattr(layer, name) for name in names} | {"heads": len(layer.weights)}
