"""PyTorch as an oracle: its own test inputs, through both libraries. The machinery is in `tests/support/opinfo.py`."""

from __future__ import annotations

import importlib.util
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.support.torch_names import TORCH_OPS

NEEDED = ("torch", "expecttest", "scipy")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"the oracle is not installed: {', '.join(MISSING)}"),
]
DOCS = Path(__file__).parents[3] / "docs" / "verification.md"


@pytest.fixture(scope="module")
def oracle() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, while it is imported
        from tests.support import opinfo
    return opinfo


@pytest.mark.parametrize("name", TORCH_OPS)
def test_agrees_with_pytorch(name: str, oracle: Any) -> None:
    tally = oracle.examine(name)
    assert tally.samples + tally.random > 0
    assert [finding for finding in tally.findings if oracle.reason_for(name, finding) is None] == []
    for deviation in oracle.DEVIATIONS:
        if name in deviation.names:
            assert any(deviation.covers(name, finding) for finding in tally.findings), f"no longer needed: {deviation}"


def test_the_counts_are_those_in_the_docs(oracle: Any) -> None:
    version = oracle.torch.__version__.partition("+")[0]
    documented = re.search(r"With torch ([\d.]+):", DOCS.read_text(encoding="utf-8"))[1]
    if version != documented:
        pytest.skip(f"the docs have the counts of torch {documented}, this is {version}")
    text, unexplained = oracle.report()
    assert unexplained == 0
    assert text in DOCS.read_text(encoding="utf-8"), f"docs/verification.md is out of date; the report is now\n{text}"
    names, samples = (int(re.search(rf"\| {row} \| (\d+)", text)[1]) for row in ("names of ops", "samples.*dtype"))
    share = float(re.search(r"\((.*)%\)", text)[1])
    assert (names > 110, samples > 1500, share <= 3) == (True, True, True), text
