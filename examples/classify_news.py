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

from handloom import Classifier, cli, models, train
from handloom.examples.tables import attention, layer_cost, news, stated

TASK = "categories of news"


def parse_arguments() -> Any:
    parser = cli.example_parser(__doc__, models.classifier_preset, data=news.NEWS_HELP, generates="nothing")
    add = parser.group("this report")
    add("--descriptions", action="store_true", help="classify by headline and description (default: by headline only)")
    words = "additional table: heads and layers train models with other numbers of heads or layers, attention "
    words += "analyses the attention of the heads, and cost measures the cost of the layers (default: none)"
    choices = (*stated.ABLATIONS, "attention", "cost", "none")
    add("--table", choices=choices, default="none", help=words, resumes=True)
    return cli.parse_example(parser)


def main() -> None:
    if cli.apply_model("classify"):
        return
    arguments = parse_arguments()
    preset = cli.preset_of(arguments, models.classifier_preset(arguments.preset, arguments.data))
    data = cli.load_data(train.load_news, arguments.data, descriptions=arguments.descriptions, categories=True)
    training, valid, held_out = data.labelled(arguments.descriptions)
    unlabelled = train.unlabelled_texts(data) if preset.word_vectors else []
    if unlabelled:
        print(f"word vectors from {len(unlabelled):,} texts, without those of held-out articles")
    task = train.Classification(training, valid, unlabelled, preset=preset, name=TASK)
    own, cells = stated.ablation_cells(arguments.table, task)
    texts, labels = [text for text, _ in held_out], [label for _, label in held_out]

    def test(classifier: Classifier) -> tuple[dict[str, float], list[str]]:
        predicted = classifier.predict(texts)
        return train.class_scores(predicted, labels), predicted

    with cli.example_run(arguments, data, Classifier, [TASK], train.NEWS_NAMES, labels=task.labels) as run:
        classifier = run.fit(task)
        (row, *rows), predicted = run.score(classifier, test, cells)
        if not run.first:
            return
        rows = [{"cell": own or "Transformer", **row}, *rows]
        rows = news.with_report_figures(rows, "accuracy") if run.reported else rows
        shown: dict[str, stated.Table] = {}
        shown["epochs"] = news.epoch_rows(run.folder.metrics(), run.reported), news.EPOCH_COLUMNS
        if run.reported:
            shown["samples"] = news.sample_predictions(classifier.best), news.SAMPLE_COLUMNS
        shown["models"] = [*news.baselines(training, valid, held_out), *rows], news.CLASSIFIER_COLUMNS
        if arguments.table == "attention":
            names = attention.names_in(article.description for article in data.train)
            shown |= looked_at(classifier, texts, run.folder, names)
        elif arguments.table == "cost":
            shown |= layer_cost.cost_tables(preset.d_model, preset.nhead, preset.dim_feedforward)
        table = stated.write_tables(run.folder, shown)
        draw(classifier, texts, labels, predicted, run.folder)
        run.folder.write_samples(news.sample_errors(texts, labels, predicted))
        run.report(table)


def looked_at(
    classifier: Classifier, texts: list[str], run: train.RunFolder, names: frozenset[str]
) -> dict[str, stated.Table]:
    """Show the tokens to which each head attends in the test texts and for the class (section 12 of the report)."""
    found = [classifier.attention_maps(text) for text in texts]
    heads = attention.head_rows(found, names=names)
    attention.draw_head_rows(heads, run.picture("head_shares"), f"What the heads attend to, {len(texts):,} texts")
    shown: dict[str, stated.Table] = {"heads": (heads, attention.HEAD_COLUMNS)}
    if classifier.model.config.pooling == "first":
        shown["first_token"] = attention.head_rows(found, first_only=True), attention.FIRST_COLUMNS
    return shown


def draw(
    classifier: Classifier, texts: list[str], labels: list[str], predicted: list[str], run: train.RunFolder
) -> None:
    """Draw the confusion matrix, and the attention of the last layer for a text of about nine words."""
    names = sorted({*classifier.labels, *labels})
    train.plot_confusion(train.confusion_matrix(predicted, labels, names), names, run.picture("confusion"))
    maps, tokens = classifier.attention_maps(min(texts, key=lambda text: abs(len(text.split()) - 9)))
    *_, last = maps.values()
    train.plot_attention(last, tokens, tokens, run.picture("encoder_heads"), "Last layer, self-attention")


if __name__ == "__main__":
    cli.run_main(main, several_processes=True)
