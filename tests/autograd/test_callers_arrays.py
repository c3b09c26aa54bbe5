"""Arrays of the caller that are changed between a call and its backward pass: the gradients are those of the call.

Whatever an op keeps of an array that it got is a copy, so that a buffer can be filled again: a mask, ids, targets,
class weights, lengths, or a plain array among the operands. Tensors are not copied: the engine notices their changes.
"""

import zlib
from typing import Any

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import Tensor, grad, manual_seed, ops
from handloom.autograd.catalogue import CATALOGUE, Draw, Sample

DRAWS = 8


def arrays_in(value: Any) -> list[np.ndarray]:
    """Return the arrays in an argument: itself, or those in its lists, tuples and dictionaries."""
    if isinstance(value, np.ndarray):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [array for part in parts for array in arrays_in(part)]


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(copied, value))
    return value.copy() if isinstance(value, np.ndarray) else value


def change(array: np.ndarray) -> None:
    """Overwrite an array with other numbers of its kind. Indices stay in range: 0 and -1 are valid everywhere."""
    if array.dtype.kind == "b":
        array[...] = ~array
    elif array.dtype.kind == "i":
        array[...] = np.where(array == 0, -1 if array.min(initial=0) < 0 else 1, 0)
    elif array.dtype.kind == "f":
        array[...] = 3 - array


def gradients(name: str, sample: Sample, recorded: set[int], changed: bool, create_graph: bool) -> list[np.ndarray]:
    """Return the gradients of the arguments `recorded`; `changed`: after the call, all other arrays are overwritten."""
    args, kwargs = copied(sample.args), copied(sample.kwargs)
    leaves = [Tensor(args[i], requires_grad=True) for i in sorted(recorded)]
    given = [leaves[sorted(recorded).index(i)] if i in recorded else arg for i, arg in enumerate(args)]
    out = CATALOGUE[name].function(*given, **kwargs)
    outputs = [
        x for x in (out if isinstance(out, list | tuple) else [out]) if isinstance(x, Tensor) and x.requires_grad
    ]
    if changed:
        for array in arrays_in([arg for i, arg in enumerate(args) if i not in recorded]) + arrays_in(kwargs):
            change(array)
    rng = np.random.default_rng(0)
    cotangents = [rng.standard_normal(x.shape).astype(x.dtype) for x in outputs]
    return [g.data for g in grad(outputs, leaves, cotangents, create_graph=create_graph)] if outputs else []


@pytest.mark.parametrize(("create_graph", "dtype"), [(False, np.float32), (True, np.float64)])
@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_an_array_may_be_changed_after_the_call(name, create_graph, dtype) -> None:
    """Every array that the op gets, other than the Tensor that requires a gradient, is overwritten."""
    for seed in range(DRAWS):
        sample = CATALOGUE[name].draw(Draw.seeded(np.random.default_rng([zlib.crc32(name.encode()), seed]), dtype))
        possible = sample.differentiable or ()
        for recorded in {frozenset(possible), *(frozenset({i}) for i in possible)} - {frozenset()}:
            with np.errstate(all="ignore"):
                expected, found = (gradients(name, sample, set(recorded), x, create_graph) for x in (False, True))
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_array_equal(ours, theirs, err_msg=f"{recorded} of {sample}")


def test_layers_and_losses_may_be_given_buffers_that_are_filled_again() -> None:
    """Ids, masks, lengths and targets of a model of layers are changed between its loss and the backward pass."""
    manual_seed(0)
    embedding, encoder = nn.Embedding(9, 8), nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3)
    attention, output = nn.MultiHeadAttention(8, 2, positions="alibi"), nn.Linear(8, 9)
    parameters = [p for layer in (embedding, encoder, attention, output) for p in layer.parameters()]
    rng, results = np.random.default_rng(0), []
    arrays = [rng.integers(0, 9, (2, 5)), np.tril(np.ones((5, 5), bool)), np.array([5, 3]), rng.integers(0, 9, (2, 5))]
    arrays.append(rng.uniform(0.5, 2, 9).astype(np.float32))
    for changed in (False, True):
        ids, mask, lengths, target, weight = given = copied(arrays)
        manual_seed(1)
        hidden = encoder(embedding(ids), lengths=lengths)
        hidden = attention(hidden, mask=mask)
        loss = ops.cross_entropy(output(hidden), target, weight=weight, ignore_index=0, label_smoothing=0.1)
        loss = loss + ops.linear_cross_entropy(hidden, output.weight, output.bias, target, class_weight=weight)
        if changed:
            for array in given:
                change(array)
        results.append([g.data for g in grad(loss, parameters)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, theirs)
