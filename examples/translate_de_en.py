"""Train a Transformer that translates German into English, and look at what it learnt.

python examples/translate_de_en.py                                  embedded corpus, a few minutes
python examples/translate_de_en.py --data multi30k --out runs/m30k  real image descriptions
python examples/translate_de_en.py --resume runs/m30k                go on after Ctrl-C, a crash, a power cut
mpirun -n 4 python examples/translate_de_en.py --data multi30k       four processes, a batch four times as large
python examples/translate_de_en.py --checkpoint runs/m30k "Ein Hund läuft durch den Schnee."
python examples/translate_de_en.py --checkpoint runs/m30k --interactive --nbest 3 --show-attention
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from handloom.autograd import manual_seed
from handloom.autograd.backend import check_device
from handloom.models import Strategy
from handloom.models.presets import PRESET_NAMES, translation_preset
from handloom.train.back_translation import back_translate
from handloom.train.cleaning import clean_pairs
from handloom.train.command_line import (
    add_training_options,
    parse_training_arguments,
    run_main,
    start_run,
)
from handloom.train.datasets import DATA_NAMES, load_translation_data
from handloom.train.distributed import find_ranks
from handloom.train.generation_options import (
    add_generation_options,
    check_generation_options,
    each_text,
    show_hypotheses,
    strategy_of,
)
from handloom.train.metrics import best_and_worst, bleu, chrf, samples_table
from handloom.train.plots import plot_attention
from handloom.train.regimes import add_regime_options, changed, regime_of
from handloom.train.run_folder import RunFolder
from handloom.train.text_files import read_lines
from handloom.train.translation import Translator, train_translator
from handloom.train.translation_data import TranslationData


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_training_options(
        parser,
        data=f"one of {', '.join(DATA_NAMES)}, or your own: a file of tab-separated German and English, or PATH for "
        "the two files PATH.de and PATH.en (default: embedded, which needs no network)",
        presets=PRESET_NAMES,
        preset="laptop",
    )
    add_regime_options(parser)
    parser.add_argument("--reverse", action="store_true", help="train English to German")
    parser.add_argument("--clean", action="store_true", help="drop training pairs that teach nothing, and count them")
    parser.add_argument("--teacher", type=Path, metavar="RUN", help="learn from an earlier run's translator as well")
    parser.add_argument(
        "--back-translate",
        nargs=2,
        metavar=("RUN", "FILE"),
        help="add the lines of FILE, English text, as training pairs: a RUN made with --reverse translates them",
    )
    add_generation_options(parser)
    parser.add_argument("--checkpoint", type=Path, metavar="RUN", help="translate with the model of an earlier run")
    parser.add_argument(
        "sentences",
        nargs="*",
        metavar="SENTENCE",
        help="with --checkpoint: German sentences to translate (default: the lines of standard input)",
    )
    arguments = parse_training_arguments(parser)
    if arguments.sentences and not arguments.checkpoint:
        parser.error("sentences to translate need a trained model: add --checkpoint RUN")
    if arguments.checkpoint and (arguments.out or arguments.steps or arguments.stop_at or arguments.device != "cpu"):
        parser.error("--out, --resume, --steps, --stop-at and --device are for training, not with --checkpoint")
    check_generation_options(parser, arguments, arguments.sentences)
    return arguments


def main() -> None:
    arguments = parse_arguments()
    if arguments.checkpoint:
        translate(arguments)
    else:
        train(arguments)


def translate(arguments: argparse.Namespace) -> None:
    translator = Translator.load(arguments.checkpoint)
    each_text(
        arguments,
        arguments.sentences,
        "German sentences",
        lambda sentence: show_hypotheses(translator, sentence, arguments),
    )


def train(arguments: argparse.Namespace) -> None:
    start = time.perf_counter()
    check_device(arguments.device)
    source, target = ("en", "de") if arguments.reverse else ("de", "en")
    # The same for every seed, so that scores can be compared.
    data = load_translation_data(arguments.data, source=source, target=target)
    print(data.summary(), *data.notes, sep="\n")
    pairs = data.train
    if arguments.back_translate:
        run_name, text = arguments.back_translate
        pairs = pairs + back_translate(Translator.load(run_name), read_lines(text))
        print(f"{len(pairs) - len(data.train):,} training pairs more by back-translation")
    if arguments.clean:
        cleaned = clean_pairs(pairs)
        pairs = cleaned.pairs
        print(cleaned.note())

    preset = changed(translation_preset(arguments.preset, data.name), arguments.set)
    teacher = Translator.load(arguments.teacher) if arguments.teacher else None
    with start_run(arguments, "translate_de_en", {"data": data.summary()}) as run:
        manual_seed(arguments.seed)
        translator = train_translator(
            pairs,
            data.valid,
            preset,
            run,
            seed=arguments.seed,
            steps=arguments.steps,
            device=arguments.device,
            resume=arguments.resume is not None,
            stop_at=arguments.stop_at,
            regime=regime_of(arguments),
            teacher=teacher,
        )
        if find_ranks().first:
            evaluate(translator, data, run, strategy_of(arguments), start)


def evaluate(translator: Translator, data: TranslationData, run: RunFolder, strategy: Strategy, start: float) -> None:
    """Translate the test set, tell how well it went, and draw where the model looks."""
    sources, references = [pair[0] for pair in data.test], [pair[1] for pair in data.test]
    translations = translator.translate(sources, strategy=strategy, too_long="truncate", progress=True)
    score = bleu(translations, references)

    best, worst = best_and_worst(sources, references, translations)
    tables = f"Best translations\n\n{samples_table(best)}\n\nWorst translations\n\n{samples_table(worst)}"
    run.write_samples(tables)
    print(f"\n{tables}\n")

    sample = min(sources, key=lambda text: abs(len(text.split()) - 9))
    plot_attention(*translator.attention(sample), run.attention_picture)

    print(f"{run.path} holds the model, the losses (loss.png), where it looked (attention.png) and samples.txt")
    print(f"{data.test_name}: {chrf(translations, references)}")
    print(f"{data.test_name}: beam {strategy.beam}, {score.signature}, {time.perf_counter() - start:.0f} s in all")
    print(f"BLEU = {score.value:.2f}")


if __name__ == "__main__":
    run_main(main, several_processes=True)
