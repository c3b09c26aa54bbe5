"""Train a language model on a text, compare it with simpler models, and generate text.

python examples/generate_text.py "This is a"                             the model that comes with handloom
python examples/generate_text.py                                        embedded text, a few minutes
python examples/generate_text.py --data shakespeare --out runs/plays    Shakespeare, with the sizes of nanoGPT's CPU run
python examples/generate_text.py --tokenizer bpe --table sizes          subwords instead of characters
python examples/generate_text.py --table heads                          the same model with other numbers of heads
mpirun -n 4 python examples/generate_text.py --table heads              four processes train each model together
python examples/generate_text.py --augment runs/en_fr runs/fr_en        augment the text by back-translation
python examples/generate_text.py --checkpoint runs/plays "This is a"    continue a prompt
python examples/generate_text.py --checkpoint openai-community/gpt2 "This is a"
python examples/generate_text.py --init openai-community/gpt2 --data shakespeare --table none --lr 3e-5
"""

import argparse
import dataclasses
from functools import partial
from typing import Any

from handloom.arguments import positive
from handloom.cli.command_line import run_main
from handloom.cli.examples import example_parser, parse_example, train_and_report
from handloom.cli.generation import strategy_of
from handloom.cli.texts import apply_model
from handloom.cli.training import changed, preset_of
from handloom.cli.translation import translation_task
from handloom.examples.tables import language_models as tables
from handloom.models.presets import language_model_preset
from handloom.nn import POSITIONS
from handloom.tokenizer.character import without_special
from handloom.train.cells import markdown_table
from handloom.train.data.running_text import TEXT_NAMES, TextData, load_text_data
from handloom.train.distributed import find_process_group
from handloom.train.runs.folder import RunFolder
from handloom.train.tasks.language_modelling import TOKENIZERS, LanguageModelling, Writer, learn_tokens, tokenize
from handloom.train.tasks.task import choose_tokenizer
from handloom.train.tasks.translation import Translator, round_trips

PROMPT = "This is a"
TASK = "text"


def parse_arguments() -> Any:
    parser = example_parser(
        __doc__,
        language_model_preset,
        data=f"one of {', '.join(TEXT_NAMES)}, several joined by +, or your own text file (default: "
        "embedded, which needs no network)",
        generates="continuations",
    )
    add = parser.group("this report")
    add("--tokenizer", choices=TOKENIZERS, default="character", help="kind of tokens (default: character)")
    words = "position encoding, the same as --set positions=... (default: the preset's value)"
    add("--positions", choices=POSITIONS, help=words)
    words = "also train these other models and compare them in a table (default: baselines); --resume continues an "
    words += "interrupted table"
    add("--table", choices=(*tables.TABLES, "none"), default="baselines", help=words, resumes=True)
    words = "augment the training text by back-translation: FORTH is the folder of a translate_en_fr.py run, and BACK "
    words += "is the folder of a run trained with --reverse"
    add("--augment", nargs=2, metavar=("FORTH", "BACK"), help=words)
    words = "remove characters outside the alphabet instead of transliterating them; also remove titles, authors and "
    words += "tables of contents from Gutenberg's books, as in the report"
    add("--remove-special", action="store_true", help=words)
    add("--length", type=positive, default=300, help="number of tokens to generate (default: 300)")
    arguments = parse_example(parser)
    if "tokenizer" in arguments.given and (arguments.teacher or arguments.init):
        first = "--teacher" if arguments.teacher else "--init"
        parser.error(f"--tokenizer has no effect with {first}, whose tokenizer is used: leave it out")
    return arguments


def main() -> None:
    if apply_model("generate"):
        return
    arguments = parse_arguments()
    own = language_model_preset(arguments.preset, arguments.data)
    preset, baseline = preset_of(arguments, own), changed(own, arguments.set).for_baselines()
    if arguments.steps:
        baseline = dataclasses.replace(baseline, steps=arguments.steps)
    data = find_process_group().from_first(lambda: load_text_data(arguments.data, bare=arguments.remove_special))
    if arguments.remove_special:
        parts = {name: without_special(getattr(data, name)) for name in ("train", "valid", "test")}
        data = dataclasses.replace(data, **parts)
    print(data.summary(), *data.notes, sep="\n")

    def make_task(run: RunFolder, known: Writer | None) -> LanguageModelling:
        resume, group = arguments.resume is not None, find_process_group()
        learn = partial(learn_tokens, data, arguments.tokenizer, preset.vocab_size)
        tokenizer = group.from_first(lambda: choose_tokenizer(run, resume, known, learn))
        text, plain = tokenize(data, tokenizer), None
        if arguments.augment:  # the same tokens as without --augment, so that losses can be compared
            text, plain = tokenize(group.from_first(lambda: augmented(data, arguments)), tokenizer), text
        return LanguageModelling(text, plain=plain, preset=preset, name=TASK)

    def test(writer: Writer, task: LanguageModelling) -> tuple[dict[str, Any], None]:
        return tables.figures(writer, task.text), None

    def cells(task: LanguageModelling) -> dict[str, LanguageModelling | Writer]:
        return tables.table_cells(arguments.table, task, baseline)

    def report(writer: Writer, task: LanguageModelling, run: RunFolder, rows: list[dict], outputs: None) -> str:
        return show(writer, task, cells(task), rows, run, arguments)

    train_and_report(arguments, data, make_task, Writer, TASK, test=test, report=report, cells=cells, named=TEXT_NAMES)


def augmented(data: TextData, arguments: argparse.Namespace) -> TextData:
    """Return the data, with the back-translated texts of --augment added to the training text."""
    ways = ("en", "fr"), ("fr", "en")
    forth, back = (
        Translator.load(run, [translation_task(source, target)])
        for run, (source, target) in zip(arguments.augment, ways, strict=True)
    )
    more, note = round_trips(data.train, forth, back)
    print(note)
    return dataclasses.replace(data, train=f"{data.train}\n\n{more}")


def show(writer: Writer, task: LanguageModelling, cells: dict, rows: list[dict], run: RunFolder, arguments: Any) -> str:
    """Show the table, in which the run's model is last, pictures of all trainings, and the first text of each model."""
    name = "Transformer, with augmentation" if task.plain else "Transformer"
    rows = [*rows[1:], {"cell": name, **rows[0]}]
    runs = {cell: RunFolder.open(run.cell_path(cell)) for cell in cells} | {name: run}
    tables.draw_comparison(run, runs)
    rows = tables.with_report_figures(arguments.table, tables.with_budgets(rows, runs) if cells else rows, task)
    table = markdown_table(rows, tables.COLUMNS)
    run.write_table(table, models=rows)
    strategy = strategy_of(arguments)
    prompt = PROMPT if writer.knows(PROMPT) else writer.tokenizer.decode(task.text.train[:10])
    texts = {}
    for cell, made in {**cells, name: writer}.items():
        one = made if isinstance(made, Writer) else Writer.load(runs[cell].path, [TASK])
        texts[cell] = one.write(prompt, arguments.length, strategy=strategy)
    run.write_samples("\n\n----\n\n".join(f"{cell}:\n\n{text}" for cell, text in texts.items()))
    return f"{table}\n\n{texts[name]}"


if __name__ == "__main__":
    run_main(main, several_processes=True)
