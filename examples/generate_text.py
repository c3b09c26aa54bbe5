"""Train a language model on a text, compare it with simpler ones, and let it write.

python examples/generate_text.py                                        embedded text, a few minutes
python examples/generate_text.py --data shakespeare --out runs/plays    Shakespeare, the sizes of nanoGPT's CPU run
python examples/generate_text.py --tokenizer bpe --table none           subwords instead of characters
python examples/generate_text.py --table heads                          the same model with other heads
python examples/generate_text.py --checkpoint runs/plays "This is a"    go on from a beginning
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path

from handloom.autograd import manual_seed
from handloom.autograd.backend import check_device
from handloom.models.presets import PRESET_NAMES, LanguageModelPreset, language_model_preset
from handloom.nn import POSITIONS
from handloom.tokenizer import load_tokenizer
from handloom.train.cells import markdown_table
from handloom.train.command_line import (
    add_training_options,
    parse_training_arguments,
    positive,
    run_main,
    start_run,
)
from handloom.train.generation_options import (
    add_generation_options,
    check_generation_options,
    each_text,
    strategy_of,
)
from handloom.train.language_modelling import TOKENIZERS, TokenizedText, Writer, tokenize, train_language_model
from handloom.train.language_tables import COLUMNS, TABLES, draw_comparison, figures, make_table
from handloom.train.run_folder import RunFolder
from handloom.train.text_data import TEXT_NAMES, load_text_data

PROMPT = "This is a"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_training_options(
        parser,
        data=f"one of {', '.join(TEXT_NAMES)}, or a text file of your own (default: embedded, which needs no network)",
        presets=PRESET_NAMES,
        preset="laptop",
    )
    parser.add_argument("--tokenizer", choices=TOKENIZERS, default="character", help="tokens (default: character)")
    parser.add_argument("--positions", choices=POSITIONS, help="how the model knows places (default: the preset's)")
    parser.add_argument(
        "--table",
        choices=(*TABLES, "none"),
        default="baselines",
        help="what to train beside the model and compare it with (default: baselines); a table that was interrupted "
        "goes on with --resume",
    )
    add_generation_options(parser, translates=False)
    parser.add_argument("--checkpoint", type=Path, metavar="RUN", help="write with the model of an earlier run")
    parser.add_argument("--length", type=positive, default=300, help="tokens to write (default: 300)")
    parser.add_argument(
        "prompts",
        nargs="*",
        metavar="PROMPT",
        help="with --checkpoint: beginnings to go on from (default: the lines of standard input)",
    )
    arguments = parse_training_arguments(parser)
    if arguments.prompts and not arguments.checkpoint:
        parser.error("prompts need a trained model: add --checkpoint RUN")
    if arguments.checkpoint and (arguments.out or arguments.steps or arguments.stop_at or arguments.device != "cpu"):
        parser.error("--out, --resume, --steps, --stop-at and --device are for training, not with --checkpoint")
    check_generation_options(parser, arguments, arguments.prompts)
    return arguments


def main() -> None:
    arguments = parse_arguments()
    if not arguments.checkpoint:
        train(arguments)
        return
    writer = Writer.load(arguments.checkpoint)
    each_text(arguments, arguments.prompts, "beginnings", lambda prompt: show(writer, prompt, arguments))


def show(writer: Writer, prompt: str, arguments: argparse.Namespace) -> None:
    """Print what the model writes as it comes, or the best continuations that a search found."""
    strategy = strategy_of(arguments)
    if strategy.sampling:
        for draw in range(strategy.n_best):
            print(prompt, end="", flush=True)
            drawn = dataclasses.replace(strategy, seed=strategy.seed + draw)
            for piece in writer.stream(prompt, arguments.length, drawn):
                print(piece, end="", flush=True)
            print()
        return
    for text, score in writer.best(prompt, arguments.length, strategy):
        print(f"{score:8.3f}  {text}" if strategy.n_best > 1 else text, flush=True)


def train(arguments: argparse.Namespace) -> None:
    start = time.perf_counter()
    check_device(arguments.device)
    data = load_text_data(arguments.data)
    print(data.summary(), *data.notes, sep="\n")
    preset = language_model_preset(arguments.preset, data.name)
    preset = dataclasses.replace(preset, positions=arguments.positions or preset.positions)
    with start_run(arguments, "generate_text", {"data": data.summary()}) as run:
        manual_seed(arguments.seed)
        known = load_tokenizer(run.tokenizer_path) if arguments.resume else None
        text = tokenize(data, arguments.tokenizer, preset.vocab_size, known)
        writer = train_language_model(
            text,
            preset.transformer(text.tokenizer.vocab_size),
            preset,
            run,
            seed=arguments.seed,
            steps=arguments.steps,
            device=arguments.device,
            resume=arguments.resume is not None,
            stop_at=arguments.stop_at,
        )
        report(writer, text, preset, run, arguments)
        print(f"{run.path} holds the model, tables, samples and pictures; {time.perf_counter() - start:.0f} s in all")


def report(
    writer: Writer, text: TokenizedText, preset: LanguageModelPreset, run: RunFolder, arguments: argparse.Namespace
) -> None:
    """The model's figures beside those of the table's other models, its curves, and what it writes."""
    own = {"cell": "Transformer", **figures(writer.model, text, preset)}
    rows = [own]
    if arguments.table != "none":
        rows = make_table(arguments.table, text, preset, run, seed=arguments.seed, steps=arguments.steps) + rows
        draw_comparison(run, "Transformer")
    table = markdown_table(rows, COLUMNS)
    run.table_path.write_text(table + "\n", encoding="utf-8")
    samples = [writer.write(PROMPT, arguments.length, temperature=arguments.temperature, seed=n) for n in range(3)]
    run.write_samples("\n\n----\n\n".join(samples))
    print(f"\n{table}\n\n{samples[0]}\n")


if __name__ == "__main__":
    run_main(main)
