"""What the examples have in common that learn to turn one text into another: training, use, tables, pictures."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...autograd import manual_seed
from ...autograd.backend import check_device
from ...models.presets import TranslationPreset
from ..data.captions import Captions
from ..data.files import Pair
from ..data.news import News
from ..data.pairs import TranslationData
from ..distributed import find_ranks
from ..runs.folder import RunFolder
from ..runs.plots import plot_attention, plot_heads
from ..tables.cells import run_cells
from ..tasks.translation import Translator, train_translator
from .command_line import start_run
from .generation import check_lengths, show_translations, strategy_of
from .training import run_options


def use_checkpoint(arguments: Any, *tasks: str) -> None:
    """Print what the model of an earlier run makes of each text: the best, or with --nbest the best ones.

    Raises InputError unless the run was trained for one of `tasks`.
    """
    translator = Translator.load(arguments.checkpoint, tasks)
    check_lengths(strategy_of(arguments), translator.model.config.max_length)
    show_translations(translator, arguments, arguments.texts, arguments.what)


def train_pairs(
    arguments: Any,
    name: str,
    task: str,
    data: TranslationData | News | Captions,
    train: Sequence[Pair],
    valid: Sequence[Pair],
    preset: TranslationPreset,
    evaluate: Callable[[Translator, RunFolder], str],
) -> None:
    """Train on (source, target) pairs in a new run folder, or the one to resume; then say what `evaluate` returns.

    Args:
        name: of the folder under runs/, where --out names none.
        task: what the model learns, see `train_translator`; a --teacher must have learnt the same.
        data: what the pairs were taken from, for config.json.
        evaluate: called in the first of several processes.
    """
    start = time.perf_counter()
    check_device(arguments.device)
    check_lengths(strategy_of(arguments), preset.max_length)
    teacher, init = (Translator.load(one, [task]) if one else None for one in (arguments.teacher, arguments.init))
    with start_run(arguments, name, data) as run:
        manual_seed(arguments.seed)
        options = {**run_options(arguments), "teacher": teacher, "init": init, "task": task}
        translator = train_translator(train, valid, preset, run, **options)
        if find_ranks().first:
            figures = evaluate(translator, run)
            seconds = time.perf_counter() - start
            print(f"\n{run.path} holds the model, tables, samples and pictures; {seconds:.0f} s in all\n{figures}")


def compare_presets(
    arguments: Any,
    run: RunFolder,
    task: str,
    train: Sequence[Pair],
    valid: Sequence[Pair],
    preset: TranslationPreset,
    cells: Mapping[str, Mapping[str, Any]],
    figures: Callable[[Translator], Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Train the model once for each cell, with the cell's changes to the preset; its rows, see `run_cells`."""
    options = {**run_options(arguments), "stop_at": None, "task": task}

    def make(own: RunFolder, changes: Mapping[str, Any], resume: bool) -> Mapping[str, Any]:
        manual_seed(arguments.seed)
        sizes = dataclasses.replace(preset, **changes)
        other = train_translator(train, valid, sizes, own, **{**options, "resume": resume})
        return {"parameters": other.model.parameter_count(), **figures(other)}

    return run_cells(run, cells, make)


def draw_attention(translator: Translator, text: str, run: RunFolder) -> None:
    """attention.png: the mean of the last layer's cross-attention. And each head's: of the last layer of the encoder,
    of the decoder over what it has written, and across.
    """
    maps, source, written = translator.attention_maps(text)
    config = translator.model.config
    encoder = f"encoder.layers.{config.encoder_layers - 1}.self_attn"
    decoder = f"decoder.layers.{config.decoder_layers - 1}"
    cross = maps[f"{decoder}.multihead_attn"]
    title = f"Cross-attention, last layer ({decoder}), mean of its {len(cross)} heads"
    plot_attention(cross.mean(axis=0), source, written, run.attention_picture, title)
    read = ["<bos>", *written[:-1]]
    for name, weights, queries, keys, what in (
        ("encoder_heads", maps[encoder], source, source, "encoder self-attention"),
        ("decoder_heads", maps[f"{decoder}.self_attn"], read, read, "decoder self-attention"),
        ("cross_heads", cross, written, source, "cross-attention"),
    ):
        plot_heads(weights, queries, keys, run.picture(name), f"Last layer, {what}")
