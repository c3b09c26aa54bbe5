"""The tables of language models have the KTH report's cells, and its figures next to handloom's."""

from dataclasses import replace

import pytest

from handloom.examples.tables import language_models as tables
from handloom.models.presets import LANGUAGE_MODEL_PRESETS
from handloom.tokenizer import BPETokenizer
from handloom.train.data.running_text import TextData
from handloom.train.runs.folder import RunFolder
from handloom.train.tasks.language_modelling import LanguageModelling, learn_tokens, tokenize


def task_of(preset: str) -> LanguageModelling:
    data = TextData(*["The cat sat on the mat. "] * 3, "text")
    return LanguageModelling(tokenize(data, learn_tokens(data, "character", 0)), preset=LANGUAGE_MODEL_PRESETS[preset])


def test_table_6_has_the_reports_rates_and_shows_each_cell_the_same_text() -> None:
    task = task_of("paper")
    cells = tables.table_cells("learning-rate", task, task.preset)
    presets = [cell.preset for cell in cells.values()]
    assert [(preset.lr, preset.batch_size) for preset in presets] == list(tables.KTH_RATES)
    assert {(preset.nhead, preset.head_dim, preset.d_model) for preset in presets} == {(8, 16, 128)}
    seen = task.preset.steps * task.preset.batch_size
    assert [preset.steps * preset.batch_size for preset in presets] == pytest.approx([seen] * 16, rel=0.01)
    rows = tables.with_report_figures("learning-rate", [{"cell": name} for name in cells], task)
    assert {"cell": "rate 0.0001, batch 256", "report_loss": 2.49, "report_accuracy": 0.291} in rows


def test_table_2_has_the_reports_models_with_their_sizes() -> None:
    task = task_of("smoke")
    rows = [{"cell": name} for name in [*tables.table_cells("baselines", task, task.preset), "Transformer"]]
    rows = tables.with_report_figures("baselines", rows, task)
    stated = {row["cell"]: row.get("report_parameters") for row in rows}
    assert stated == {
        "Random": 0, "Bigram": 12_544, "6-gram": None, "RNN": 32_612, "LSTM": None, "GRU": None,
        "Transformer": 8_227_120,
    }  # fmt: skip
    assert rows[3] == {"cell": "RNN", "report_parameters": 32_612, "report_loss": 1.85, "report_accuracy": 0.448}
    subwords = replace(task, text=replace(task.text, tokenizer=BPETokenizer.train(["a text"], 270)))
    row = {"cell": "RNN"}
    assert tables.with_report_figures("baselines", [row], subwords) == [row], "figures are for characters only"


def test_losses_over_processor_time(tmp_path) -> None:
    """The time of a validation is interpolated between two rows of timings; a run without timings is left out."""
    runs = {name: RunFolder.create(tmp_path / name, {}) for name in ("timed", "untimed")}
    for name, run in runs.items():
        with run:
            times = {"processor_seconds": 4.0} if name == "timed" else {"tokens_per_second": 1.0}
            run.log({"step": 20, "loss": 2.5, "accuracy": 0.3}, times)
            run.log({"step": 10, "valid_loss": 2.0, "valid_accuracy": 0.4})
    assert tables.over_processor_time(runs["timed"]) == ([2.0], [2.0])
    assert tables.over_processor_time(runs["untimed"]) == ([], [])
    assert tables.with_budgets([{"cell": "timed"}, {"cell": "untimed"}], runs) == [
        {"cell": "timed", "updates": 20, "processor_seconds": 4.0}, {"cell": "untimed"},
    ]  # fmt: skip
    for shown, pictures in [(runs, 3), ({"untimed": runs["untimed"]}, 2)]:
        run = RunFolder.create(tmp_path / f"{pictures} pictures", {})
        tables.draw_comparison(run, shown)
        assert len(list(run.path.glob("*.png"))) == pictures
