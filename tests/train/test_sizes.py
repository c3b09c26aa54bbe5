"""Our models have the reports' numbers of parameters, to the digit where a report states them so."""

from __future__ import annotations

import re

import pytest

from handloom.arguments import OptionError
from handloom.nn import init
from handloom.train import sizes


@pytest.fixture(scope="module")
def counted():
    with pytest.MonkeyPatch.context() as patch:  # the numbers count, not the values
        for name in ("normal_", "uniform_", "xavier_uniform_"):
            patch.setattr(init, name, lambda *arguments: None)
        return {size.name: (size.stated, size.model.parameter_count()) for size in sizes.sizes()}


def test_to_the_digit(counted) -> None:
    exact = {name: pair for name, pair in counted.items() if isinstance(pair[0], int)}
    assert len(exact) == 12 + 4
    assert {name: ours for name, (_, ours) in exact.items()} == {name: stated for name, (stated, _) in exact.items()}


def test_the_formula_of_the_kth_report(counted) -> None:
    """Embedding and output layer, one layer whose projections have no biases, three norms; its Table 1 and a sum."""
    for (heads, size), stated in sizes.KTH_TABLE_1.items():
        d, v = heads * size, sizes.CHARACTERS
        assert stated == 2 * v * d + v + (4 * d**2 + d) + (8 * d**2 + 5 * d) + 2 * 3 * d


def test_about_70_million(counted) -> None:
    (ours,) = (ours for stated, ours in counted.values() if stated == "about 70 M")
    assert ours == pytest.approx(70e6, rel=0.01)


def test_the_news_models(counted) -> None:
    """No report states these: with feed-forward networks of 2048 and biases everywhere but in q, k and v."""
    d, ff = 512, 2048
    attention, feed_forward, norm = 4 * d**2 + d, 2 * d * ff + ff + d, 2 * d
    encoder = 2 * (attention + feed_forward + 2 * norm)
    decoder = 2 * (2 * attention + feed_forward + 3 * norm)
    assert counted["news categories, 50,000 words, 42 classes"][1] == 50_000 * d + encoder + 42 * (d + 1)
    assert counted["news headlines, 30,000 tokens"][1] == 30_000 * (d + 1) + encoder + decoder


def test_the_command(monkeypatch, capsys) -> None:
    few = [size for size, _ in zip(sizes.sizes(), range(2), strict=False)]
    monkeypatch.setattr(sizes, "sizes", lambda: iter(few))
    monkeypatch.setattr("sys.argv", ["sizes"])
    sizes.main()
    assert re.search(r"heads 1, head size 16 \| 6,960 +\| +6,960 \|", capsys.readouterr().out)


def test_the_command_refuses_what_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["sizes", "--nonsense"])
    with pytest.raises(OptionError, match="--nonsense"):
        sizes.main()
