"""Tables of language models: baselines, numbers of heads, learning rates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...models import BigramLanguageModel, NGramLanguageModel, RandomLanguageModel
from ...models.baselines import RECURRENT_LAYERS
from ...models.hyperparameters import LanguageModelPreset
from ...models.presets import kth_cell
from ...tokenizer import CharacterTokenizer
from ...train.cells import Row
from ...train.runs.folder import RunFolder
from ...train.runs.plots import line_of, plot_lines
from ...train.tasks.language_modelling import LanguageModelling, TokenizedText, Writer, evaluate
from .stated import STATED, numbered

Curve = tuple[list[float], list[float]]

TABLES = ("baselines", "heads", "learning-rate", "sizes")

#: The KTH report's Table 1: validation loss and accuracy by (heads, head size), of one layer after three epochs.
KTH_HEADS = {(heads, size): tuple(found) for heads, size, *found in STATED["kth_heads"]}
#: Its Table 6: validation loss and accuracy by (learning rate, batch), of one layer with 8 heads of 16 features.
KTH_RATES = {(rate, batch): tuple(found) for rate, batch, *found in STATED["kth_rates"]}
#: Its Table 2, on characters: parameters, validation loss and accuracy.
KTH_CHARACTERS = STATED["kth_characters"]
#: Its Table 3, without the values that the report does not state.
KTH_SIZES = STATED["kth_sizes"]
#: The batch size in its other tables.
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
    "updates": "updates:,",
    "processor_seconds": "processor seconds:.0f",
    "layers": "layers:,",
    "nhead": "heads:,",
    "head_dim": "head size:,",
    "d_model": "features:,",
    "vocab_size": "vocabulary:,",
    "report_parameters": "report's parameters:,",
    "report_loss": "report's loss:.2f",
    "report_accuracy": "report's accuracy:.1%",
}


def figures(writer: Writer, text: TokenizedText) -> dict[str, Any]:
    """Evaluate the model on the validation and test texts; see `evaluate`."""
    row: dict[str, Any] = {}
    for part in ("valid", "test"):
        values = evaluate(writer.model, getattr(text, part), text.characters[part], writer.length)
        row |= {f"{part}_{name}": value for name, value in values.items()}
    return row


def table_cells(
    name: str, task: LanguageModelling, baseline: LanguageModelPreset
) -> dict[str, LanguageModelling | Writer]:
    """Return the model that each cell trains, by the name of the cell; a model may need no training.

    Args:
        name: one of `TABLES`; "sizes" has only one cell, for the text before augmentation, if there is such a text.
        baseline: how the recurrent models are trained.

        Heads and learning rates are those of the KTH report; for a preset with fewer than 128 features, heads and
        batches are a quarter as large. Cells with other batch sizes read the same amount of text.
    """
    preset, text = task.preset, task.text
    part = _part(preset)
    cells: dict[str, LanguageModelling | Writer] = {}
    vocabulary = text.tokenizer.vocab_size
    if task.plain is not None:
        cells["Transformer, without augmentation"] = replace(task, text=task.plain, plain=None)
    if name == "baselines":
        bigram = BigramLanguageModel(vocabulary).fit(text.train)
        random = RandomLanguageModel(vocabulary, len(text.tokenizer.special_ids))
        order = 6 if isinstance(text.tokenizer, CharacterTokenizer) else 3
        grams = NGramLanguageModel(vocabulary, order).fit(text.train)
        for label, model in (("Random", random), ("Bigram", bigram), (f"{order}-gram", grams)):
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
    """Return the number by which the sizes of the report's cells are divided."""
    return 1 if preset.d_model >= 128 else 4


def _cell(first: float, second: int) -> str:
    """Return the name of a cell of heads and head size, or of learning rate and batch size."""
    return f"{numbered(first, 'head')} of {second}" if isinstance(first, int) else f"rate {first:g}, batch {second}"


def with_report_figures(name: str, rows: Sequence[Row], task: LanguageModelling) -> list[Row]:
    """Add the report's figures to the rows of a table: to its own cells, or as separate rows.

    The report's character models are listed with their numbers of parameters; ours may be smaller.
    """
    stated: Mapping[str, Sequence[float]] = {}
    keys: tuple[str, ...] = ("report_loss", "report_accuracy")
    if name == "sizes":
        own = {key: getattr(task.preset, key) for key in ("layers", "nhead", "head_dim", "d_model")}
        own["vocab_size"] = task.text.tokenizer.vocab_size
        return [*KTH_SIZES, *({**row, **own} for row in rows)]
    if name == "baselines" and isinstance(task.text.tokenizer, CharacterTokenizer):
        stated, keys = KTH_CHARACTERS, ("report_parameters", *keys)
    elif _part(task.preset) == 1:
        stated = {_cell(*of): figures for table in (KTH_HEADS, KTH_RATES) for of, figures in table.items()}
    return [{**row, **dict(zip(keys, stated.get(row["cell"], ()), strict=False))} for row in rows]


def with_budgets(rows: Sequence[Row], runs: Mapping[str, RunFolder]) -> list[Row]:
    """Return the rows with the number of updates and the processor seconds of their runs."""
    found = []
    for row in rows:
        steps, seconds = runs[row["cell"]].processor_seconds()
        found.append({**row, "updates": steps[-1], "processor_seconds": seconds[-1]} if steps else row)
    return found


def draw_comparison(run: RunFolder, runs: Mapping[str, RunFolder]) -> None:
    """Draw the validation loss of several runs over the steps and over processor time, and their accuracy.

    For a single run, draw loss and accuracy in training and validation (the report's Figures 2 and 3), without
    processor time, which differs from run to run.
    """
    alone = next(iter(runs.values())) if len(runs) == 1 else None
    for key, label, picture in (("loss", "loss (nats per token)", "comparison"), ("accuracy", "accuracy", "accuracy")):
        lines = {name: line_of(each.metrics(), f"valid_{key}") for name, each in runs.items()}
        if alone is not None:
            lines = {"training": line_of(alone.metrics(), key), "validation": line_of(alone.metrics(), f"valid_{key}")}
        label = label if alone else f"validation {label}"
        plot_lines(lines, run.picture(picture), x_label="step (updates)", y_label=label)
    lines = {name: over_processor_time(each) for name, each in runs.items()}
    if alone is None and any(seconds for seconds, _ in lines.values()):
        labels = {"x_label": "processor seconds of training", "y_label": "validation loss (nats per token)"}
        plot_lines(lines, run.picture("processor_time"), **labels, log_x=True)


def over_processor_time(run: RunFolder) -> Curve:
    """Return the processor seconds at the validations, interpolated between rows of `timings.jsonl`, and the losses."""
    (steps, losses), (known, seconds) = line_of(run.metrics(), "valid_loss"), run.processor_seconds()
    return (list(np.interp(steps, [0, *known], [0.0, *seconds])), losses) if known else ([], [])
