"""Tables of language models: beside their baselines, with other heads, with other learning rates."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from ..autograd import manual_seed
from ..models import BigramLanguageModel, RandomLanguageModel
from ..models.baselines import RECURRENT_LAYERS
from ..models.presets import LanguageModelPreset
from ..nn import Module
from .cells import run_cells
from .language_modelling import TokenizedText, evaluate, train_language_model
from .plots import plot_lines
from .run_folder import RunFolder

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


def figures(model: Module, text: TokenizedText, preset: LanguageModelPreset) -> dict[str, Any]:
    """Parameters, and what `evaluate` says of the validation and test texts."""
    row: dict[str, Any] = {"parameters": model.parameter_count()}
    for part in ("valid", "test"):
        values = evaluate(model, getattr(text, part), text.characters[part], preset.length)
        row |= {f"{part}_{name}": value for name, value in values.items()}
    return row


def make_table(
    name: str, text: TokenizedText, preset: LanguageModelPreset, run: RunFolder, *, seed: int, steps: int | None = None
) -> list[dict[str, Any]]:
    """The rows of one of `TABLES` beside the run's own model; finished cells are kept, see `run_cells`.

    Args:
        steps: updates of each model; the preset's numbers if None.
    """
    vocabulary = text.tokenizer.vocab_size

    def trained(own: RunFolder, options: tuple[Any, LanguageModelPreset]) -> dict[str, Any]:
        config, own_preset = options
        manual_seed(seed)
        if isinstance(config, Module):
            return figures(config, text, own_preset)
        writer = train_language_model(text, config, own_preset, own, seed=seed, steps=steps)
        return figures(writer.model, text, own_preset)

    cells: dict[str, Any]
    if name == "baselines":
        bigram = BigramLanguageModel(vocabulary).fit(text.train)
        cells = {"Random": (RandomLanguageModel(vocabulary), preset), "Bigram": (bigram, preset)}
        for kind in RECURRENT_LAYERS:
            cells[kind.upper()] = (preset.recurrent(vocabulary, kind), preset.for_baselines())
    elif name == "heads":
        cells = {
            f"{heads} heads of {size}": (preset.transformer(vocabulary, nhead=heads, head_dim=size), preset)
            for heads, size in itertools.product((1, 2, 4, 8), (preset.head_dim // k for k in (4, 2, 1)))
        }
    else:
        cells = {
            f"rate {preset.lr * factor:.1e}, batch {batch}": (
                preset.transformer(vocabulary),
                dataclasses.replace(preset, lr=preset.lr * factor, batch_size=batch),
            )
            for factor, batch in itertools.product(
                (0.3, 1.0, 3.0, 10.0), (max(preset.batch_size // k, 1) for k in (8, 4, 2, 1))
            )
        }
    return run_cells(run, cells, trained)


def draw_comparison(run: RunFolder, own_name: str) -> None:
    """Validation loss and accuracy over the steps, of the run's model and of all trained cells, in two pictures."""
    runs = {own_name: run} | {row["cell"]: RunFolder.open(run.cell_path(row["cell"])) for row in run.cells()}
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
