"""Tests of the ops' tests: they notice every planted wrong rule, and pass harmless rewrites."""

from __future__ import annotations

import warnings

import pytest

from tests.support.forms import examine_forms
from tests.support.graph_check import check_graph
from tests.support.mutant_list import CONTROLS, MUTANTS, OF_FORMS
from tests.support.mutants import CONTROL_SEEDS, SEEDS, Mutant, examine, failure, planted

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mutant", MUTANTS, ids=[f"{i}-{m.where.partition(':')[2]}" for i, m in enumerate(MUTANTS)])
def test_a_wrong_rule_is_noticed(mutant: Mutant) -> None:
    assert failure(mutant, SEEDS) is not None, mutant
    if callable(mutant.check):
        examine(mutant.check, SEEDS)  # without the mutant the check passes


@pytest.mark.parametrize("mutant", OF_FORMS, ids=[f"{i}-{m.where.partition(':')[2]}" for i, m in enumerate(OF_FORMS)])
def test_a_mutant_in_one_form_is_noticed_by_the_other(mutant: Mutant) -> None:
    """By comparing forms alone, without references and difference quotients."""
    module = mutant.where.partition(":")[0].rpartition(".")[2]
    with planted(mutant), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            examine_forms(module)
        except Exception:  # whatever it is, the mutant has been noticed
            return
    raise AssertionError(str(mutant))


@pytest.mark.parametrize("control", CONTROLS, ids=[m.where.partition(":")[2] for m in CONTROLS])
def test_a_harmless_rewrite_is_not(control: Mutant) -> None:
    assert failure(control, CONTROL_SEEDS) is None


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs(seed: int) -> None:
    check_graph(seed)


def test_there_are_mutants_of_every_family() -> None:
    assert len(MUTANTS) >= 60
    assert len(CONTROLS) >= 4
    assert len({m.family for m in MUTANTS}) >= 12


def test_a_mutant_that_no_longer_fits_the_source_says_so() -> None:
    stale = Mutant("arithmetic", "add", "ops.elementwise:Add.backward", "no such text", "")
    with pytest.raises(ValueError, match="occurs 0 times"), planted(stale):
        pass
