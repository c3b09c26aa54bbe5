"""Chapter 12, the exercises: attention with a cache, the initial state, a step, and the selection of sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import Tensor, no_grad
from ...models import Seq2SeqTransformer
from ...models.generation.cache import TreeCache
from ...models.generation.raw_layers import attend as raw_attend
from ..exercise import Exercise, Wrong, need
from .c09_translate import HEADS, LAYERS, model
from .c12_cache_solution import State, attend, attend_new, linear, merge, project, select, start, step
from .c12_cache_solution import feed_forward as feed
from .c12_cache_solution import norm as normed

SOURCE = np.array([[5, 6, 10, 3], [8, 2, 0, 0]])


SAID = np.array([[1, 8, 4, 10], [1, 5, 5, 7]])


def encoded(source: np.ndarray = SOURCE) -> tuple[Seq2SeqTransformer, np.ndarray]:
    made = model()
    with no_grad():
        return made, made.encode(source)[0].data


def made(memory, source, w, heads, layers, *, name="multihead_attn", which=(1, 2), only=False, mask="word"):
    """Return an initial state, with the mistakes that the keyword arguments choose."""
    names = [f"decoder.layers.{0 if only else i}.{name}" for i in range(layers)]
    keys, values = ([project(memory, w, name, number, heads) for name in names] for number in which)
    masks = {"word": source != 0, "pad": source == 0, "all": source == source}
    return State(keys, values, masks[mask][:, None, None, :])


# -- attend_new --------------------------------------------------------------------------------------------------------


def probe_attend_new(attend_new: Any) -> dict[str, Any]:
    q, k, v = np.random.default_rng(12).standard_normal((3, 2, 2, 4, 3))
    last = (x[:, :, 3:] for x in (q, k, v))
    first = need(attend_new(q[:, :, :1], k[:, :, :1], v[:, :, :1], k[:, :, :0], v[:, :, :0]), tuple, "attend_new(...)")
    names = "what it gets", "the keys", "the values"
    found = {f"{name}, of the first word": x for name, x in zip(names, first, strict=True)}
    later = attend_new(*last, k[:, :, :3], v[:, :, :3])
    return found | {f"{name}, of the fourth word": x for name, x in zip(names, later, strict=True)}


def real_attend_new(q, k, v, keys, values):
    batch, heads, past, e = keys.shape
    cache = TreeCache(1, batch, heads, e, keys.dtype, np)
    if past:
        cache.extend(0, past)
        cache.append(0, keys, values)
    cache.extend(past)
    keys, values = cache.append(0, k, v)
    merged, _ = raw_attend(q * e**-0.5, keys, values, None)
    return merged.swapaxes(1, 2), keys, values


ATTEND_NEW = Exercise(
    attend_new,
    probe_attend_new,
    real_attend_new,
    source="models.generation.cache.TreeCache.append",
    hints=(
        "Of (batch, heads, words, e), which axis grows by one with each word?",
        "With 3 words in the past the keys are (2, 2, 3, 4), and afterwards (2, 2, 4, 4). The new word's query sees "
        "all 4.",
        "keys, values = np.concatenate([keys, k], axis=2), np.concatenate([values, v], axis=2); return attend(q, "
        "keys, values), keys, values.",
    ),
    changes="""
        The new word looks at the words before it, but not at itself: append its key and value first, then attend. (The
        first word would have nothing to look at.)
        - attend(q, keys, values)
        + attend(q, keys[:, :, :-1], values[:, :, :-1])
        The new word looks only at itself. Keep the earlier keys and values: append the new key after the others.
        - attend(q, keys, values), keys, values
        + attend(q, k, v), k, v
        The output is right, but the key and value of the new word are not among those that are returned.
        - return attend(q, keys, values), keys, values
        + return attend(q, keys, values), keys[:, :, :-1], values[:, :, :-1]
        The new key comes before the others. The output is the same, but the weights no longer show which word is looked
        at: the oldest key comes first.
        - [keys, k]
        + [k, keys]
        - [values, v]
        + [v, values]
        The new keys are joined to the others along the wrong axis. The words are on axis 2 of (batch, heads, words, e).
        - axis=2
        + axis=1
    """,
)


@ATTEND_NEW.right
def in_new_arrays(q, k, v, keys, values):
    batch, heads, past, e = keys.shape
    longer, more = (np.empty((batch, heads, past + 1, e)) for _ in range(2))
    longer[:, :, :past], more[:, :, :past], longer[:, :, past:], more[:, :, past:] = keys, values, k, v
    return attend(q, longer, more), longer, more


# -- start -------------------------------------------------------------------------------------------------------------


def probe_start(start: Any) -> dict[str, Any]:
    made, memory = encoded()
    state = start(memory, SOURCE, made.state_dict(), HEADS, LAYERS)
    if not hasattr(state, "memory_keys"):
        need(state, State, "start(...)")  # the learner's State is a different class
    if np.shape(state.memory_mask) != (2, 1, 1, 4):
        raise Wrong(
            f"memory_mask has the shape {np.shape(state.memory_mask)}; it should be (batch, 1, 1, source length), "
            "here (2, 1, 1, 4): one axis for the heads, one for the queries. mask[:, None, None, :] adds these axes."
        )
    return {
        "the first layer's keys of the source": state.memory_keys[0],
        "the first layer's values of the source": state.memory_values[0],
        "the keys of all layers": np.stack(state.memory_keys),
        "the values of all layers": np.stack(state.memory_values),
        "the mask of the source": state.memory_mask,
    }


def real_start(memory, source, w, heads, layers, pad=0):
    made = model()
    made.load_state_dict(w)
    cross = [layer.cross.keys_values(memory) for layer in made.raw_decoder(packed=False).layers]
    return State([keys for keys, _ in cross], [values for _, values in cross], (source != pad)[:, None, None, :])


START = Exercise(
    start,
    probe_start,
    real_start,
    source="models.generation.raw_layers.RawAttention.keys_values",
    hints=(
        "In the attention to the source, what changes from word to word: the queries, the keys or the values?",
        "For 2 layers there are 2 arrays of keys and 2 of values. which = 1 gives keys, which = 2 values.",
        "[project(memory, w, f'decoder.layers.{i}.multihead_attn', 1, heads) for i in range(layers)] are the keys, "
        "with 2 the values; State(keys, values, (source != pad)[:, None, None, :]).",
    ),
    changes="""
        These are queries and keys (which = 0 and 1). Store keys and values: which = 1 and 2.
        - (1, 2)
        + (0, 1)
        Keys and values are exchanged: which = 1 are the keys, 2 the values.
        - (1, 2)
        + (2, 1)
        These are made with the weights of self_attn. The attention to the source has its own weights: multihead_attn.
        - multihead_attn
        + self_attn
        This is right for the first layer. Each layer has its own weights, so it has its own keys and values too.
        - layers.{i}
        + layers.0
        The mask is True at the padding. It should be True at the words.
        - source != pad
        + source == pad
        No word may look at the padding of the source: the mask is False there.
        - source != pad
        + source == source
    """,
)


@START.right
def layer_by_layer(memory, source, w, heads, layers, pad=0):
    both = [
        [project(memory, w, f"decoder.layers.{i}.multihead_attn", which, heads) for i in range(layers)]
        for which in (1, 2)
    ]
    return State(*both, np.where(source == pad, False, True)[:, None, None])


# -- step --------------------------------------------------------------------------------------------------------------


def probe_step(step: Any) -> dict[str, Any]:
    def logits(source: np.ndarray, said: np.ndarray) -> list[Any]:
        made, memory = encoded(source)
        state = start(memory, source, made.state_dict(), HEADS, LAYERS)
        state.source = source  # for `real`
        return [step(ids, state, made.state_dict(), HEADS) for ids in said.T]

    one, two = logits(SOURCE[:1], SAID[:1]), logits(SOURCE, SAID)
    return {
        "the logits after <bos>": one[0],
        "the logits after two words": one[1],
        "the logits after four words": one[3],
        "the logits of two sentences, one with padding": two[3],
    }


def real_step(ids, state, w, heads):
    if not hasattr(state, "twin"):
        made = model()
        made.load_state_dict(w)
        state.twin = made.start(state.source)
    return state.twin.step(ids[:, None]).copy()


STEP = Exercise(
    step,
    probe_step,
    real_step,
    source="models.generation.cached.CachedState.step",
    hints=(
        "At which position is the new word, if state.length words have been said?",
        "After 3 words it is position 3: the last row of a table of 4 positions. x has the shape (batch, 1, d), and "
        "3 things happen in a layer, as in chapter 9.",
        "mixed, state.keys[i], state.values[i] = attend_new(q, k, v, state.keys[i], state.values[i]); for the "
        "source attend(project(x, w, f'{name}.multihead_attn', 0, heads), state.memory_keys[i], "
        "state.memory_values[i], state.memory_mask); x begins as table[ids][:, None] * np.sqrt(d) + "
        "sinusoidal_table(state.length + 1, d)[-1].",
    ),
    changes="""
        This is right for the first word. All later words are at position 0 here, too. The new word comes after the
        state.length words that were said before.
        - sinusoidal_table(state.length + 1, d)[-1]
        + sinusoidal_table(1, d)[0]
        The position of the new word is too high by one: the first word, for which state.length is 0, is at position 0.
        - state.length + 1
        + state.length + 2
        The new keys and values are not put into the state, so the next word does not see this one.
        - mixed, state.keys[i], state.values[i] =
        + mixed, _, _ =
        All layers share one list of keys. Each layer computes its keys from other vectors with another matrix: use
        state.keys[i] and state.values[i].
        - state.keys[i]
        + state.keys[0]
        - state.values[i]
        + state.values[0]
        This is right without padding in the source. In the second step attend(...) needs state.memory_mask.
        - , state.memory_mask)
        + )
        The second query is computed from the word's embedding. It should be computed from x as it is after the first
        step.
        - for i in range
        + first = x
        + for i in range
        - q = project(x
        + q = project(first
    """,
)


def stepped(ids, state, w, heads, *, position=None, keep=True, cache=None, masked=True, layer_input=False):
    """Compute a step, with the mistakes that the keyword arguments choose."""
    from ...nn.positional import sinusoidal_table

    table = w["target_embedding.weight"]
    d = table.shape[1]
    at = state.length if position is None else position
    x = table[ids][:, None] * np.sqrt(d) + sinusoidal_table(state.length + 2, d)[at]
    first = x
    for i in range(len(state.keys)):
        name, slot = f"decoder.layers.{i}", i if cache is None else cache
        q, k, v = (project(x, w, f"{name}.self_attn", which, heads) for which in range(3))
        mixed, keys, values = attend_new(q, k, v, state.keys[slot], state.values[slot])
        if keep:
            state.keys[slot], state.values[slot] = keys, values
        x = normed(x + merge(mixed, w, f"{name}.self_attn"), w, f"{name}.norm1")
        q = project(first if layer_input else x, w, f"{name}.multihead_attn", 0, heads)
        mask = state.memory_mask if masked else np.True_
        mixed = attend(q, state.memory_keys[i], state.memory_values[i], mask)
        x = normed(x + merge(mixed, w, f"{name}.multihead_attn"), w, f"{name}.norm2")
        x = normed(x + feed(x, w, name), w, f"{name}.norm3")
    return linear(x, w, "output")[:, 0]


@STEP.right
def sentence_by_sentence(ids, state, w, heads):
    """A correct answer that computes each sentence separately."""
    rows = np.arange(len(ids))
    parts, logits = [], []
    for row in rows:
        part = State(
            [x[[row]] for x in state.memory_keys], [x[[row]] for x in state.memory_values], state.memory_mask[[row]]
        )
        part.keys, part.values = [x[[row]] for x in state.keys], [x[[row]] for x in state.values]
        logits.append(stepped(Tensor(ids[[row]]).data, part, w, heads))
        parts.append(part)
    for name in ("keys", "values"):
        layers = zip(*(getattr(part, name) for part in parts), strict=True)
        setattr(state, name, [np.concatenate(arrays) for arrays in layers])
    return np.concatenate(logits)


# -- select ------------------------------------------------------------------------------------------------------------


def probe_select(select: Any) -> dict[str, Any]:
    def after(rows: list[int], source: np.ndarray = SOURCE) -> Any:
        made, memory = encoded(source)
        w = made.state_dict()
        state = start(memory, source, w, HEADS, LAYERS)
        state.source = source
        say = real_step if select is real_select else step
        for ids in SAID.T[:2]:
            say(ids, state, w, HEADS)
        select(state, np.array(rows))
        return say(np.array([9, 3]), state, w, HEADS)

    return {
        "the next logits when all stay": after([0, 1]),
        "the next logits when two sentences, of one source, change places": after([1, 0], SOURCE[[0, 0]]),
        "the next logits when sentences of two sources change places": after([1, 0]),
        "the next logits when one goes on twice": after([1, 1]),
    }


def real_select(state, rows):
    state.twin.select(rows)


SELECT = Exercise(
    select,
    probe_select,
    real_select,
    source="models.generation.cache.TreeCache.select",
    hints=(
        "Which things in the state have a row for each sentence of the batch?",
        "There are 5: keys, values, memory_keys and memory_values, which are lists of arrays, and memory_mask. Rows "
        "[1, 1, 0] of 2 sentences make 3.",
        "state.memory_mask = state.memory_mask[rows]; for each list of arrays: arrays[:] = [array[rows] for array "
        "in arrays].",
    ),
    changes="""
        Nothing moves yet: the state stays as it was.
        - state.memory_mask = state.memory_mask[rows]
        + return
        The keys move, but the values stay: then the weights belong to one sentence and the values to another.
        - state.memory_mask = state.memory_mask[rows]
        + pass
        - (state.keys, state.values, state.memory_keys, state.memory_values)
        + (state.keys,)
        The words that were said move, but the source does not. This is right only as long as all sentences have the
        same source. memory_keys, memory_values and memory_mask have a row for each sentence too.
        - state.memory_mask = state.memory_mask[rows]
        + pass
        - (state.keys, state.values, state.memory_keys, state.memory_values)
        + (state.keys, state.values)
        Everything moves except memory_mask: then a sentence gets the padding of another sentence.
        - state.memory_mask = state.memory_mask[rows]
        + pass
        The arrays of the first layer move, but those of the other layers stay.
        - arrays[:] = [array[rows] for array in arrays]
        + arrays[0] = arrays[0][rows]
        A row that is named twice must be kept twice.
        - [rows]
        + [np.unique(rows)]
    """,
)


@SELECT.right
def by_copies(state, rows):
    for name in ("keys", "values", "memory_keys", "memory_values"):
        setattr(state, name, [np.stack([array[row] for row in rows]) for array in getattr(state, name)])
    state.memory_mask = np.take(state.memory_mask, rows, axis=0)
