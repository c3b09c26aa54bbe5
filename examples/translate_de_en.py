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

from handloom import Translator, cli, models, train
from handloom.examples.tables import pairs


def parse_arguments() -> Any:
    parser, _ = cli.translation_parser(__doc__, models.translation_preset, "de", "en")
    arguments = cli.parse_example(parser)
    arguments.languages = cli.languages(parser, arguments, "de", "en")
    return arguments


def main() -> None:
    if cli.apply_model("translate"):
        return
    arguments = parse_arguments()
    source, target = arguments.languages
    preset = cli.preset_of(arguments, models.translation_preset(arguments.preset, arguments.data))
    strategy = cli.strategy_of(arguments)
    # The test sentences are the same for every seed, so that scores can be compared.
    data = cli.load_data(train.load_translation_data, arguments.data, source=source, target=target)
    # A model of the other direction, for --init, has the same vocabulary and embeddings.
    names = [cli.translation_task(source, target), cli.translation_task(target, source)]
    task = train.Translation(cli.training_pairs(data, arguments), data.valid, preset=preset, name=names[0])
    sentences = [source for source, _ in data.test[: preset.test_size]]
    options: Any = {"strategy": strategy, "too_long": "truncate", "progress": True, "split": False}
    with cli.example_run(arguments, data, Translator, names, train.data_names()) as run:
        translator = run.fit(task)
        if run.first:
            run.report(show(translator, data, translator.translate(sentences, **options), strategy.name, run))


def show(translator: Translator, data: Any, translations: list[str], search: str, run: cli.ExampleRun) -> str:
    """Show the report's Table 1, the best and the worst translations, pictures of the attention, and the scores."""
    test = data.test[: len(translations)]
    sources, references = [pair[0] for pair in test], translator.as_written([pair[1] for pair in test])
    samples, best, worst = pairs.show_samples(translator, sources, references, translations, run.folder)
    score, letters = train.bleu(translations, references), train.chrf(translations, references)
    batch = pairs.batch_samples(sources, references, translations, run.arguments.seed)
    table = pairs.batch_rows(batch, run.reported)
    run.folder.write_table(
        f"{data.test_name}: {search}, {score}\n\n{train.markdown_table(table, pairs.BATCH_COLUMNS)}",
        scores=[{"search": search, **vars(score)}, vars(letters)],
        batch=table,
        best=map(vars, best),
        worst=map(vars, worst),
    )
    stated = ", ".join(f"{which} {score}" for which, score in pairs.BATCH_SCORES.items())
    stated = f" (the report: {stated})" if run.reported else ""
    return (
        f"{samples}\n\nBest and worst of a random batch{stated}\n\n{train.samples_text(batch)}\n\n"
        f"{run.folder.picture('loss')} shows training and validation loss\n{data.test_name}: {letters}\n"
        f"{data.test_name}: {search}, {score.signature}\nBLEU = {score.value:.2f}"
    )


if __name__ == "__main__":
    cli.run_main(main, several_processes=True)
