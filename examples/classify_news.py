"""Train a Transformer that tells what a piece of news is about, and see what it confuses.

python examples/classify_news.py                                 embedded news, a few minutes
python examples/classify_news.py --data news --out runs/news     HuffPost headlines, 41 categories
python examples/classify_news.py --table heads                   ablation: 1, 4, 8 and 16 heads
python examples/classify_news.py --checkpoint runs/news "Senate Passes Budget Bill"
python examples/classify_news.py --init distilbert/distilbert-base-uncased --data news --lr 3e-5
"""

from __future__ import annotations

from handloom.train.cli.start import run_main  # first: from here on Ctrl-C ends the program with one line

import dataclasses
import time
from typing import Any

from handloom.autograd import manual_seed
from handloom.autograd.backend import check_device
from handloom.models.presets import ClassifierPreset, classifier_preset
from handloom.train.cli.command_line import start_run
from handloom.train.cli.examples import example_parser, parse_example, use
from handloom.train.cli.training import preset_of, run_options
from handloom.train.data.news import NEWS_NAMES, load_news
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.plots import plot_confusion, plot_heads
from handloom.train.tables.cells import ABLATIONS, ablation_cells, markdown_table, run_cells
from handloom.train.tables.classification import CLASSIFIER_COLUMNS, EPOCH_COLUMNS, baselines, figures, sample_errors
from handloom.train.tasks.classification import Classifier, train_classifier
from handloom.train.tasks.metrics import confusion_matrix

TASK = "categories of news"


def parse_arguments() -> Any:
    parser = example_parser(
        __doc__,
        data=f"one of {', '.join(NEWS_NAMES)}, or a file of your own: JSON Lines with category, headline and "
        "short_description, or category<TAB>headline<TAB>description (default: embedded, which needs no network)",
        texts="headlines",
        generates="nothing",
    )
    add = parser.group("this report", "train", "resume")
    add("--table", choices=(*ABLATIONS, "none"), default="none", help="also train the model with other sizes")
    return parse_example(parser)


def main() -> None:
    arguments = parse_arguments()
    if arguments.checkpoint:
        classifier = Classifier.load(arguments.checkpoint, [TASK])
        use(arguments, lambda text: print(classifier.best(text), flush=True))
    else:
        train(arguments)


def train(arguments: Any) -> None:
    start = time.perf_counter()
    check_device(arguments.device)
    data = load_news(arguments.data, descriptions=False)
    print(data.summary(), *data.notes, sep="\n")
    parts = {
        name: [(article.headline, article.category) for article in getattr(data, name)]
        for name in ("train", "valid", "test")
    }
    preset = preset_of(arguments, classifier_preset(arguments.preset, data.name))
    teacher = Classifier.load(arguments.teacher, [TASK]) if arguments.teacher else None
    labels = sorted({label for _, label in parts["train"]})
    init = Classifier.load(arguments.init, [TASK], labels) if arguments.init else None
    with start_run(arguments, "classify_news", data) as run:
        manual_seed(arguments.seed)
        options = {**run_options(arguments), "teacher": teacher, "init": init, "task": TASK}
        classifier = train_classifier(parts["train"], parts["valid"], preset, run, **options)
        report(classifier, parts, preset, run, arguments)
        print(f"{run.path} holds the model, tables and pictures; {time.perf_counter() - start:.0f} s in all")


def report(classifier: Classifier, parts: dict, preset: ClassifierPreset, run: RunFolder, arguments: Any) -> None:
    """The epochs, the figures on the test set beside those of the baselines, what was confused, what was looked at."""
    texts, labels = [text for text, _ in parts["test"]], [label for _, label in parts["test"]]
    predicted = classifier.predict(texts)
    rows = baselines(parts["train"], parts["test"])
    rows.append({"cell": "Transformer", "parameters": classifier.model.parameter_count(), **figures(predicted, labels)})
    if arguments.table != "none":
        options = {**run_options(arguments), "stop_at": None, "task": TASK}

        def make(own: RunFolder, changes: dict, resume: bool) -> dict:
            manual_seed(arguments.seed)
            sizes = dataclasses.replace(preset, **changes)
            other = train_classifier(parts["train"], parts["valid"], sizes, own, **{**options, "resume": resume})
            return {"parameters": other.model.parameter_count(), **figures(other.predict(texts), labels)}

        rows += run_cells(run, ablation_cells(arguments.table, preset.d_model), make)
    epochs = [row for row in run.metrics() if "valid_loss" in row]
    table = f"{markdown_table(epochs, EPOCH_COLUMNS)}\n\n{markdown_table(rows, CLASSIFIER_COLUMNS)}"
    run.write_table(table)
    names = sorted({*classifier.labels, *labels})
    plot_confusion(confusion_matrix(predicted, labels, names), names, run.picture("confusion"))
    weights, tokens = classifier.attention_maps(min(texts, key=lambda text: abs(len(text.split()) - 9)))
    plot_heads(weights, tokens, tokens, run.picture("encoder_heads"), "Last layer, self-attention")
    run.write_samples(sample_errors(texts, labels, predicted))
    print(f"\n{table}\n")


if __name__ == "__main__":
    run_main(main)
