"""Train a Transformer that translates German into English; show scores, translations and attention.

python examples/translate_de_en.py "Wo ist der Bahnhof?"             uses the model that comes with handloom
python examples/translate_de_en.py                                  trains on the embedded corpus in a few minutes
python examples/translate_de_en.py --data multi30k --out runs/m30k  real image descriptions
python examples/translate_de_en.py --resume runs/m30k                resume after Ctrl-C, a crash or a power cut
mpirun -n 4 python examples/translate_de_en.py --data multi30k       four processes, with a batch four times as large
python examples/translate_de_en.py --checkpoint runs/m30k "Ein Hund läuft durch den Schnee."
python examples/translate_de_en.py --checkpoint Helsinki-NLP/opus-mt-de-en "Wo ist der Bahnhof?"
python examples/translate_de_en.py --init Helsinki-NLP/opus-mt-de-en --data multi30k --schedule constant --lr 3e-5
python examples/translate_de_en.py --checkpoint runs/m30k --interactive --nbest 3 --show-attention
"""

from typing import Any

from handloom.cli.command_line import run_main
from handloom.cli.examples import example_parser, is_named, parse_example, train_and_report
from handloom.cli.generation import strategy_of
from handloom.cli.texts import apply_model
from handloom.cli.training import preset_of
from handloom.cli.translation import add_translation_options, languages, training_pairs, translation_task
from handloom.examples.tables.attention import draw_last_layers
from handloom.examples.tables.pairs import BATCH_COLUMNS, BATCH_SCORES, batch_rows, batch_samples
from handloom.models.presets import translation_preset
from handloom.train.cells import markdown_table
from handloom.train.data.pairs import TranslationData
from handloom.train.data.translation import data_names, load_translation_data
from handloom.train.distributed import find_process_group
from handloom.train.runs.folder import RunFolder
from handloom.train.tasks.metrics import best_and_worst, bleu, chrf, samples_text
from handloom.train.tasks.translation import Translation, Translator


def parse_arguments() -> Any:
    parser = example_parser(
        __doc__,
        translation_preset,
        data=f"one of {', '.join(data_names('de', 'en'))}, or your own: a file of tab-separated German and English, or "
        "PATH for the two files PATH.de and PATH.en; several can be joined by + (default: embedded, which needs no "
        "network)",
    )
    add_translation_options(parser, "German", "English")
    arguments = parse_example(parser)
    arguments.languages = languages(parser, arguments, "de", "en")
    return arguments


def main() -> None:
    if apply_model("translate"):
        return
    arguments = parse_arguments()
    source, target = arguments.languages
    preset = preset_of(arguments, translation_preset(arguments.preset, arguments.data))
    # The test sentences are the same for every seed, so that scores can be compared.
    data = find_process_group().from_first(lambda: load_translation_data(arguments.data, source=source, target=target))
    print(data.summary(), *data.notes, sep="\n")
    name = translation_task(source, target)
    learnt = Translation(training_pairs(data, arguments), data.valid, preset=preset, name=name)
    sentences = [source for source, _ in data.test[: preset.test_size]]

    def test(translator: Translator, task: Translation) -> tuple[dict, list[str]]:
        strategy = strategy_of(arguments)
        return {}, translator.translate(sentences, strategy=strategy, too_long="truncate", progress=True, split=False)

    def report(translator: Translator, task: Translation, run: RunFolder, rows: list[dict], written: list[str]) -> str:
        return show(translator, data, written, strategy_of(arguments).name, arguments.seed, run)

    # A model of the other direction has the same vocabulary and embeddings.
    others = [translation_task(target, source)]
    train_and_report(arguments, data, learnt, test=test, report=report, init_tasks=others, named=data_names())


def show(
    translator: Translator, data: TranslationData, translations: list[str], search: str, seed: int, run: RunFolder
) -> str:
    """Show the report's Table 1, the best and the worst translations, pictures of the attention, and the scores."""
    test = data.test[: len(translations)]
    sources, references = [pair[0] for pair in test], translator.as_written([pair[1] for pair in test])
    best, worst = best_and_worst(sources, references, translations)
    samples = f"Best translations\n\n{samples_text(best)}\n\nWorst translations\n\n{samples_text(worst)}"
    run.write_samples(samples)
    draw_last_layers(translator, min(sources, key=lambda text: abs(len(text.split()) - 9)), run)
    score, letters = bleu(translations, references), chrf(translations, references)
    batch = batch_samples(sources, references, translations, seed)
    reported = is_named(data, data_names())
    table = batch_rows(batch, reported)
    run.write_table(
        f"{data.test_name}: {search}, {score}\n\n{markdown_table(table, BATCH_COLUMNS)}",
        scores=[{"search": search, **vars(score)}, vars(letters)],
        batch=table,
        best=map(vars, best),
        worst=map(vars, worst),
    )
    stated = ", ".join(f"{which} {score}" for which, score in BATCH_SCORES.items())
    stated = f" (the report: {stated})" if reported else ""
    return (
        f"{samples}\n\nBest and worst of a random batch{stated}\n\n{samples_text(batch)}\n\n"
        f"{run.picture('loss')} shows training and validation loss\n{data.test_name}: {letters}\n"
        f"{data.test_name}: {search}, {score.signature}\nBLEU = {score.value:.2f}"
    )


if __name__ == "__main__":
    run_main(main, several_processes=True)
