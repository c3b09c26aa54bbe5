"""The engine requires of every backward rule: return no array that the op holds, and change no array of others."""

import contextlib
import copy
import zlib
from collections.abc import Iterator
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Tensor, grad
from handloom.autograd.catalogue import CATALOGUE, OpSpec
from tests.support.derivatives import called


def calls(spec: OpSpec, dtype: Any = np.float64) -> Iterator[tuple[list[Tensor], list[Tensor], list[np.ndarray]]]:
    """Yield leaves, differentiable outputs and output gradients of some calls of an op."""
    rng = np.random.default_rng(zlib.crc32(spec.name.encode()))
    for sample in spec.samples(rng, dtype, 8):
        leaves, results = called(spec.function, copy.deepcopy(sample.args), sample.differentiable or (), sample.kwargs)
        outputs = [out for out in results if out.requires_grad]
        if leaves and outputs:
            yield leaves, outputs, [rng.normal(size=out.shape).astype(out.dtype) for out in outputs]


def values(tensors: list[Tensor]) -> list[np.ndarray]:
    return [tensor.data.copy() for tensor in tensors]


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_changed_leaf_is_refused_or_harmless(name) -> None:
    """An op must save its inputs in a way that lets the engine detect in-place changes."""
    for leaves, outputs, v in calls(CATALOGUE[name]):
        expected = values(grad(outputs, leaves, v, retain_graph=True))
        for leaf in leaves:
            leaf.data[...] = leaf.data * 0.5 + 0.1
            leaf.mark_changed()
        found = expected
        with contextlib.suppress(RuntimeError):  # refused
            found = values(grad(outputs, leaves, v))
        np.testing.assert_equal(expected, found)


def some_of(things: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield every non-empty combination, the largest first."""
    return chain.from_iterable(combinations(things, count) for count in range(len(things), 0, -1))


@pytest.mark.parametrize("name", CATALOGUE)
def test_any_of_the_inputs_and_outputs_may_take_part(name) -> None:
    """Gradients don't depend on which other inputs require a gradient, nor on `create_graph`."""
    spec = CATALOGUE[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for sample in spec.samples(rng, np.float64, 4):
        seed = int(rng.integers(1 << 32))
        all_outputs: dict[tuple[int, ...], list[np.ndarray]] = {}
        for chosen in some_of(list(sample.differentiable or ())):
            leaves, outputs = called(spec.function, sample.args, chosen, sample.kwargs)
            for used in some_of([place for place, out in enumerate(outputs[:3]) if out.requires_grad]):
                given = [np.random.default_rng(seed + i).normal(size=outputs[i].shape) for i in used]
                found = values(grad([outputs[i] for i in used], leaves, given, retain_graph=True))
                recorded = values(grad([outputs[i] for i in used], leaves, given, create_graph=True))
                expected = dict(zip(sample.differentiable, all_outputs.setdefault(used, found), strict=False))
                for place, a, b in zip(chosen, found, recorded, strict=True):
                    np.testing.assert_allclose(a, expected[place], rtol=1e-9, atol=1e-12)
                    np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", CATALOGUE)
def test_rules_give_nothing_away_and_leave_the_output_gradient_alone(name) -> None:
    for leaves, outputs, v in calls(CATALOGUE[name]):
        given = [g.copy() for g in v]
        expected: list[np.ndarray] = []
        for _ in range(2):
            for leaf in leaves:
                leaf.grad = None
            for output, g in zip(outputs, v, strict=True):
                output.backward(g, retain_graph=True)
            found = [np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.copy() for leaf in leaves]
            np.testing.assert_equal(expected or found, found)
            expected = found
            for leaf in leaves:
                if leaf.grad is not None:
                    leaf.grad[...] = np.nan  # would reach the second pass if a rule had returned an array that it holds
        np.testing.assert_equal(given, v)
