"""Train a Transformer that tells what a piece of news is about, and see what it confuses.

python examples/classify_news.py                                 embedded news, a few minutes
python examples/classify_news.py --data news --out runs/news     HuffPost headlines, 41 categories
python examples/classify_news.py --table heads                   ablation: 1, 4, 8 and 16 heads
python examples/classify_news.py --checkpoint runs/news "Senate Passes Budget Bill"
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from handloom.autograd import manual_seed
from handloom.autograd.backend import check_device
from handloom.models.presets import PRESET_NAMES, ClassifierPreset, classifier_preset
from handloom.train.ablations import ABLATIONS, ablation_cells
from handloom.train.cells import markdown_table, run_cells
from handloom.train.classification import Classifier, train_classifier
from handloom.train.classification_report import CLASSIFIER_COLUMNS, baselines, figures, sample_errors
from handloom.train.command_line import (
    add_training_options,
    parse_training_arguments,
    run_main,
    sentences_from,
    start_run,
)
from handloom.train.metrics import confusion_matrix
from handloom.train.news_data import NEWS_NAMES, load_news
from handloom.train.plots import plot_confusion
from handloom.train.run_folder import RunFolder


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_training_options(
        parser,
        data=f"one of {', '.join(NEWS_NAMES)}, or a file of your own: JSON Lines with category, headline and "
        "short_description, or category<TAB>headline<TAB>description (default: embedded, which needs no network)",
        presets=PRESET_NAMES,
        preset="laptop",
    )
    parser.add_argument(
        "--table", choices=(*ABLATIONS, "none"), default="none", help="also train the model with other sizes"
    )
    parser.add_argument("--checkpoint", type=Path, metavar="RUN", help="classify with the model of an earlier run")
    parser.add_argument(
        "texts",
        nargs="*",
        metavar="TEXT",
        help="with --checkpoint: headlines to classify (default: the lines of standard input)",
    )
    arguments = parse_training_arguments(parser)
    if arguments.texts and not arguments.checkpoint:
        parser.error("texts to classify need a trained model: add --checkpoint RUN")
    if arguments.checkpoint and (arguments.out or arguments.steps or arguments.stop_at or arguments.device != "cpu"):
        parser.error("--out, --resume, --steps, --stop-at and --device are for training, not with --checkpoint")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    if not arguments.checkpoint:
        train(arguments)
        return
    classifier = Classifier.load(arguments.checkpoint)
    for text in sentences_from(arguments.texts, "Type headlines, one a line; Ctrl-D ends."):
        shares = classifier.probabilities([text])[0]
        best = shares.argsort()[::-1][:3]
        print(", ".join(f"{classifier.labels[i]} {shares[i]:.0%}" for i in best), flush=True)


def train(arguments: argparse.Namespace) -> None:
    start = time.perf_counter()
    check_device(arguments.device)
    data = load_news(arguments.data, descriptions=False)
    print(data.summary(), *data.notes, sep="\n")
    parts = {
        name: [(article.headline, article.category) for article in getattr(data, name)]
        for name in ("train", "valid", "test")
    }
    preset = classifier_preset(arguments.preset, data.name)
    with start_run(arguments, "classify_news", {"data": data.summary()}) as run:
        manual_seed(arguments.seed)
        classifier = train_classifier(
            parts["train"],
            parts["valid"],
            preset,
            run,
            seed=arguments.seed,
            steps=arguments.steps,
            device=arguments.device,
            resume=arguments.resume is not None,
            stop_at=arguments.stop_at,
        )
        report(classifier, parts, preset, run, arguments)
        print(f"{run.path} holds the model, tables and pictures; {time.perf_counter() - start:.0f} s in all")


def report(
    classifier: Classifier, parts: dict, preset: ClassifierPreset, run: RunFolder, arguments: argparse.Namespace
) -> None:
    """The epochs, the figures on the test set beside those of the baselines, and what was confused."""
    texts, labels = [text for text, _ in parts["test"]], [label for _, label in parts["test"]]
    predicted = classifier.predict(texts)
    rows = baselines(parts["train"], parts["test"])
    rows.append({"cell": "Transformer", "parameters": classifier.model.parameter_count(), **figures(predicted, labels)})
    if arguments.table != "none":

        def make(own: RunFolder, changes: dict) -> dict:
            manual_seed(arguments.seed)
            options = {"seed": arguments.seed, "steps": arguments.steps, **changes}
            other = train_classifier(parts["train"], parts["valid"], preset, own, **options)
            return {"parameters": other.model.parameter_count(), **figures(other.predict(texts), labels)}

        rows += run_cells(run, ablation_cells(arguments.table, preset.d_model), make)
    epochs = [row for row in run.metrics() if "valid_loss" in row]
    columns = {"step": "step:,", "valid_loss": "validation loss:.3f", "valid_accuracy": "validation accuracy:.1%"}
    table = f"{markdown_table(epochs, columns)}\n\n{markdown_table(rows, CLASSIFIER_COLUMNS)}"
    run.table_path.write_text(table + "\n", encoding="utf-8")
    names = sorted({*classifier.labels, *labels})
    plot_confusion(confusion_matrix(predicted, labels, names), names, run.picture("confusion"))
    run.write_samples(sample_errors(texts, labels, predicted))
    print(f"\n{table}\n")


if __name__ == "__main__":
    run_main(main)
