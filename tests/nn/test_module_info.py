"""PyTorch as an oracle for layers: its own test inputs. The comparison is in `tests/support/module_info.py`."""

from __future__ import annotations

import importlib.util
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

NEEDED = ("torch", "expecttest", "scipy")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"the oracle is not installed: {', '.join(MISSING)}"),
]
DOCS = Path(__file__).parents[2] / "docs" / "verification.md"


@pytest.fixture(scope="module")
def oracle() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, while it is imported
        from tests.support import module_info
    return module_info


def test_layers_agree_with_pytorch_and_the_counts_are_those_in_the_docs(oracle: Any) -> None:
    text, wrong = oracle.report()
    assert wrong == []
    rows = re.findall(r"^\| (\w+) \| \d+ \| (\d+) \| \d+ \| \d+ \|$", text, re.MULTILINE)
    assert [name for name, _ in rows] == [*oracle.LAYERS, "together"]
    assert all(int(compared) > 0 for _, compared in rows)
    docs = DOCS.read_text(encoding="utf-8")
    version, documented = oracle.torch.__version__.partition("+")[0], re.search(r"With torch ([\d.]+):", docs)[1]
    if version != documented:
        pytest.skip(f"the layers agree; the docs have the counts of torch {documented}, this is {version}")
    assert text in docs, f"docs/verification.md is out of date; the report is now\n{text}"


def wrong_norm(module_info: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    build = module_info.nn.TransformerDecoderLayer.__init__

    def init(self: Any, *args: Any) -> None:
        build(self, *args)
        self.norm_first = not self.norm_first

    monkeypatch.setattr(module_info.nn.TransformerDecoderLayer, "__init__", init)


def forgotten_padding(module_info: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    attend = module_info.nn.MultiHeadAttention.forward
    monkeypatch.setattr(
        module_info.nn.MultiHeadAttention,
        "forward",
        lambda self, *args, key_lengths=None, **kw: attend(self, *args, **kw),
    )


def lost_gradient(module_info: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    attend = module_info.nn.MultiHeadAttention.forward
    monkeypatch.setattr(
        module_info.nn.MultiHeadAttention,
        "forward",
        lambda self, query, memory=None, **kw: attend(self, query, None if memory is None else memory.detach(), **kw),
    )


@pytest.mark.parametrize("plant", [wrong_norm, forgotten_padding, lost_gradient])
def test_a_planted_error_is_noticed(oracle: Any, plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert oracle.examine("TransformerDecoderLayer").findings == []
    plant(oracle, monkeypatch)
    assert oracle.examine("TransformerDecoderLayer").findings
