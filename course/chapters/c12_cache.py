"""Chapter 12, the exercises: attention with a cache, the initial state, a step, and the selection of sentences."""

from typing import Any

import numpy as np

from ...autograd import no_grad
from ...models import Seq2SeqTransformer
from ...models.generation.cache import TreeCache
from ...models.generation.raw_layers import attend as raw_attend
from ..exercise import Wrong, need
from .c09_translate import HEADS, LAYERS, model
from .c12_cache_solution import State, start, step

SOURCE = np.array([[5, 6, 10, 3], [8, 2, 0, 0]])
SAID = np.array([[1, 8, 4, 10], [1, 5, 5, 7]])


def encoded(source: np.ndarray = SOURCE) -> tuple[Seq2SeqTransformer, np.ndarray]:
    made = model()
    with no_grad():
        return made, made.encode(source)[0].data


def probe_attend_new(attend_new: Any) -> dict[str, Any]:
    q, k, v = np.random.default_rng(12).standard_normal((3, 2, 2, 4, 3))
    last = (x[:, :, 3:] for x in (q, k, v))
    first = need(attend_new(q[:, :, :1], k[:, :, :1], v[:, :, :1], k[:, :, :0], v[:, :, :0]), tuple, "attend_new(...)")
    names = "the output", "the keys", "the values"
    found = {f"{name} for the first word": x for name, x in zip(names, first, strict=True)}
    later = attend_new(*last, k[:, :, :3], v[:, :, :3])
    return found | {f"{name} for the fourth word": x for name, x in zip(names, later, strict=True)}


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
        "the mask with pad=3": start(memory, SOURCE, made.state_dict(), HEADS, LAYERS, pad=3).memory_mask,
    }


def real_start(memory, source, w, heads, layers, pad=0):
    made = model()
    made.load_state_dict(w)
    cross = [layer.cross.keys_values(memory) for layer in made.raw_decoder(packed=False).layers]
    return State([keys for keys, _ in cross], [values for _, values in cross], (source != pad)[:, None, None, :])


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
