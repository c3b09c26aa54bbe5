"""Check that the tables in docs have the figures of their results files; see `benchmarks.pages`."""

import re

import pytest

from benchmarks.pages import FIGURE, PAGES, RESULTS, TABLE, Table, cells, filled, needs_source, tables, written


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_figures_of_a_page_are_those_of_its_results_files(page) -> None:
    for table in tables(page):
        assert table.filled() == table.rows, f"{page.name}, {table.files}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_change_of_any_figure_without_a_format_is_noticed(page) -> None:
    for table in tables(page):
        for i, row in enumerate(table.rows):
            for j in needs_source(table.formats, row):
                line = cells(row)
                for figure in FIGURE.finditer(line[j]):
                    digit = figure.end() - 1
                    changed = line[j][:digit] + str((int(line[j][digit]) + 1) % 10) + line[j][digit + 1 :]
                    rows = [*table.rows]
                    rows[i] = written([*line[:j], changed, *line[j + 1 :]])
                    made = table._replace(rows=rows).filled()
                    assert made[:i] + made[i + 1 :] == rows[:i] + rows[i + 1 :]
                    assert cells(made[i] or "")[j].replace("**", "") == line[j].replace("**", "")


def test_which_cells_need_a_source() -> None:
    assert needs_source("| | {x:.1f} | |", "| a 0.5 | 1.5 | 2.5 |") == [0, 2]
    assert needs_source("| | {x:.1f} | |", "| a | 1.5 | 12 |") == []
    assert needs_source("| | {x:.1f} | |", "| the report, GPU | 1.5 | 2.5 |") == [1, 2]
    assert needs_source("| | {x:.1f} | |", "| the report's layers | 1.5 | 2.5 (no results file) |") == []
    assert needs_source("| | {x:.1f} | |", "| † a 0.5 | 1.5 | 2.5 |") == []


def test_a_figure_without_a_source_is_refused() -> None:
    table = Table("a.json", "| {cell} | |", [], ["| greedy | 24.5 |"], [{"cell": "greedy"}])
    with pytest.raises(ValueError, match=re.escape("a.json: 1 cells need a source; the comment has 0")):
        table.filled()
    assert table._replace(sources=["{stated[news_headline_writer][bleu]}"]).filled() == table.rows
    assert table._replace(sources=["{stated[news_headline_writer][rougeL]}"]).filled() == ["| greedy | 31.2 |"]


def test_each_results_file_is_shown() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert text.count("<!-- results:") == len(TABLE.findall(text))
    named = {name for files, *_ in TABLE.findall(text) for name in files.split()}
    assert named == {path.name for path in RESULTS.glob("*.json")}


def test_a_row_is_filled_in_from_the_object_that_it_names() -> None:
    found = [{"cell": "greedy", "bleu": 22.6}, {"cell": "beam 5", "bleu": 24.36}]
    assert filled("| | {cell} | {bleu:.1f} |", "| x | beam 5 | **24.0** |", found) == "| x | beam 5 | 24.4 |"
    assert filled("| | {cell} | {bleu:.1f} |", "| x | beam 5 | **24.4** |", found) == "| x | beam 5 | **24.4** |"
    row = "| the report's layers | beam 5 | 24.0 |"
    assert filled("| | {cell} | {bleu:.1f} |", row, found) == "| the report's layers | beam 5 | 24.4 |"
    assert filled("| {cell} | {bleu:.1f} |", "| beam 4 | 24.0 |", found) is None
    assert filled("| {cell} | {bleu:.1f} |", "| beam 5 | 22.6 |", found) == "| beam 5 | 24.4 |", "selected by name"
    assert filled("| {cell} | {bleu:.1f} |", "| † beam 5 | 24.0 |", found) == "| † beam 5 | 24.0 |"
