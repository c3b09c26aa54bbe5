"""Evaluate each of several trained classifiers on their test set, and the mean of their probabilities.

HANDLOOM_DATA=folder python -m benchmarks.classifiers runs/a runs/b --data news --descriptions
"""

from benchmarks.side_by_side import program, write_report
from handloom.cli.command_line import run_main
from handloom.train.cells import markdown_table
from handloom.train.data.news import load_news
from handloom.train.tasks.classification import Classifier, MeanClassifier
from handloom.train.tasks.metrics import class_scores

COLUMNS = {"cell": "model", "valid_accuracy": "validation:.1%", "accuracy": "test:.1%", "macro_f1": "macro F1:.3f"}


def main() -> None:
    parser = program(__doc__)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--data", default="news")
    parser.add_argument("--descriptions", action="store_true")
    options = parser.parse_args()
    data = load_news(options.data, descriptions=options.descriptions, categories=True)
    members = [Classifier.load(run) for run in options.runs]
    rows = []
    for name, model in [*zip(options.runs, members, strict=True), ("mean of all", MeanClassifier(members))]:
        found = {}
        for part in ("valid", "test"):
            articles = getattr(data, part)
            texts = [article.text(options.descriptions) for article in articles]
            found[part] = class_scores(model.predict(texts), [article.category for article in articles])
        rows.append({"cell": name, "valid_accuracy": found["valid"]["accuracy"], **found["test"]})
    print(markdown_table(rows, COLUMNS))
    write_report(options.json, models=rows)


if __name__ == "__main__":
    run_main(main)
