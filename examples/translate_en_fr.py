"""Train a Transformer that translates English into French, with a choice of six position encodings.

python examples/translate_en_fr.py                                    embedded corpus, six position encodings: minutes
python examples/translate_en_fr.py --data multi30k --keep-long        image descriptions of every length
python examples/translate_en_fr.py --table none --positions rotary    one position encoding only
python examples/translate_en_fr.py --checkpoint runs/fr "A dog runs through the snow."
"""

import dataclasses
from functools import partial
from typing import Any

from handloom import Translator, cli, models, train
from handloom.examples.tables import attention, pairs, stated
from handloom.nn import POSITIONS

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
    parser, add = cli.translation_parser(__doc__, models.en_fr_preset, "en", "fr")
    words = "keep long sentences in the training data, and use one test set for all lengths instead of two"
    add("--keep-long", action="store_true", help=words)
    words = "position encoding, the same as --set positions=... (default: the preset's value)"
    add("--positions", choices=POSITIONS, help=words)
    words = "positions: also train one model with each of the other position encodings, and compare them in a table; "
    words += "attention: measure how often the heads attend to the word that is translated (default: positions for "
    words += "embedded data, otherwise none)"
    add("--table", choices=("positions", "attention", "none"), resumes=True, help=words)
    arguments = cli.parse_example(parser)
    arguments.languages = cli.languages(parser, arguments, "en", "fr")
    if arguments.back_translate and not arguments.keep_long:
        parser.error("--back-translate may add long pairs, which are set apart for the final test: add --keep-long")
    return arguments


def main() -> None:
    if cli.apply_model("translate", shipped=False):
        return
    arguments = parse_arguments()
    source, target = arguments.languages
    preset = cli.preset_of(arguments, models.en_fr_preset(arguments.preset, arguments.data))
    strategy, name = cli.strategy_of(arguments), cli.translation_task(source, target)
    data = cli.load_data(train.load_translation_data, arguments.data, source=source, target=target)
    long: list[tuple[str, str]] = []
    if not arguments.keep_long:
        data, long = pairs.set_long_apart(data)
        longest = max(len(source.split()) for source, _ in data.train)
        print(f"{len(long):,} pairs of more than {longest} words are kept for the final test")
    # Before the test set is shortened, because none of its sentences may be added.
    training = cli.training_pairs(data, arguments)
    data, long = dataclasses.replace(data, test=data.test[: preset.test_size]), long[: preset.test_size]
    task = train.Translation(training, data.valid, preset=preset, name=name)
    table = arguments.table or ("positions" if data.name == "embedded" else "none")
    others = [kind for kind in POSITIONS if table == "positions" and kind != preset.positions]
    cells = {kind: task.with_preset(positions=kind) for kind in others}
    test = partial(pairs.figures, test=data.test, long=long, strategy=strategy)
    with cli.example_run(arguments, data, Translator, [name], train.data_names()) as run:
        translator = run.fit(task)
        (row, *rows), translations = run.score(translator, test, cells)
        if run.first:
            shown: dict[str, stated.Table] = {"models": ([{"cell": preset.positions, **row}, *rows], COLUMNS)}
            if table == "attention":
                shown["alignment"] = aligned(translator, data, translations), attention.ALIGNMENT_COLUMNS
            sources, references = [pair[0] for pair in data.test], [pair[1] for pair in data.test]
            references = translator.as_written(references)
            samples, *_ = pairs.show_samples(translator, sources, references, translations, run.folder)
            units = f"losses in nats per token; BLEU: {train.bleu(['a'], ['a']).signature}, {strategy.name}"
            run.report(f"{samples}\n\n{stated.write_tables(run.folder, shown)}\n\n{units}")


def aligned(translator: Translator, data: Any, translations: list[str]) -> list[dict[str, Any]]:
    """Measure how often the heads attend to the word that is translated, in the model's translations and the
    references. IBM model 1, trained on the training pairs, determines this word.
    """
    partners = models.WordForWord([(target, source) for source, target in data.train]).table
    sources = [source for source, _ in data.test]
    texts = {"written": list(zip(sources, translations, strict=True)), "reference": data.test}
    return attention.alignment_rows(translator, texts, partners)


if __name__ == "__main__":
    cli.run_main(main, several_processes=True)
