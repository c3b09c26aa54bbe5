"""Tests of the ops' tests: they notice every planted wrong rule, and pass harmless rewrites."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.mutant_list import CONTROLS, MUTANTS, OF_FORMS
from tests.support.mutants import CONTROL_SEEDS, SEEDS, Mutant, failure, planted

pytestmark = pytest.mark.slow
ALL = (*MUTANTS, *OF_FORMS)


@pytest.mark.parametrize("mutant", ALL, ids=[f"{i}-{m.where.partition(':')[2]}" for i, m in enumerate(ALL)])
def test_a_wrong_rule_is_noticed(mutant: Mutant) -> None:
    assert failure(mutant, SEEDS) is not None, mutant


@pytest.mark.parametrize("control", CONTROLS, ids=[m.where.partition(":")[2] for m in CONTROLS])
def test_a_harmless_rewrite_is_not(control: Mutant) -> None:
    assert failure(control, CONTROL_SEEDS) is None


def test_there_are_mutants_of_every_family() -> None:
    page = (Path(__file__).parents[3] / "docs" / "verification.md").read_text(encoding="utf-8")
    assert f"caught {len(ALL)} of {len(ALL)}" in page
    assert f"{len(OF_FORMS)} are in plain and quick implementations" in " ".join(page.split())
    assert len({m.family for m in MUTANTS}) >= 12


def test_a_mutant_that_no_longer_fits_the_source_says_so() -> None:
    stale = Mutant("arithmetic", "add", "ops.elementwise:Add.backward", "no such text", "")
    with pytest.raises(ValueError, match="occurs 0 times"), planted(stale):
        pass
