"""One test for every op: draw samples from its specification, in all memory layouts and precisions, and check them.

`tests/support/op_checks.py` defines the checks, and `autograd/catalogue` defines the samples.
"""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handloom.autograd import ops
from handloom.autograd.catalogue import CATALOGUE, Draw
from handloom.autograd.ops import OPS
from tests.support.op_checks import LAYOUTS, check_all

# Second derivatives are checked in float64 only, so half of the draws are float64.
DTYPES = (np.float64, np.float64, np.float32, np.float16)
DRAWS = 500


@pytest.mark.parametrize("name", sorted(CATALOGUE))
@given(data=st.data())
def test_op(name: str, data: Any) -> None:
    # Hypothesis makes each choice interactively, while the sample is drawn.
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), label="seed"))
    dtype = data.draw(st.sampled_from(DTYPES), label="dtype")
    layout = data.draw(st.sampled_from(LAYOUTS), label="layout")
    check_all(CATALOGUE[name], Draw(lambda low, high: data.draw(st.integers(low, high)), rng, dtype), layout)


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_op_with_even_choices(name: str) -> None:
    """Hypothesis prefers simple samples; seeded draws choose all options equally often, in all layouts and dtypes."""
    cases = itertools.cycle(itertools.product(LAYOUTS, DTYPES))
    for seed, (layout, dtype) in zip(range(2 * settings().max_examples), cases, strict=False):
        check_all(CATALOGUE[name], Draw.seeded(np.random.default_rng(seed), dtype), layout)


def test_every_public_op_has_a_specification() -> None:
    public = {f.__name__ for f in vars(ops).values() if callable(f) and f.__module__.startswith(ops.__name__)}
    not_differentiated = {
        "zeros_like",
        "ones_like",
        "to_device",
        "zeros",
        "ones",
        "full",
        "arange",
        "rand",
        "randn",
        "rand_like",
        "randn_like",
    }
    not_differentiated |= {"randint", "multinomial", "rand_like", "randn_like"}
    assert public - not_differentiated == set(OPS) == set(CATALOGUE)


def test_every_op_says_what_it_does() -> None:
    assert [name for name, op in OPS.items() if not (op.function.__doc__ or "").strip()] == []


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_branch_of_a_specification_is_drawn(name: str) -> None:
    rng = np.random.default_rng(0)
    seen: dict[str, tuple[int, set[int]]] = {}
    for _ in range(DRAWS):
        source = Draw.seeded(rng)
        CATALOGUE[name].draw(source)
        for label, (options, chosen) in source.seen.items():
            assert seen.setdefault(label, (options, set()))[0] == options, f"{label!r} names two different choices"
            seen[label][1].update(chosen)
    missed = {label: options - len(chosen) for label, (options, chosen) in seen.items() if len(chosen) < options}
    assert missed == {}, f"{name}: options never drawn"
