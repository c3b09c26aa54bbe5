"""Chapter 16, the exercises: three tools that find mistakes in a model, and the corrected model."""

from typing import Any

import numpy as np

from ...autograd import Parameter, no_grad, ops
from ..mistakes import planted, with_left
from .c16_bugs_solution import LENGTH, VOCABULARY, mended, new_weights


def tokens() -> np.ndarray:
    """Every token occurs."""
    return np.concatenate([np.arange(VOCABULARY), np.random.default_rng(16).integers(0, VOCABULARY, 13)]).reshape(
        4, LENGTH
    )


def models() -> dict[str, Any]:
    found = {f"a mistake in {name}": with_left(mended, name) for name in planted(mended)}
    return found | {"no mistake": mended}


def first_sees_last(w: Any, ids: np.ndarray) -> Any:
    """Return logits that depend on the last token only at the first and the last position."""
    return ops.where(np.arange(ids.shape[1])[:, None] == 0, mended(w, ids[:, ::-1]), mended(w, ids))


def probe_sees_the_future(sees_the_future: Any) -> dict[str, Any]:
    w, ids = new_weights(), tokens()
    found = models() | {"a first position that sees the last token": first_sees_last}
    verdicts = {f"a model with {name}": sees_the_future(one, w, ids) for name, one in found.items()}
    looks_ahead, always = with_left(mended, "the mask"), np.repeat(ids[:1], VOCABULARY, axis=0)
    always[:, -1] = np.arange(VOCABULARY)
    each = [sees_the_future(looks_ahead, w, row[None]) for row in always]
    return verdicts | {"the ids afterwards": ids, "a mistake in the mask, for each last token of a sentence": each}


def real_sees_the_future(model, w, ids):
    with no_grad():
        return not np.allclose(model(w, ids[:, :-1]).data, model(w, ids).data[:, :-1])


def probe_mixes_the_batch(mixes_the_batch: Any) -> dict[str, Any]:
    return {f"a model with {name}": mixes_the_batch(one, new_weights(), tokens()) for name, one in models().items()}


def real_mixes_the_batch(model, w, ids):
    with no_grad():
        return not np.allclose(model(w, ids).data, np.concatenate([model(w, row[None]).data for row in ids]))


def probe_unused(unused: Any) -> dict[str, Any]:
    w = new_weights()
    found = {f"the unused weights of a model with {name}": unused(one, w, tokens()) for name, one in models().items()}
    return {name: list(names) for name, names in reversed(found.items())}


def real_unused(model, w, ids):
    fresh = {name: Parameter(one.data) for name, one in w.items()}
    (model(fresh, ids) ** 2).sum().backward()
    rows = {name: 0 if one.grad is None else np.abs(one.grad).sum(axis=1).min() for name, one in fresh.items()}
    return sorted(name for name, least in rows.items() if least == 0)


def probe_mended(mended: Any) -> dict[str, Any]:
    w, ids = new_weights(1), tokens()
    return {
        "the logits of one sentence of one word": mended(w, ids[:1, :1]).data,
        "the logits of four sentences of six words": mended(w, ids).data,
    }


def real_mended(w, ids):
    x = ops.embedding(ids, w["table"]) + w["positions"][: ids.shape[1]]
    one, zero = np.ones(x.shape[2]), np.zeros(x.shape[2])
    for i in range(2):
        h = ops.layer_norm(x, one, zero)
        q, k, v = ((h @ w[f"{kind}{i}"])[:, None] for kind in "qkv")
        x = x + ops.attention(q, k, v, causal=True)[:, 0]
        x = x + ops.relu(x @ w[f"up{i}"]) @ w[f"down{i}"]
    return x @ w["output"]
