"""The machine code of the attention kernels keeps the instruction budget and agrees with the tables of the docs."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.support import attention_budget as budget
from tests.support import nvrtc, sass
from tests.support.ladder import RUNGS

PAGE = Path(__file__).parents[3] / "docs" / "flash_attention.md"
RECORDED = json.loads(budget.RECORD.read_text(encoding="utf-8"))
missing = nvrtc.missing() or sass.missing()
reads = pytest.mark.skipif(missing is not None, reason=str(missing))


def test_the_tables_of_the_docs_are_those_of_the_record() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, write in budget.TABLES.items():
        found = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- end -->", page, re.DOTALL)
        assert found is not None
        assert found[1] == write(RECORDED), f"run: {RECORDED['command']}"


@pytest.mark.parametrize("case", budget.CASES, ids=str)
def test_the_record_is_of_the_kernels_as_they_are_and_keeps_the_budget(case) -> None:
    assert RECORDED["digests"][str(case)] == nvrtc.digest(case.file, case.constants), f"run: {RECORDED['command']}"
    for gpu in budget.GPUS:
        budget.check(case, sass.Pass(**RECORDED["passes"][f"{case} {gpu.architecture}"]))


@reads
@pytest.mark.parametrize("case", budget.CASES, ids=str)
def test_the_machine_code_is_what_the_record_says(case) -> None:
    x = budget.measure(case, "sm_90")
    budget.check(case, x)
    if RECORDED["nvrtc"] == nvrtc.version():
        assert asdict(x) == RECORDED["passes"][f"{case} sm_90"], f"run: {RECORDED['command']}"


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_the_ladder_s_figures_are_of_its_kernels_as_they_are(rung) -> None:
    assert RECORDED["digests"][rung.name] == nvrtc.digest(rung.file, {}), f"run: {RECORDED['command']}"
    if missing is None and RECORDED["nvrtc"] == nvrtc.version():
        assert budget.slots_of_rung(rung) == RECORDED["ladder"][rung.name], f"run: {RECORDED['command']}"
