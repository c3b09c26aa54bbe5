"""Check that the tables in docs have the figures of their results files; see `benchmarks.pages`."""

import pytest

from benchmarks.pages import PAGES, RESULTS, TABLE, filled, tables


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_figures_of_a_page_are_those_of_its_results_files(page) -> None:
    for files, formats, rows, found in tables(page):
        assert [filled(formats, row, found) for row in rows] == rows, f"{page.name}, {files}"


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
