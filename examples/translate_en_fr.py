"""Train a Transformer that translates English into French, with any kind of positions.

python examples/translate_en_fr.py                                    embedded corpus, a few minutes
python examples/translate_en_fr.py --data multi30k --out runs/fr      real image descriptions
python examples/translate_en_fr.py --table positions                  all kinds of positions, short and long sentences
python examples/translate_en_fr.py --checkpoint runs/fr "A dog runs through the snow."
"""

from __future__ import annotations

import argparse
import dataclasses

from handloom.models.presets import en_fr_preset
from handloom.nn import POSITIONS
from handloom.train.cells import markdown_table
from handloom.train.command_line import run_main
from handloom.train.datasets import DATA_NAMES, load_translation_data
from handloom.train.long_sentences import figures, set_long_apart
from handloom.train.metrics import best_and_worst, bleu, samples_table
from handloom.train.pair_task import compare_presets, pair_parser, parse_pair_arguments, train_pairs, use_checkpoint
from handloom.train.plots import plot_attention
from handloom.train.run_folder import RunFolder
from handloom.train.translation import Translator
from handloom.train.translation_data import TranslationData

COLUMNS = {
    "cell": "positions",
    "parameters": "parameters:,",
    "bleu": "BLEU:.2f",
    "loss": "loss:.3f",
    "long_bleu": "BLEU, longer:.2f",
    "long_loss": "loss, longer:.3f",
    "seconds": "seconds:.0f",
}


def parse_arguments() -> argparse.Namespace:
    names = [name for name in DATA_NAMES if name != "wmt17"]
    parser = pair_parser(
        __doc__,
        data=f"one of {', '.join(names)}, or your own: a file of tab-separated English and French, or PATH for the two "
        "files PATH.en and PATH.fr (default: embedded, which needs no network)",
    )
    parser.add_argument(
        "--positions", choices=POSITIONS, default="sinusoidal", help="how the model knows places (default: sinusoidal)"
    )
    parser.add_argument(
        "--table", choices=("positions", "none"), default="none", help="also train a model with each kind of positions"
    )
    return parse_pair_arguments(parser)


def main() -> None:
    arguments = parse_arguments()
    if arguments.checkpoint:
        use_checkpoint(arguments)
        return
    data = load_translation_data(arguments.data, source="en", target="fr")
    print(data.summary(), *data.notes, sep="\n")
    data, long = set_long_apart(data)
    print(f"{len(long):,} pairs of more than {max(len(s.split()) for s, _ in data.train)} words are kept for the end")
    preset = dataclasses.replace(en_fr_preset(arguments.preset, data.name), positions=arguments.positions)
    data, long = dataclasses.replace(data, test=data.test[: preset.test_size]), long[: preset.test_size]

    def evaluate(translator: Translator, run: RunFolder) -> None:
        translations = report(translator, data, arguments.beam, run)
        own = {"cell": arguments.positions, "parameters": translator.model.parameter_count()}
        rows = [{**own, **figures(translator, data.test, long, arguments.beam, translations)}]
        if arguments.table == "positions":
            cells = {kind: {"positions": kind} for kind in POSITIONS if kind != arguments.positions}
            rows += compare_presets(
                arguments, run, data.train, data.valid, preset, cells,
                lambda other: figures(other, data.test, long, arguments.beam),
            )  # fmt: skip
        table = markdown_table(rows, COLUMNS)
        run.table_path.write_text(table + "\n", encoding="utf-8")
        print(f"{table}\n\nlosses in nats per token; BLEU: {bleu(['a'], ['a']).signature}, beam {arguments.beam}")

    train_pairs(arguments, "translate_en_fr", data.summary(), data.train, data.valid, preset, evaluate)


def report(translator: Translator, data: TranslationData, beam: int, run: RunFolder) -> list[str]:
    """Translate the test set; the best and the worst, and a picture of the attention."""
    sources, references = [pair[0] for pair in data.test], [pair[1] for pair in data.test]
    translations = translator.translate(sources, beam=beam, too_long="truncate", progress=True)
    best, worst = best_and_worst(sources, references, translations)
    tables = f"Best translations\n\n{samples_table(best)}\n\nWorst translations\n\n{samples_table(worst)}"
    run.write_samples(tables)
    print(f"\n{tables}\n")
    sample = min(sources, key=lambda text: abs(len(text.split()) - 9))
    plot_attention(*translator.attention(sample), run.attention_picture)
    return translations


if __name__ == "__main__":
    run_main(main)
