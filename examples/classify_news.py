"""Train a Transformer that classifies news by category, and show which categories it confuses.

python examples/classify_news.py "Senate Passes Budget Bill"     the model that comes with handloom
python examples/classify_news.py                                 embedded news, a few minutes
python examples/classify_news.py --data news --out runs/news     HuffPost headlines, 41 categories
python examples/classify_news.py --data news --descriptions     headline and description, as in the report
python examples/classify_news.py --resume runs/news --table attention   analyses the attention of a finished run
python examples/classify_news.py --table heads                   ablation: 1, 4, 8 and 16 heads
mpirun -n 4 python examples/classify_news.py --table heads       four processes train each model together
python examples/classify_news.py --checkpoint runs/news "Senate Passes Budget Bill"
python examples/classify_news.py --checkpoint runs/a --also runs/b "Senate Passes Budget Bill"    averages two models
python examples/classify_news.py --init distilbert/distilbert-base-uncased --data news --lr 3e-5
"""

from typing import Any

from handloom.cli.command_line import run_main
from handloom.cli.examples import example_parser, is_named, parse_example, train_and_report
from handloom.cli.texts import apply_model
from handloom.cli.training import preset_of
from handloom.examples.tables import news
from handloom.examples.tables.attention import FIRST_COLUMNS, HEAD_COLUMNS, draw_head_rows, head_rows, names_in
from handloom.examples.tables.layer_cost import COST_COLUMNS, CROSS_COLUMNS, cost_rows, cross_cost
from handloom.examples.tables.stated import ABLATIONS, Table, ablation_cells, write_tables
from handloom.models.presets import classifier_preset
from handloom.train.data.news import NEWS_NAMES, load_news, unlabelled_texts
from handloom.train.distributed import find_process_group
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.plots import plot_attention, plot_confusion
from handloom.train.tasks.classification import Classification, Classifier
from handloom.train.tasks.metrics import confusion_matrix

TASK = "categories of news"


def parse_arguments() -> Any:
    parser = example_parser(
        __doc__,
        classifier_preset,
        data=f"one of {', '.join(NEWS_NAMES)}, or your own file: JSON Lines with category, headline and "
        "short_description, or category<TAB>headline<TAB>description (default: embedded, which needs no network)",
        generates="nothing",
    )
    add = parser.group("this report")
    add("--descriptions", action="store_true", help="classify by headline and description (default: by headline only)")
    words = "additional table: heads and layers train models with other numbers of heads or layers, attention "
    words += "analyses the attention of the heads, and cost measures the cost of the layers (default: none)"
    tables = (*ABLATIONS, "attention", "cost", "none")
    add("--table", choices=tables, default="none", help=words, resumes=True)
    return parse_example(parser)


def main() -> None:
    if apply_model("classify"):
        return
    arguments = parse_arguments()
    preset = preset_of(arguments, classifier_preset(arguments.preset, arguments.data))
    own, cells = ablation_cells(arguments.table, preset)
    told = {"descriptions": arguments.descriptions, "categories": True}
    data = find_process_group().from_first(lambda: load_news(arguments.data, **told))
    print(data.summary(), *data.notes, sep="\n")
    train, valid, held_out = data.labelled(arguments.descriptions)
    unlabelled = unlabelled_texts(data) if preset.word_vectors else []
    if unlabelled:
        print(f"word vectors from {len(unlabelled):,} texts, without those of held-out articles")
    task = Classification(train, valid, unlabelled, preset=preset, name=TASK)
    texts, labels = [text for text, _ in held_out], [label for _, label in held_out]

    def test(classifier: Classifier, task: Classification) -> tuple[dict[str, float], list[str]]:
        predicted = classifier.predict(texts)
        return news.figures(predicted, labels), predicted

    def report(
        classifier: Classifier, task: Classification, run: RunFolder, rows: list[dict], predicted: list[str]
    ) -> str:
        rows = [{"cell": own or "Transformer", **rows[0]}, *rows[1:]]
        rows = news.with_report_figures(rows, "accuracy") if is_named(data, NEWS_NAMES) else rows
        rows = [*news.baselines(train, valid, held_out), *rows]
        more: dict[str, Table] = {}
        if arguments.table == "attention":
            more = looked_at(classifier, texts, run, names_in(article.description for article in data.train))
        elif arguments.table == "cost":
            counted = cost_rows(preset.d_model, preset.nhead, preset.dim_feedforward)
            lengths = ((32, 64), (64, 64), (64, 512), (512, 64))
            cross = [cross_cost(n, m, preset.d_model, preset.nhead) for n, m in lengths]
            more = {"costs": (counted, COST_COLUMNS), "cross": (cross, CROSS_COLUMNS)}
        return show(classifier, texts, labels, predicted, rows, run, more, is_named(data, NEWS_NAMES))

    labelled = {"labels": task.labels}
    options = {"init_options": labelled, "named": NEWS_NAMES}
    train_and_report(arguments, data, task, test=test, report=report, cells=cells, **options)


def looked_at(classifier: Classifier, texts: list[str], run: RunFolder, names: frozenset[str]) -> dict[str, Table]:
    """Show the tokens to which each head attends in the test texts and for the class (section 12 of the report)."""
    found = [classifier.attention_maps(text) for text in texts]
    heads = head_rows(found, names=names)
    draw_head_rows(heads, run.picture("head_shares"), f"What the heads attend to, {len(texts):,} texts")
    tables: dict[str, Table] = {"heads": (heads, HEAD_COLUMNS)}
    if classifier.model.config.pooling == "first":
        tables["first_token"] = head_rows(found, first_only=True), FIRST_COLUMNS
    return tables


def show(
    classifier: Classifier, texts: list[str], labels: list[str], predicted: list[str], rows: list[dict], run: RunFolder,
    more: dict[str, Table], reported: bool = True,
) -> str:  # fmt: skip
    """Show the report's Table 3, the results on the test set, the confusion matrix, errors and attention. If
    `reported`, also show the report's figures and its Table 7.
    """
    tables = {
        "epochs": (news.epoch_rows(run.metrics(), reported), news.EPOCH_COLUMNS),
        **({"samples": (news.sample_predictions(classifier.best), news.SAMPLE_COLUMNS)} if reported else {}),
        "models": (rows, news.CLASSIFIER_COLUMNS),
        **more,
    }
    table = write_tables(run, tables)
    names = sorted({*classifier.labels, *labels})
    plot_confusion(confusion_matrix(predicted, labels, names), names, run.picture("confusion"))
    maps, tokens = classifier.attention_maps(min(texts, key=lambda text: abs(len(text.split()) - 9)))
    plot_attention(list(maps.values())[-1], tokens, tokens, run.picture("encoder_heads"), "Last layer, self-attention")
    run.write_samples(news.sample_errors(texts, labels, predicted))
    return table


if __name__ == "__main__":
    run_main(main, several_processes=True)
