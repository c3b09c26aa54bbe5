"""Tables of language models: beside their baselines, with other heads, with other learning rates."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, NamedTuple

from ...autograd import manual_seed
from ...models import BigramLanguageModel, RandomLanguageModel, RecurrentConfig
from ...models.baselines import RECURRENT_LAYERS
from ...models.presets import LanguageModelPreset
from ...nn import Module
from ..runs.folder import RunFolder
from ..runs.plots import plot_lines
from ..tasks.language_modelling import TokenizedText, evaluate, train_language_model
from .cells import numbered, run_cells

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


class Cell(NamedTuple):
    """What one row of a table is made of: a model or the configuration of one, its preset, the text if another."""

    model: Any
    preset: LanguageModelPreset
    text: TokenizedText | None = None


def figures(model: Module, text: TokenizedText, preset: LanguageModelPreset) -> dict[str, Any]:
    """Parameters, and what `evaluate` says of the validation and test texts."""
    row: dict[str, Any] = {"parameters": model.parameter_count()}
    for part in ("valid", "test"):
        values = evaluate(model, getattr(text, part), text.characters[part], preset.length)
        row |= {f"{part}_{name}": value for name, value in values.items()}
    return row


def make_table(
    name: str,
    text: TokenizedText,
    preset: LanguageModelPreset,
    run: RunFolder,
    *,
    plain: TokenizedText | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """The rows of one of `TABLES` beside the run's own model; finished cells are kept, see `run_cells`.

    Args:
        plain: the text before it was augmented; the Transformer is then trained on it, too.
        options: of `train_language_model`: seed, steps, device, regime. Recurrent models take the default regime.
    """
    vocabulary = text.tokenizer.vocab_size

    def trained(own: RunFolder, cell: Cell, resume: bool) -> dict[str, Any]:
        manual_seed(options["seed"])
        if isinstance(cell.model, Module):
            return figures(cell.model, text, cell.preset)
        own_options = {**options, "resume": resume}
        if isinstance(cell.model, RecurrentConfig):
            own_options["regime"] = None
        writer = train_language_model(cell.text or text, cell.model, cell.preset, own, **own_options)
        return figures(writer.model, text, cell.preset)

    cells = {"Transformer, without augmentation": Cell(preset.transformer(vocabulary), preset, plain)} if plain else {}
    if name == "baselines":
        bigram = BigramLanguageModel(vocabulary).fit(text.train)
        cells |= {"Random": Cell(RandomLanguageModel(vocabulary), preset), "Bigram": Cell(bigram, preset)}
        for kind in RECURRENT_LAYERS:
            cells[kind.upper()] = Cell(preset.recurrent(vocabulary, kind), preset.for_baselines())
    elif name == "heads":
        sizes = sorted({max(preset.head_dim // k, 1) for k in (4, 2, 1)})
        for heads, size in itertools.product((1, 2, 4, 8), sizes):
            own_preset = dataclasses.replace(preset, nhead=heads, head_dim=size)
            cells[f"{numbered(heads, 'head')} of {size}"] = Cell(own_preset.transformer(vocabulary), own_preset)
    elif name == "learning-rate":
        batches = (max(preset.batch_size // k, 1) for k in (8, 4, 2, 1))
        for factor, batch in itertools.product((0.3, 1.0, 3.0, 10.0), batches):
            own_preset = dataclasses.replace(preset, lr=preset.lr * factor, batch_size=batch)
            cells[f"rate {own_preset.lr:.1e}, batch {batch}"] = Cell(preset.transformer(vocabulary), own_preset)
    return run_cells(run, cells, trained)


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
