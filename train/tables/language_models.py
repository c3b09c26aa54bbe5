"""Tables of language models: beside their baselines, with other heads, with other learning rates."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from ...models import BigramLanguageModel, RandomLanguageModel
from ...models.baselines import RECURRENT_LAYERS
from ...models.hyperparameters import LanguageModelPreset
from ..runs.folder import RunFolder
from ..runs.plots import plot_lines
from ..tasks.language_modelling import LanguageModelling, TokenizedText, Writer, evaluate
from .cells import numbered

TABLES = ("baselines", "heads", "learning-rate")

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


def figures(writer: Writer, text: TokenizedText) -> dict[str, Any]:
    """What `evaluate` says of the validation and test texts."""
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
    """
    preset, text = task.preset, task.text
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
        sizes = sorted({max(preset.head_dim // k, 1) for k in (4, 2, 1)})
        for heads, size in itertools.product((1, 2, 4, 8), sizes):
            cells[f"{numbered(heads, 'head')} of {size}"] = task.with_preset(nhead=heads, head_dim=size)
    elif name == "learning-rate":
        assert preset.lr is not None
        batches = [max(preset.batch_size // k, 1) for k in (8, 4, 2, 1)]
        for factor, batch in itertools.product((0.3, 1.0, 3.0, 10.0), batches):
            rate = preset.lr * factor
            cells[f"rate {rate:.1e}, batch {batch}"] = task.with_preset(lr=rate, batch_size=batch)
    return cells


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
