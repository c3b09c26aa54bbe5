"""Check that the tests of ops and kernels catch every planted bug and pass for harmless rewrites.

`make kernel-mutants` plants all kernel bugs; this file plants every third bug of `columns.cu`.
"""

from pathlib import Path

import pytest

from handloom.autograd.kernels.loading import FOLDER
from tests.support.cuda_emulator import compiler_missing
from tests.support.kernel_mutant_list import KERNEL_MUTANTS, columns
from tests.support.mutant_list import CONTROLS, MUTANTS, OF_FORMS
from tests.support.mutants import CONTROL_SEEDS, Mutant, examine, failure, kernel_mutant, planted, source

pytestmark = pytest.mark.slow
emulated = pytest.mark.skipif(compiler_missing() is not None, reason=str(compiler_missing()))
ALL = (*MUTANTS, *OF_FORMS)
OF_COLUMNS = [m for m in KERNEL_MUTANTS if m.where == "columns.cu"]


@pytest.mark.parametrize("mutant", ALL, ids=[f"{i}-{m.where.partition(':')[2]}" for i, m in enumerate(ALL)])
def test_a_wrong_rule_is_noticed(mutant: Mutant) -> None:
    assert failure(mutant) is not None, mutant


@emulated
@pytest.mark.parametrize("mutant", OF_COLUMNS[::3], ids=lambda mutant: mutant.kind)
def test_a_bug_of_a_kernel_is_noticed(mutant: Mutant) -> None:
    assert failure(mutant) is not None
    examine(mutant.check)  # without the bug, the test passes


@pytest.mark.parametrize("control", CONTROLS, ids=[m.where.partition(":")[2] for m in CONTROLS])
def test_a_harmless_rewrite_is_not(control: Mutant) -> None:
    assert failure(control, CONTROL_SEEDS) is None


@emulated
def test_a_harmless_rewrite_of_a_kernel_is_not() -> None:
    old, new = "sum[i] += own[256 * warp + 32 * i];", "sum[i] = own[256 * warp + 32 * i] + sum[i];"
    assert failure(kernel_mutant("control", "columns.cu", old, new, columns)) is None


def test_there_are_mutants_of_every_family() -> None:
    page = (Path(__file__).parents[3] / "docs" / "verification.md").read_text(encoding="utf-8")
    assert f"caught {len(ALL)} of {len(ALL)}" in page
    assert f"{len(OF_FORMS)} are in plain and quick implementations" in " ".join(page.split())
    assert len({m.kind for m in MUTANTS}) >= 12
    assert {m.where for m in KERNEL_MUTANTS} >= {path.name for path in FOLDER.glob("*.cu")}


def test_every_bug_of_a_kernel_fits_the_source_as_it_is() -> None:
    """A bug no longer fits after its line is rewritten; this test reports it before the long run of all bugs does."""
    assert [str(mutant) for mutant in KERNEL_MUTANTS if source(mutant.where).count(mutant.old) != 1] == []


@pytest.mark.parametrize("where", ["ops.elementwise:Add.backward", "columns.cu"])
def test_a_mutant_that_no_longer_fits_the_source_says_so(where: str) -> None:
    with pytest.raises(ValueError, match="occurs 0 times"), planted(Mutant("stale", "add", where, "no such text", "")):
        pass
