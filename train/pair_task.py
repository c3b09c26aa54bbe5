"""What the examples have in common that learn to turn one text into another: options, training, use, tables."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..autograd import manual_seed
from ..autograd.backend import check_device
from ..models.presets import PRESET_NAMES, TranslationPreset
from .cells import run_cells
from .command_line import (
    add_training_options,
    parse_training_arguments,
    start_run,
)
from .generation_options import add_generation_options, check_generation_options, each_text, show_hypotheses
from .regimes import add_regime_options, changed, regime_of
from .run_folder import RunFolder
from .text_files import Pair
from .translation import Translator, train_translator


def pair_parser(doc: str | None, *, data: str) -> argparse.ArgumentParser:
    """A parser with the options of training, of decoding and of using a trained model; more can be added."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_training_options(parser, data=data, presets=PRESET_NAMES, preset="laptop")
    add_regime_options(parser)
    add_generation_options(parser)
    parser.add_argument("--checkpoint", type=Path, metavar="RUN", help="use the model of an earlier run")
    parser.add_argument(
        "texts",
        nargs="*",
        metavar="TEXT",
        help="with --checkpoint: texts to work on (default: the lines of standard input)",
    )
    return parser


def parse_pair_arguments(parser: argparse.ArgumentParser) -> Any:
    """Parse, with --resume as `parse_training_arguments`; options that don't go together end the process."""
    arguments = parse_training_arguments(parser)
    check_generation_options(parser, arguments, arguments.texts)
    if arguments.texts and not arguments.checkpoint:
        parser.error("texts to work on need a trained model: add --checkpoint RUN")
    if arguments.checkpoint and (arguments.out or arguments.steps or arguments.stop_at or arguments.device != "cpu"):
        parser.error("--out, --resume, --steps, --stop-at and --device are for training, not with --checkpoint")
    return arguments


def use_checkpoint(arguments: Any) -> None:
    """Print what the model of an earlier run makes of each text: the best, or with --nbest the best ones."""
    translator = Translator.load(arguments.checkpoint)
    each_text(arguments, arguments.texts, "texts", lambda text: show_hypotheses(translator, text, arguments))


def train_pairs(
    arguments: Any,
    name: str,
    summary: str,
    train: Sequence[Pair],
    valid: Sequence[Pair],
    preset: TranslationPreset,
    evaluate: Callable[[Translator, RunFolder], None],
) -> None:
    """Train on (source, target) pairs in a new run folder, or the one to resume, then call `evaluate`.

    Args:
        name: of the folder under runs/, where --out names none.
        summary: of the data, for config.json.
    """
    start = time.perf_counter()
    check_device(arguments.device)
    with start_run(arguments, name, {"data": summary}) as run:
        manual_seed(arguments.seed)
        translator = train_translator(
            train,
            valid,
            changed(preset, arguments.set),
            run,
            seed=arguments.seed,
            steps=arguments.steps,
            device=arguments.device,
            resume=arguments.resume is not None,
            stop_at=arguments.stop_at,
            regime=regime_of(arguments),
        )
        evaluate(translator, run)
        print(f"{run.path} holds the model, tables, samples and pictures; {time.perf_counter() - start:.0f} s in all")


def compare_presets(
    arguments: Any,
    run: RunFolder,
    train: Sequence[Pair],
    valid: Sequence[Pair],
    preset: TranslationPreset,
    cells: Mapping[str, Mapping[str, Any]],
    figures: Callable[[Translator], Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Train the model once for each cell, with the cell's changes to the preset; its rows, see `run_cells`."""

    def make(own: RunFolder, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        manual_seed(arguments.seed)
        own_preset = dataclasses.replace(changed(preset, arguments.set), **changes)
        regime = regime_of(arguments)
        other = train_translator(
            train, valid, own_preset, own, seed=arguments.seed, steps=arguments.steps, regime=regime
        )
        return {"parameters": other.model.parameter_count(), **figures(other)}

    return run_cells(run, cells, make)
