"""Tables of language models: beside their baselines, with other heads, with other learning rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...models import BigramLanguageModel, RandomLanguageModel
from ...models.baselines import RECURRENT_LAYERS
from ...models.hyperparameters import LanguageModelPreset
from ...models.presets import kth_cell
from ..runs.folder import RunFolder
from ..runs.plots import plot_lines
from ..tasks.language_modelling import LanguageModelling, TokenizedText, Writer, evaluate
from .cells import numbered

TABLES = ("baselines", "heads", "learning-rate")

#: The KTH report's Table 1: (heads, head size) -> validation loss and accuracy, of one layer after three epochs.
KTH_HEADS = {
    (1, 16): (2.25, 0.3562), (4, 16): (1.80, 0.4713), (8, 16): (1.63, 0.5169), (16, 16): (1.53, 0.5432),
    (1, 32): (2.00, 0.4214), (4, 32): (1.65, 0.5114), (8, 32): (1.55, 0.5368), (16, 32): (1.47, 0.5576),
    (1, 64): (1.83, 0.4657), (4, 64): (1.56, 0.5357), (8, 64): (1.49, 0.5522), (16, 64): (1.59, 0.5177),
}  # fmt: skip
#: Its Table 6: (learning rate, batch) -> the same, of one layer of 8 heads of 16.
KTH_RATES = {
    (0.1, 8): (3.25, 0.1847), (0.1, 32): (2.89, 0.2244), (0.1, 64): (2.86, 0.2406), (0.1, 256): (2.88, 0.1838),
    (0.01, 8): (2.50, 0.2858), (0.01, 32): (1.78, 0.4859), (0.01, 64): (1.72, 0.5003), (0.01, 256): (1.73, 0.4979),
    (0.001, 8): (1.63, 0.5249), (0.001, 32): (1.68, 0.5103), (0.001, 64): (1.72, 0.5018), (0.001, 256): (1.96, 0.4379),
    (0.0001, 8): (1.85, 0.4660), (0.0001, 32): (2.17, 0.3732), (0.0001, 64): (2.31, 0.3375),
    (0.0001, 256): (2.49, 0.2910),
}  # fmt: skip
#: The batch of its other tables.
KTH_BATCH = 32

#: Columns of all tables, for `markdown_table`.
COLUMNS = {
    "cell": "model",
    "parameters": "parameters:,",
    "valid_loss": "validation loss:.3f",
    "valid_perplexity": "perplexity:.2f",
    "valid_bits_per_character": "bits/character:.3f",
    "valid_accuracy": "accuracy:.1%",
    "test_loss": "test loss:.3f",
    "seconds": "seconds:.0f",
}
#: Columns of a table whose cells are the report's.
BESIDE_THE_REPORT = {**COLUMNS, "report_loss": "report's loss:.2f", "report_accuracy": "report's accuracy:.1%"}


def figures(writer: Writer, text: TokenizedText) -> dict[str, Any]:
    """The results of `evaluate` on the validation and test texts."""
    row: dict[str, Any] = {}
    for part in ("valid", "test"):
        values = evaluate(writer.model, getattr(text, part), text.characters[part], writer.length)
        row |= {f"{part}_{name}": value for name, value in values.items()}
    return row


def table_cells(
    name: str, task: LanguageModelling, baseline: LanguageModelPreset
) -> dict[str, LanguageModelling | Writer]:
    """Name of the cell -> what to train beside the task's own model, or a model that needs no training.

    Args:
        name: one of `TABLES`; another one for no cells but that of the text before it was augmented.
        baseline: how the recurrent models are trained.

    Heads and learning rates are the KTH report's, with heads and batches a quarter as large for a preset with fewer
    than 128 features. Cells with other batches make as many updates as show them the same text.
    """
    preset, text = task.preset, task.text
    part = _part(preset)
    cells: dict[str, LanguageModelling | Writer] = {}
    vocabulary = text.tokenizer.vocab_size
    if task.plain is not None:
        cells["Transformer, without augmentation"] = replace(task, text=task.plain, plain=None)
    if name == "baselines":
        bigram = BigramLanguageModel(vocabulary).fit(text.train)
        for label, model in (("Random", RandomLanguageModel(vocabulary)), ("Bigram", bigram)):
            cells[label] = Writer(model, text.tokenizer, preset.length)
        for kind in RECURRENT_LAYERS:
            cells[kind.upper()] = replace(task, preset=baseline, model=preset.recurrent(vocabulary, kind))
    elif name == "heads":
        for heads, size in KTH_HEADS:
            cells[_cell(heads, size // part)] = task.with_preset(**kth_cell(heads, size // part))
    elif name == "learning-rate":
        one_layer = kth_cell(8, 16 // part)
        for rate, batch in KTH_RATES:
            steps = max(preset.steps * KTH_BATCH // batch, 1)
            changes = {"lr": rate, "batch_size": batch // part, "steps": steps}
            cells[_cell(rate, batch // part)] = task.with_preset(**one_layer, **changes)
    return cells


def _part(preset: LanguageModelPreset) -> int:
    """By what the report's cells are divided."""
    return 1 if preset.d_model >= 128 else 4


def _cell(first: float, second: int) -> str:
    """What a cell of heads and head size is called, or one of rate and batch."""
    return f"{numbered(first, 'head')} of {second}" if isinstance(first, int) else f"rate {first:g}, batch {second}"


def beside_the_report(rows: Sequence[dict[str, Any]], preset: LanguageModelPreset) -> list[dict[str, Any]]:
    """The rows of `table_cells`, with the report's figures for those that are its own."""
    if _part(preset) > 1:
        return list(rows)
    stated = {_cell(*of): figures for table in (KTH_HEADS, KTH_RATES) for of, figures in table.items()}
    names = ("report_loss", "report_accuracy")
    return [{**row, **dict(zip(names, stated.get(row["cell"], ()), strict=False))} for row in rows]


def draw_comparison(run: RunFolder, own_name: str, rows: list[dict[str, Any]]) -> None:
    """Validation loss and accuracy over the steps, of the run's model and of the rows' cells, in two pictures."""
    runs = {own_name: run} | {row["cell"]: RunFolder.open(run.cell_path(row["cell"])) for row in rows}
    for key, label, picture in [
        ("valid_loss", "validation loss (nats per token)", "comparison"),
        ("valid_accuracy", "validation accuracy", "accuracy"),
    ]:
        lines = {}
        for name, each in runs.items():
            rows = [row for row in each.metrics() if row.get(key) is not None]
            if rows:
                lines[name] = [row["step"] for row in rows], [row[key] for row in rows]
        plot_lines(lines, run.picture(picture), x_label="step (updates)", y_label=label)
