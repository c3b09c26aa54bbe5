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

import dataclasses
from typing import Any

from handloom import Translator, Writer, cli, models, train
from handloom.examples.tables import language_models
from handloom.nn import POSITIONS
from handloom.tokenizer import without_special

PROMPT = "This is a"
TASK = "text"


def parse_arguments() -> Any:
    words = f"one of {', '.join(train.TEXT_NAMES)}, several joined by +, or your own text file (default: embedded, "
    words += "which needs no network)"
    parser = cli.example_parser(__doc__, models.language_model_preset, data=words, generates="continuations")
    add = parser.group("this report")
    add("--tokenizer", choices=train.TOKENIZERS, default="character", help="kind of tokens (default: character)")
    words = "position encoding, the same as --set positions=... (default: the preset's value)"
    add("--positions", choices=POSITIONS, help=words)
    words = "also train these other models and compare them in a table (default: baselines); --resume continues an "
    words += "interrupted table"
    add("--table", choices=(*language_models.TABLES, "none"), default="baselines", help=words, resumes=True)
    words = "augment the training text by back-translation: FORTH is the folder of a translate_en_fr.py run, and BACK "
    words += "is the folder of a run trained with --reverse"
    add("--augment", nargs=2, metavar=("FORTH", "BACK"), help=words)
    words = "remove characters outside the alphabet instead of transliterating them; also remove titles, authors and "
    words += "tables of contents from Gutenberg's books, as in the report"
    add("--remove-special", action="store_true", help=words)
    add("--length", type=cli.positive, default=300, help="number of tokens to generate (default: 300)")
    arguments = cli.parse_example(parser)
    if "tokenizer" in arguments.given and (arguments.teacher or arguments.init):
        first = "--teacher" if arguments.teacher else "--init"
        parser.error(f"--tokenizer has no effect with {first}, whose tokenizer is used: leave it out")
    return arguments


def load(name: str, remove_special: bool) -> Any:
    data = train.load_text_data(name, bare=remove_special)
    return data.changed(without_special) if remove_special else data


def main() -> None:
    if cli.apply_model("generate"):
        return
    arguments = parse_arguments()
    own = models.language_model_preset(arguments.preset, arguments.data)
    preset, baseline = cli.preset_of(arguments, own), cli.changed(own, arguments.set).for_baselines()
    if arguments.steps:
        baseline = dataclasses.replace(baseline, steps=arguments.steps)
    data = cli.load_data(load, arguments.data, arguments.remove_special)
    with cli.example_run(arguments, data, Writer, [TASK], train.TEXT_NAMES) as run:
        tokenizer = run.tokenizer(lambda: train.learn_tokens(data, arguments.tokenizer, preset.vocab_size))
        text, plain, group = train.tokenize(data, tokenizer), None, train.find_process_group()
        if arguments.augment:  # the same tokens as without --augment, so that losses can be compared
            text, plain = train.tokenize(group.from_first(lambda: augmented(data, *arguments.augment)), tokenizer), text
        task = train.LanguageModelling(text, plain=plain, preset=preset, name=TASK)
        cells = language_models.table_cells(arguments.table, task, baseline)
        writer = run.fit(task)
        rows, _ = run.score(writer, lambda writer: (language_models.figures(writer, text), None), cells)
        if run.first:
            run.report(show(writer, task, cells, rows, run))


def augmented(data: Any, forth: str, back: str) -> Any:
    """Return the data, with the back-translated texts of --augment added to the training text."""
    french = Translator.load(forth, [cli.translation_task("en", "fr")])
    english = Translator.load(back, [cli.translation_task("fr", "en")])
    more, note = train.round_trips(data.train, french, english)
    print(note)
    return dataclasses.replace(data, train=f"{data.train}\n\n{more}")


def show(writer: Writer, task: train.LanguageModelling, cells: Any, rows: list[Any], run: cli.ExampleRun) -> str:
    """Show the table, in which the run's model is last, pictures of all trainings, and the first text of each model."""
    name, arguments = "Transformer, with augmentation" if task.plain else "Transformer", run.arguments
    rows = [*rows[1:], {"cell": name, **rows[0]}]
    runs = {cell: train.RunFolder.open(run.folder.cell_path(cell)) for cell in cells} | {name: run.folder}
    language_models.draw_comparison(run.folder, runs)
    rows = language_models.with_budgets(rows, runs) if cells else rows
    rows = language_models.with_report_figures(arguments.table, rows, task)
    table = train.markdown_table(rows, language_models.COLUMNS)
    run.folder.write_table(table, models=rows)
    strategy, texts = cli.strategy_of(arguments), {}
    prompt = PROMPT if writer.knows(PROMPT) else writer.tokenizer.decode(task.text.train[:10])
    for cell, made in {**cells, name: writer}.items():
        found = made if isinstance(made, Writer) else Writer.load(runs[cell].path, [TASK])
        texts[cell] = found.write(prompt, arguments.length, strategy=strategy)
    run.folder.write_samples("\n\n----\n\n".join(f"{cell}:\n\n{text}" for cell, text in texts.items()))
    return f"{table}\n\n{texts[name]}"


if __name__ == "__main__":
    cli.run_main(main, several_processes=True)
