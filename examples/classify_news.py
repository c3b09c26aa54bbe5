"""Train a Transformer that classifies news by category, and see which categories it confuses.

python examples/classify_news.py                                 embedded news, a few minutes
python examples/classify_news.py --data news --out runs/news     HuffPost headlines, 41 categories
python examples/classify_news.py --table heads                   ablation: 1, 4, 8 and 16 heads
mpirun -n 4 python examples/classify_news.py --table heads       four processes train the four at the same time
python examples/classify_news.py --checkpoint runs/news "Senate Passes Budget Bill"
python examples/classify_news.py --init distilbert/distilbert-base-uncased --data news --lr 3e-5
"""

from __future__ import annotations

from handloom.train.cli.start import run_main  # first: from here on Ctrl-C ends the program with one line

from typing import Any

from handloom.models.hyperparameters import ClassifierPreset
from handloom.models.presets import classifier_preset
from handloom.train.cli.examples import example_parser, parse_example, train_example, use
from handloom.train.cli.training import preset_of
from handloom.train.data.news import NEWS_NAMES, load_news
from handloom.train.distributed import in_turn
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.plots import plot_confusion, plot_heads
from handloom.train.tables.cells import ABLATIONS, ablation_cells, markdown_table
from handloom.train.tables.classification import CLASSIFIER_COLUMNS, EPOCH_COLUMNS, baselines, figures, sample_errors
from handloom.train.tasks.classification import Classification, Classifier
from handloom.train.tasks.metrics import confusion_matrix

TASK = "categories of news"


def parse_arguments() -> Any:
    parser = example_parser(
        __doc__,
        ClassifierPreset,
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
    data = in_turn(lambda: load_news(arguments.data, descriptions=False))
    print(data.summary(), *data.notes, sep="\n")
    parts = {
        name: [(article.headline, article.category) for article in getattr(data, name)]
        for name in ("train", "valid", "test")
    }
    preset = preset_of(arguments, classifier_preset(arguments.preset, data.name))
    task = Classification(parts["train"], parts["valid"], preset=preset, name=TASK)
    texts, labels = [text for text, _ in parts["test"]], [label for _, label in parts["test"]]

    def test(classifier: Classifier, task: Classification) -> tuple[dict[str, float], list[str]]:
        predicted = classifier.predict(texts)
        return figures(predicted, labels), predicted

    def cells(task: Classification) -> dict[str, Classification]:
        changes = ablation_cells(arguments.table, preset.d_model) if arguments.table != "none" else {}
        return {name: task.with_preset(**values) for name, values in changes.items()}

    def report(
        classifier: Classifier, task: Classification, run: RunFolder, rows: list[dict], predicted: list[str]
    ) -> str:
        rows = [*baselines(parts["train"], parts["test"]), {"cell": "Transformer", **rows[0]}, *rows[1:]]
        return show(classifier, texts, labels, predicted, rows, run)

    train_example(
        arguments, "classify_news", data, lambda run, known: task, Classifier, TASK,
        test=test, report=report, cells=cells, init_options={"labels": task.labels},
    )  # fmt: skip


def show(
    classifier: Classifier, texts: list[str], labels: list[str], predicted: list[str], rows: list[dict], run: RunFolder
) -> str:
    """The epochs, the results on the test set beside the baselines', the confusion matrix, errors and attention."""
    epochs = [row for row in run.metrics() if "valid_loss" in row]
    table = f"{markdown_table(epochs, EPOCH_COLUMNS)}\n\n{markdown_table(rows, CLASSIFIER_COLUMNS)}"
    run.write_table(table, epochs=epochs, models=rows)
    names = sorted({*classifier.labels, *labels})
    plot_confusion(confusion_matrix(predicted, labels, names), names, run.picture("confusion"))
    weights, tokens = classifier.attention_maps(min(texts, key=lambda text: abs(len(text.split()) - 9)))
    plot_heads(weights, tokens, tokens, run.picture("encoder_heads"), "Last layer, self-attention")
    run.write_samples(sample_errors(texts, labels, predicted))
    return table


if __name__ == "__main__":
    run_main(main, several_processes=True)
