"""Train a language model on a text, compare it with simpler ones, and let it write.

python examples/generate_text.py                                        embedded text, a few minutes
python examples/generate_text.py --data shakespeare --out runs/plays    Shakespeare, the sizes of nanoGPT's CPU run
python examples/generate_text.py --tokenizer bpe --table none           subwords instead of characters
python examples/generate_text.py --table heads                          the same model with other heads
python examples/generate_text.py --augment runs/en_fr runs/fr_en        more text, by way of French
python examples/generate_text.py --checkpoint runs/plays "This is a"    go on from a beginning
python examples/generate_text.py --checkpoint openai-community/gpt2 "This is a"
python examples/generate_text.py --init openai-community/gpt2 --data shakespeare --table none --lr 3e-5
"""

from __future__ import annotations

from handloom.train.cli.start import run_main  # first: from here on Ctrl-C ends the program with one line

import argparse
import dataclasses
import time
from typing import Any

from handloom.autograd import manual_seed
from handloom.autograd.backend import check_device
from handloom.models.presets import LanguageModelPreset, language_model_preset
from handloom.nn import POSITIONS
from handloom.tokenizer import load_tokenizer
from handloom.train.cli.command_line import positive, share, start_run
from handloom.train.cli.examples import example_parser, parse_example, use
from handloom.train.cli.generation import strategy_of
from handloom.train.cli.training import preset_of, run_options
from handloom.train.data.running_text import TEXT_NAMES, TextData, load_text_data
from handloom.train.runs.folder import RunFolder
from handloom.train.tables.cells import markdown_table
from handloom.train.tables.language_models import COLUMNS, TABLES, draw_comparison, figures, make_table
from handloom.train.tasks.back_translation import round_trips
from handloom.train.tasks.language_modelling import TOKENIZERS, TokenizedText, Writer, tokenize, train_language_model
from handloom.train.tasks.translation import Translator

PROMPT = "This is a"
TASK = "text"


def parse_arguments() -> Any:
    parser = example_parser(
        __doc__,
        data=f"one of {', '.join(TEXT_NAMES)}, or a text file of your own (default: embedded, which needs no network)",
        texts="beginnings to go on from",
        generates="continuations",
    )
    add = parser.group("this report", "train")
    add("--tokenizer", choices=TOKENIZERS, default="character", help="tokens (default: character)")
    add("--positions", choices=POSITIONS, help="the same as --set positions=... (default: the preset's)")
    add(
        "--table",
        choices=(*TABLES, "none"),
        default="baselines",
        help="what to train beside the model and compare it with (default: baselines); a table that was interrupted "
        "goes on with --resume",
        uses=("train", "resume"),
    )
    add(
        "--augment",
        nargs=2,
        metavar=("FORTH", "BACK"),
        help="also train on sentences of the text that two runs of translate_en_fr.py, the second with --reverse, "
        "translated and translated back",
    )
    add("--augment-share", type=share, default=1.0, metavar="P", help="of the sentences (default: 1)")
    both = ("train", "checkpoint")
    add("--length", type=positive, default=300, help="tokens to write (default: 300)", uses=both)
    arguments = parse_example(parser)
    if "augment_share" in arguments.given and not arguments.augment:
        parser.error("--augment-share is a share of what --augment adds: add --augment FORTH BACK")
    if "tokenizer" in arguments.given and (arguments.teacher or arguments.init):
        first = "--teacher" if arguments.teacher else "--init"
        parser.error(f"--tokenizer can't be chosen beside {first}, whose tokens are taken: leave it out")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    if not arguments.checkpoint:
        train(arguments)
        return
    writer = Writer.load(arguments.checkpoint, [TASK])
    use(arguments, lambda prompt: show(writer, prompt, arguments))


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


def augmented(data: TextData, arguments: argparse.Namespace) -> TextData:
    """The data with the round trips of --augment at the end of the training text."""
    ways = ("en", "fr"), ("fr", "en")
    forth, back = (
        Translator.load(run, [f"translation from {source} to {target}"])
        for run, (source, target) in zip(arguments.augment, ways, strict=True)
    )
    more, note = round_trips(data.train, forth, back, share=arguments.augment_share, seed=arguments.seed)
    print(note)
    return dataclasses.replace(data, train=f"{data.train}\n\n{more}")


def train(arguments: argparse.Namespace) -> None:
    start = time.perf_counter()
    check_device(arguments.device)
    data = load_text_data(arguments.data)
    print(data.summary(), *data.notes, sep="\n")
    preset = preset_of(arguments, language_model_preset(arguments.preset, data.name))
    teacher, init = (Writer.load(one, [TASK]) if one else None for one in (arguments.teacher, arguments.init))
    with start_run(arguments, "generate_text", data) as run:
        manual_seed(arguments.seed)
        first = init or teacher
        known = load_tokenizer(run.tokenizer_path) if arguments.resume else first.tokenizer if first else None
        text, plain = tokenize(data, arguments.tokenizer, preset.vocab_size, known), None
        if arguments.augment:  # the same tokens, so that losses can be compared
            text, plain = tokenize(augmented(data, arguments), "", 0, text.tokenizer), text
        config = preset.transformer(text.tokenizer.vocab_size)
        trained = time.perf_counter()
        options = {**run_options(arguments), "teacher": teacher, "init": init, "task": TASK}
        writer = train_language_model(text, config, preset, run, **options)
        row = {**figures(writer.model, text, preset)}
        row["seconds"] = None if arguments.resume else time.perf_counter() - trained
        report(writer, row, text, plain, preset, run, arguments)
        print(f"{run.path} holds the model, tables, samples and pictures; {time.perf_counter() - start:.0f} s in all")


def report(
    writer: Writer, row: dict[str, Any], text: TokenizedText, plain: TokenizedText | None, preset: LanguageModelPreset,
    run: RunFolder, arguments: argparse.Namespace,
) -> None:  # fmt: skip
    """The model's figures, `row`, beside those of the table's other models, its curves, and what it writes."""
    own_name = "Transformer, with augmentation" if plain else "Transformer"
    rows = [{"cell": own_name, **row}]
    if arguments.table != "none" or plain:
        options = {**run_options(arguments), "stop_at": None, "task": TASK}
        cells = make_table(arguments.table, text, preset, run, plain=plain, **options)
        draw_comparison(run, own_name, cells)
        rows = cells + rows
    table = markdown_table(rows, COLUMNS)
    run.write_table(table)
    strategy = strategy_of(arguments)
    prompt = PROMPT if writer.knows(PROMPT) else text.tokenizer.decode(text.train[:10])
    samples = [
        writer.write(prompt, arguments.length, strategy=dataclasses.replace(strategy, seed=n)) for n in range(3)
    ]
    run.write_samples("\n\n----\n\n".join(samples))
    print(f"\n{table}\n\n{samples[0]}\n")


if __name__ == "__main__":
    run_main(main)
