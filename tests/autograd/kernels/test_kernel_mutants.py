"""The tests of the kernels are tested: `make kernel-mutants` plants all bugs, here is every third of one file."""

from __future__ import annotations

import pytest

from handloom.autograd.gradcheck.planting import function_at, source_of
from handloom.autograd.kernels.loading import FOLDER, read_source
from tests.support.cuda_emulator import compiler_missing
from tests.support.kernel_mutant_list import MUTANTS, columns
from tests.support.kernel_mutants import KernelMutant, examine, failure, planted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler_missing() is not None, reason=str(compiler_missing())),
]


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.file == "columns.cu"][::3], ids=lambda mutant: mutant.kind)
def test_a_planted_bug_is_noticed(mutant: KernelMutant) -> None:
    assert failure(mutant) is not None
    examine(mutant.check)  # and gone again, the test passes


def test_a_harmless_rewrite_is_not() -> None:
    old, new = "sum[i] += own[256 * warp + 32 * i];", "sum[i] = own[256 * warp + 32 * i] + sum[i];"
    assert failure(KernelMutant("control", "columns.cu", old, new, columns)) is None


def test_every_file_has_bugs_and_each_fits_the_source_as_it_is() -> None:
    """A rewritten line takes its bugs along; noticed here, not when the long run gets there."""
    files = {mutant.file for mutant in MUTANTS}
    assert files >= {path.name for path in FOLDER.glob("*.cu")}
    sources = {file: source_of(function_at(file)) if ":" in file else read_source(file) for file in files}
    assert [str(mutant) for mutant in MUTANTS if sources[mutant.file].count(mutant.old) != 1] == []


def test_a_bug_that_no_longer_fits_the_source_says_so() -> None:
    stale = KernelMutant("stale", "columns.cu", "no such text", "", columns)
    with pytest.raises(ValueError, match="occurs 0 times"), planted(stale):
        examine(columns)
