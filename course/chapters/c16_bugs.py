"""Chapter 16, the exercises: three tools that find mistakes in a model, and the corrected model.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from ...autograd import Parameter, no_grad, ops
from ..changes import changed
from ..exercise import Exercise
from .c16_bugs_solution import (
    LENGTH,
    VOCABULARY,
    mended,
    mixes_the_batch,
    new_weights,
    sees_the_future,
    unused,
)

#: The five mistakes of `suspect`: name, message if the mistake is the first that remains, and the change that makes it.
FIVE = {
    "the mask": (
        "`sees_the_future` says True: with k=1 the triangle lets each position see the next one.",
        "- np.tri(length, dtype\n+ np.tri(length, k=1, dtype",
    ),
    "the softmax": (
        "`sees_the_future` still says True, and the mask is right: the softmax runs over the queries, so the weight of "
        "a key depends on all that look at it. Rows share out their attention: axis=2.",
        "- (scores, axis=2)\n+ (scores, axis=1)",
    ),
    "the norm": (
        "`mixes_the_batch` says True: mean and variance are taken over axis 0, the sentences. Each word has its own "
        "mean and variance: axis=2.",
        "- axis=2, keepdims\n+ axis=0, keepdims",
    ),
    "the second network": (
        "`unused` names down1: the second layer uses the first one's weights, down0.",
        '- w[f"down{i}"]\n+ w["down0"]',
    ),
    "the positions": (
        "`unused` names positions: every word gets row 0, so the model can't tell where a word is.",
        "- [:length]\n+ [0]",
    ),
}


def tokens() -> np.ndarray:
    """Every token occurs."""
    return np.concatenate([np.arange(VOCABULARY), np.random.default_rng(16).integers(0, VOCABULARY, 13)]).reshape(
        4, LENGTH
    )


def with_left(*left: str) -> Any:
    """Return the model with the mistakes `left`."""
    if not left:
        return mended
    ((_, model),) = changed(mended, "\n".join(FIVE[name][1] for name in left))
    return model


def models() -> dict[str, Any]:
    return {name: with_left(name) for name in FIVE} | {"none of the five mistakes": mended}


# -- sees_the_future ---------------------------------------------------------------------------------------------------


def probe_sees_the_future(sees_the_future: Any) -> dict[str, Any]:
    w, ids = new_weights(), tokens()
    found = {f"whether it sees the future, with {name}": sees_the_future(one, w, ids) for name, one in models().items()}
    return found | {"the ids afterwards": ids}


def real_sees_the_future(model, w, ids):
    with no_grad():
        return not np.allclose(model(w, ids[:, :-1]).data, model(w, ids).data[:, :-1])


SEES_THE_FUTURE = Exercise(
    sees_the_future,
    probe_sees_the_future,
    real_sees_the_future,
    source="nn.attention.MultiHeadAttention.forward",
    hints=(
        "If the last word of a sentence is replaced, may the model's output at the words before it change?",
        "Of 6 positions the first 5 must stay as they are. Only the logits at the last position may change.",
        "other = ids.copy(); other[:, -1] = (other[:, -1] + 1) % VOCABULARY; compare model(w, ...).data[:, :-1] of "
        "both with np.allclose.",
    ),
    changes="""
        The last position is compared too. Its logits may depend on the last word: leave this position out, [:, :-1].
        - .data[:, :-1]
        + .data
        Only the first position is compared, and a look one or two words ahead does not reach the last word from there:
        compare [:, :-1].
        - .data[:, :-1]
        + .data[:, :1]
        ids itself is changed, so both runs see the same tokens, and the caller's array is overwritten. Use ids.copy().
        - ids.copy()
        + ids
        True and False are exchanged: equal logits mean that the future is not seen.
        - return not
        + return
    """,
)


@SEES_THE_FUTURE.right
def word_by_word(model, w, ids):
    said = [model(w, ids[:, :n]).data[:, n - 1] for n in range(1, ids.shape[1])]
    return not np.allclose(model(w, ids).data[:, :-1], np.stack(said, axis=1))


# -- mixes_the_batch ---------------------------------------------------------------------------------------------------


def probe_mixes_the_batch(mixes_the_batch: Any) -> dict[str, Any]:
    return {
        f"whether a model mixes the batch, with {name}": mixes_the_batch(one, new_weights(), tokens())
        for name, one in models().items()
    }


def real_mixes_the_batch(model, w, ids):
    with no_grad():
        return not np.allclose(model(w, ids).data, np.concatenate([model(w, row[None]).data for row in ids]))


MIXES_THE_BATCH = Exercise(
    mixes_the_batch,
    probe_mixes_the_batch,
    real_mixes_the_batch,
    source="nn.normalization.LayerNorm.forward",
    hints=(
        "A sentence is translated alone, and again in a batch with others. Should the numbers differ?",
        "ids has 4 sentences. The logits of the batch of one, shape (1, 6, 11), are compared with the first quarter.",
        "not np.allclose(model(w, ids).data[:1], model(w, ids[:1]).data)",
    ),
    changes="""
        Both runs have the same batch, so nothing can differ. Run the first sentence alone: ids[:1].
        - model(w, ids[:1]).data
        + model(w, ids).data[:1]
        The second run is the first *column* of ids, the first token of each sentence. One sentence is ids[:1].
        - ids[:1]
        + ids[:, :1]
        True and False are exchanged: equal logits mean that the sentences are kept apart.
        - return not
        + return
    """,
)


@MIXES_THE_BATCH.right
def with_another_neighbour(model, w, ids):
    other = ids.copy()
    other[1:] = (other[1:] + 3) % VOCABULARY
    return not np.allclose(model(w, ids).data[0], model(w, other).data[0])


# -- unused ------------------------------------------------------------------------------------------------------------


def probe_unused(unused: Any) -> dict[str, Any]:
    w = new_weights()
    found = {f"the weights that play no part, with {name}": unused(one, w, tokens()) for name, one in models().items()}
    return {name: list(names) for name, names in reversed(found.items())}


def real_unused(model, w, ids):
    fresh = {name: Parameter(one.data) for name, one in w.items()}
    (model(fresh, ids) ** 2).sum().backward()
    rows = {name: 0 if one.grad is None else np.abs(one.grad).sum(axis=1).min() for name, one in fresh.items()}
    return sorted(name for name, least in rows.items() if least == 0)


UNUSED = Exercise(
    unused,
    probe_unused,
    real_unused,
    source="autograd.tensor.Tensor.backward",
    hints=(
        "By how much does the loss change, if a number changes that the model never looks at?",
        "`positions` has 6 rows. If every word gets row 0, the gradient of rows 1 to 5 is 0, and that of row 0 is not.",
        "(model(w, ids) ** 2).sum().backward(); then a name counts if grad is None or (grad == 0).all(axis=1).any().",
    ),
    changes="""
        This finds only weights of which *no* row is used. A single unused row is suspicious: .all(axis=1).any().
        - .all(axis=1).any()
        + .all()
        This names every weight with a single 0 in its gradient. A row is unused only if its whole gradient is 0.
        - .all(axis=1).any()
        + .any()
        The gradients of the previous call are still there, so a weight that was used then still counts as used: set the
        gradients to None first.
        - parameter.grad = None
        + pass
        A weight that was never touched has no gradient at all: `grad` is None, which has no rows.
        - one.grad is None or
        +
    """,
)


@UNUSED.right
def row_by_row(model, w, ids):
    for one in w.values():
        one.grad = None
    logits = model(w, ids)
    (logits * np.random.default_rng(0).standard_normal(logits.shape)).sum().backward()
    return sorted(name for name, one in w.items() if one.grad is None or any(not row.any() for row in one.grad))


# -- mended ------------------------------------------------------------------------------------------------------------


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


def some_left() -> str:
    """Return the text of `changes` for all models with five, four, ... or one of the mistakes of `suspect`."""
    lines = []
    for count in range(5, 0, -1):
        for left in combinations(FIVE, count):
            done = " and ".join(name for name in FIVE if name not in left)
            lines.append(f"Mended: {done}; {count} to go. {FIVE[left[0]][0]}")
            lines += [FIVE[name][1] for name in left]
    lines[0] = "This is `suspect` as it was given, with all of its five mistakes. Run your tools on it."
    return "\n".join(lines)


MENDED = Exercise(
    mended,
    probe_mended,
    real_mended,
    source="models.language_model",
    hints=(
        "Which of your tools says that something is wrong with `suspect`, and which line can cause just that?",
        "2 mistakes let the future in, 1 mixes the batch, and `unused` names 2 weights: 5 in all.",
        "np.tri(length, dtype=bool); ops.softmax(scores, axis=2); axis=2 in mean and variance; w[f'down{i}']; "
        "w['positions'][:length].",
    ),
    changes=some_left(),
)


@MENDED.right
def with_handlooms_norm(w, ids):
    return real_mended(w, ids) + 0.0
