"""Check that the tables in docs have the figures of their results files; see `benchmarks.pages`."""

import functools
import json

import pytest

from benchmarks.pages import PAGES, RESULTS, ROOT, TABLE, filled, numbers, tables, unknown_figures


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_figures_of_a_page_are_those_of_its_results_files(page) -> None:
    for files, formats, rows, found in tables(page):
        assert [filled(formats, row, found) for row in rows] == rows, f"{page.name}, {files}"


@functools.cache
def known() -> tuple[set[float], set[float]]:
    stated = json.loads((ROOT / "examples/tables/reports.json").read_text(encoding="utf-8"))
    files = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")]
    return set(numbers(stated)), set(numbers(files))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_without_a_format_and_those_of_the_reports_are_in_some_file(page) -> None:
    rows = [(formats, row) for _, formats, rows, _ in tables(page) for row in rows]
    unknown = {row: unknown_figures(formats, row, *known()) for formats, row in rows}
    assert {row: figures for row, figures in unknown.items() if figures} == {}


def test_a_changed_figure_is_noticed_in_every_kind_of_row() -> None:
    assert unknown_figures("| | {x} |", "| the report, GPU | 24.5 |", {24.5}, set()) == []
    assert unknown_figures("| | {x} |", "| the report, GPU | 24.6 |", {24.5}, {24.6}) == ["24.6"]
    assert unknown_figures("| {x} | |", "| a | 66.2%, F1 0.383 |", set(), {0.6622, 0.3834}) == []
    assert unknown_figures("| {x} | |", "| a | 66.2%, F1 0.384 |", set(), {0.6622, 0.3834}) == ["0.384"]
    found = [{"cell": "greedy", "bleu": 22.6}]
    assert filled("| | {cell} | {bleu:.1f} |", "| the report's layers | greedy | 24.0 |", found).endswith("| 22.6 |")


def test_each_results_file_is_shown() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert text.count("<!-- results:") == len(TABLE.findall(text))
    named = {name for files, _, _ in TABLE.findall(text) for name in files.split()}
    assert named == {path.name for path in RESULTS.glob("*.json")}


def test_a_row_is_filled_in_from_the_object_that_it_names() -> None:
    found = [{"cell": "greedy", "bleu": 22.6}, {"cell": "beam 5", "bleu": 24.36}]
    assert filled("| | {cell} | {bleu:.1f} |", "| x | beam 5 | **24.0** |", found) == "| x | beam 5 | 24.4 |"
    assert filled("| | {cell} | {bleu:.1f} |", "| x | beam 5 | **24.4** |", found) == "| x | beam 5 | **24.4** |"
    assert filled("| {cell} | {bleu:.1f} |", "| beam 4 | 24.0 |", found) is None
    assert filled("| {cell} | {bleu:.1f} |", "| beam 5 | 22.6 |", found) == "| beam 5 | 24.4 |", "selected by name"
    assert filled("| {cell} | {bleu:.1f} |", "| † beam 5 | 24.0 |", found) == "| † beam 5 | 24.0 |"
