"""The tables of language models have the KTH report's cells, and its figures beside ours."""

from __future__ import annotations

import pytest

from handloom.models.presets import LANGUAGE_MODEL_PRESETS
from handloom.train import sizes
from handloom.train.data.running_text import TextData
from handloom.train.tables.language_models import KTH_HEADS, KTH_RATES, beside_the_report, table_cells
from handloom.train.tasks.language_modelling import LanguageModelling, learn_tokens, tokenize


def task_of(preset: str) -> LanguageModelling:
    data = TextData(*["The cat sat on the mat. "] * 3, "text", "")
    return LanguageModelling(tokenize(data, learn_tokens(data, "character", 0)), preset=LANGUAGE_MODEL_PRESETS[preset])


def test_table_1_has_the_reports_heads() -> None:
    task = task_of("paper")
    cells = table_cells("heads", task, task.preset)
    assert KTH_HEADS.keys() == sizes.KTH_TABLE_1.keys()
    found = [(cell.preset.nhead, cell.preset.head_dim, cell.preset.layers) for cell in cells.values()]
    assert found == [(heads, size, 1) for heads, size in KTH_HEADS]
    rows = beside_the_report([{"cell": name} for name in [*cells, "Transformer"]], task.preset)
    assert rows[0] == {"cell": "1 head of 16", "report_loss": 2.25, "report_accuracy": 0.3562}
    assert [row["cell"] for row in rows if "report_loss" not in row] == ["Transformer"]


def test_table_6_has_the_reports_rates_and_shows_each_cell_the_same_text() -> None:
    task = task_of("paper")
    cells = table_cells("learning-rate", task, task.preset)
    presets = [cell.preset for cell in cells.values()]
    assert [(preset.lr, preset.batch_size) for preset in presets] == list(KTH_RATES)
    assert {(preset.nhead, preset.head_dim, preset.d_model) for preset in presets} == {(8, 16, 128)}
    seen = task.preset.steps * task.preset.batch_size
    assert [preset.steps * preset.batch_size for preset in presets] == pytest.approx([seen] * 16, rel=0.01)
    assert {"cell": "rate 0.0001, batch 256", "report_loss": 2.49, "report_accuracy": 0.291} in beside_the_report(
        [{"cell": name} for name in cells], task.preset
    )


def test_the_smoke_tables_are_small() -> None:
    task = task_of("smoke")
    heads = table_cells("heads", task, task.preset)
    assert max(cell.preset.d_model for cell in heads.values()) == 16 * 16
    rates = table_cells("learning-rate", task, task.preset)
    assert {cell.preset.batch_size for cell in rates.values()} == {2, 8, 16, 64}
    assert beside_the_report([{"cell": "1 head of 16"}], task.preset) == [{"cell": "1 head of 16"}]
