"""Test properties of the documentation site that `make docs`, where warnings are errors, does not check."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sphinx", reason="the extra docs is not installed")

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def conf() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "conf.py"))


def test_the_reference_has_modules_and_no_commands(conf) -> None:
    found = conf["modules"]()
    assert {"handloom.doctor", "handloom.errors", "handloom.files"} <= set(found["handloom"])
    assert not [name for names in found.values() for name in names if name.endswith("__main__")]
    assert found["handloom.examples"] == []
    assert "handloom.examples.tables.news" in found["handloom.examples.tables"]
    assert "handloom.train.runs.saves" in found["handloom.train.runs"]


def test_formulas_are_drawn_with_subscripts_below_the_baseline(conf) -> None:
    formulas = [
        formula.replace("\n", " ")
        for page in (ROOT / "docs").glob("*.md")
        for formula in re.findall(r"\$\$(.+?)\$\$", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    assert len(formulas) >= 5
    assert all(conf["outlines"](formula).count("M") >= 2 for formula in formulas)

    def lowest(formula: str) -> float:
        return max(float(y) for y in re.findall(r"[ML]\S+ (-?[\d.]+)", conf["outlines"](formula)))

    assert lowest("xij") < lowest("x_{ij}") - 1


def test_every_command_of_the_makefile_runs_though_a_folder_has_its_name() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony
    assert set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE)) == set(phony[1].split())
