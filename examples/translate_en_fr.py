"""Train a Transformer that translates English into French, with a choice of six position encodings.

python examples/translate_en_fr.py                                    embedded corpus, six position encodings: minutes
python examples/translate_en_fr.py --data multi30k --keep-long        image descriptions of every length
python examples/translate_en_fr.py --table none --positions rotary    one position encoding only
python examples/translate_en_fr.py --checkpoint runs/fr "A dog runs through the snow."
"""

import dataclasses
from typing import Any

from handloom.cli.command_line import run_main
from handloom.cli.examples import example_parser, parse_example, train_and_report
from handloom.cli.generation import strategy_of
from handloom.cli.texts import apply_model
from handloom.cli.training import preset_of
from handloom.cli.translation import add_translation_options, languages, training_pairs, translation_task
from handloom.examples.tables.attention import ALIGNMENT_COLUMNS, alignment_rows, draw_last_layers
from handloom.examples.tables.pairs import figures, set_long_apart
from handloom.examples.tables.stated import Table, write_tables
from handloom.models.presets import en_fr_preset
from handloom.models.text_baselines import WordForWord
from handloom.nn import POSITIONS
from handloom.train.data.files import Pair
from handloom.train.data.pairs import TranslationData
from handloom.train.data.translation import data_names, load_translation_data
from handloom.train.distributed import find_process_group
from handloom.train.runs.folder import RunFolder
from handloom.train.tasks.metrics import best_and_worst, bleu, samples_text
from handloom.train.tasks.translation import Translation, Translator

COLUMNS = {
    "cell": "positions",
    "parameters": "parameters:,",
    "bleu": "BLEU:.2f",
    "loss": "loss:.3f",
    "long_bleu": "BLEU, longer:.2f",
    "long_loss": "loss, longer:.3f",
    "seconds": "seconds:.0f",
}


def parse_arguments() -> Any:
    parser = example_parser(
        __doc__,
        en_fr_preset,
        data=f"one of {', '.join(data_names('en', 'fr'))}, or your own: a file of tab-separated English and French, or "
        "PATH for the two files PATH.en and PATH.fr; several can be joined by + (default: embedded, which needs no "
        "network)",
    )
    add = add_translation_options(parser, "English", "French")
    words = "keep long sentences in the training data, and use one test set for all lengths instead of two"
    add("--keep-long", action="store_true", help=words)
    words = "position encoding, the same as --set positions=... (default: the preset's value)"
    add("--positions", choices=POSITIONS, help=words)
    words = "positions: also train one model with each of the other position encodings, and compare them in a table; "
    words += "attention: measure how often the heads attend to the word that is translated (default: positions for "
    words += "embedded data, otherwise none)"
    add("--table", choices=("positions", "attention", "none"), resumes=True, help=words)
    arguments = parse_example(parser)
    arguments.languages = languages(parser, arguments, "en", "fr")
    if arguments.back_translate and not arguments.keep_long:
        parser.error("--back-translate may add long pairs, which are set apart for the final test: add --keep-long")
    return arguments


def main() -> None:
    if apply_model("translate", shipped=False):
        return
    arguments = parse_arguments()
    source, target = arguments.languages
    preset = preset_of(arguments, en_fr_preset(arguments.preset, arguments.data))
    data = find_process_group().from_first(lambda: load_translation_data(arguments.data, source=source, target=target))
    print(data.summary(), *data.notes, sep="\n")
    long: list[Pair] = []
    if not arguments.keep_long:
        data, long = set_long_apart(data)
        longest = max(len(source.split()) for source, _ in data.train)
        print(f"{len(long):,} pairs of more than {longest} words are kept for the final test")
    pairs = training_pairs(data, arguments)  # before the test set is shortened: none of its sentences may be added
    data, long = dataclasses.replace(data, test=data.test[: preset.test_size]), long[: preset.test_size]
    strategy = strategy_of(arguments)

    def test(translator: Translator, task: Translation) -> tuple[dict, list[str]]:
        sources = [pair[0] for pair in data.test]
        translations = translator.translate(sources, strategy=strategy, too_long="truncate", progress=True, split=False)
        return figures(translator, data.test, long, strategy, translations), translations

    def cells(task: Translation) -> dict[str, Translation]:
        if (arguments.table or ("positions" if data.name == "embedded" else "none")) != "positions":
            return {}
        return {kind: task.with_preset(positions=kind) for kind in POSITIONS if kind != preset.positions}

    def report(translator: Translator, task: Translation, run: RunFolder, rows: list[dict], written: list[str]) -> str:
        rows = [{"cell": preset.positions, **rows[0]}, *rows[1:]]
        tables: dict[str, Table] = {"models": (rows, COLUMNS)}
        if arguments.table == "attention":
            tables["alignment"] = aligned(translator, data, written), ALIGNMENT_COLUMNS
        table = write_tables(run, tables)
        units = f"losses in nats per token; BLEU: {bleu(['a'], ['a']).signature}, {strategy.name}"
        return f"{show(translator, data, written, run)}\n\n{table}\n\n{units}"

    name = translation_task(source, target)
    task = Translation(pairs, data.valid, preset=preset, name=name)
    train_and_report(arguments, data, task, test=test, report=report, cells=cells, named=data_names())


def aligned(translator: Translator, data: TranslationData, translations: list[str]) -> list[dict[str, Any]]:
    """Measure how often the heads attend to the word that is translated, in the model's translations and the
    references. IBM model 1, trained on the training pairs, determines this word.
    """
    partners = WordForWord([(target, source) for source, target in data.train]).table
    sources = [source for source, _ in data.test]
    texts = {"written": list(zip(sources, translations, strict=True)), "reference": data.test}
    return alignment_rows(translator, texts, partners)


def show(translator: Translator, data: TranslationData, translations: list[str], run: RunFolder) -> str:
    """Show the best and the worst translations, and pictures of the attention."""
    sources, references = [pair[0] for pair in data.test], translator.as_written([pair[1] for pair in data.test])
    best, worst = best_and_worst(sources, references, translations)
    samples = f"Best translations\n\n{samples_text(best)}\n\nWorst translations\n\n{samples_text(worst)}"
    run.write_samples(samples)
    draw_last_layers(translator, min(sources, key=lambda text: abs(len(text.split()) - 9)), run)
    return samples


if __name__ == "__main__":
    run_main(main, several_processes=True)
