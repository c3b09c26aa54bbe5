"""Tables that compare with the news report: epochs, sample predictions and headlines, heads and layers."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from ...models.text_baselines import LinearSVM, NaiveBayes, nearest
from ...train.data.news import NEWS_NAMES, Article, News
from ...train.runs.folder import RunFolder
from ...train.tasks.classification import Labelled
from ...train.tasks.metrics import bleu, class_scores, rouge
from .stated import STATED

#: The help text of --data.
NEWS_HELP = (
    f"one of {', '.join(NEWS_NAMES)}, or your own file: JSON Lines with category, headline and short_description, or "
    "category<TAB>headline<TAB>description (default: embedded, which needs no network)"
)
#: Table 3, by epoch: training loss, training accuracy, validation accuracy of the classifier.
EPOCHS = {epoch: tuple(found) for epoch, *found in STATED["news_epochs"]}
#: Table 7: the class of each sentence according to the report's classifier.
PREDICTIONS = STATED["news_predictions"]
#: Table 8: for each text, the headline of the report's model, and the reference.
HEADLINES = STATED["news_headlines"]
#: Table 9. The report's BLEU and ROUGE-L range from 0 to 1, here from 0 to 100; the report does not state its method.
HEADLINE_WRITER = STATED["news_headline_writer"]
#: Tables 10 and 11, by the cell: accuracy of the classifier, and BLEU of the headlines (0 to 100).
ABLATED = STATED["news_ablations"]

#: The largest number of classes times words and pairs of words for which `baselines` counts; about 8 GB.
MOST_NUMBERS = 1 << 30
EPOCH_COLUMNS = {
    "epoch": "epoch:d",
    "step": "step:,",
    "train_loss": "training loss:.3f",
    "report_loss": "the report's:.3f",
    "train_accuracy": "training accuracy:.1%",
    "report_train": "the report's:.1%",
    "valid_loss": "validation loss:.3f",
    "valid_accuracy": "validation accuracy:.1%",
    "report_valid": "the report's:.1%",
}
#: The columns of Tables 7 and 8.
SAMPLE_COLUMNS = {"text": "text", "reference": "reference", "report": "the report", "own": "Transformer"}


def epoch_rows(metrics: Sequence[dict[str, Any]], report: bool = True) -> list[dict[str, Any]]:
    """Return a row for each validation of a run, with the mean training loss and accuracy since the previous one.

    Args:
        metrics: the run's rows. Each training value is a mean over some updates; its weight is the number of these
            updates between the two validations.
        report: the report's figures, shown with the last validation of an epoch or in a separate row.
    """
    logged, rows, logged_to, validated_to = [], [], 0, 0
    for row in metrics:
        if row.get("loss") is not None:
            logged.append((logged_to, row["step"], row))
            logged_to = row["step"]
    for row in metrics:
        if row.get("valid_loss") is None or row.get("averaged"):
            continue
        made = {**row, "epoch": row["epoch"] + 1}
        shares = [
            (min(end, row["step"]) - max(begin, validated_to), values)
            for begin, end, values in logged
            if begin < row["step"] and end > validated_to
        ]
        for name in ("loss", "accuracy"):
            if shares and all(name in values for _, values in shares):
                total = sum(share * values[name] for share, values in shares)
                made[f"train_{name}"] = total / sum(share for share, _ in shares)
        rows.append(made)
        validated_to = row["step"]
    return _with_epochs(rows) if report else rows


def _with_epochs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    last = {row["epoch"]: row for row in rows}
    for epoch, figures in EPOCHS.items():
        stated = dict(zip(("report_loss", "report_train", "report_valid"), figures, strict=True))
        if epoch in last:
            last[epoch] |= stated
        else:
            rows.append({"epoch": epoch, **stated})
    return sorted(rows, key=lambda row: row["epoch"])


def with_report_figures(rows: Sequence[dict[str, Any]], metric: Literal["accuracy", "bleu"]) -> list[dict[str, Any]]:
    """Add the report's value of this metric to the rows of the cells, as "report_accuracy" or "report_bleu"."""
    which = ("accuracy", "bleu").index(metric)
    stated = {cell: found[which] for cell, found in ABLATED.items()}
    return [{**row, f"report_{metric}": stated.get(row["cell"])} for row in rows]


def sample_predictions(best: Callable[[str], str]) -> list[dict[str, Any]]:
    """Return the rows of Table 7. `best` returns the most probable classes of a text."""
    return [{"text": text, "report": label, "own": best(text)} for text, label in PREDICTIONS.items()]


def sample_headlines(headlines: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of Table 8, with our headlines for the texts of `HEADLINES`."""
    return [
        {"text": text, "reference": reference, "report": written, "own": own}
        for (text, (written, reference)), own in zip(HEADLINES.items(), headlines, strict=True)
    ]


#: Columns of the tables, for `markdown_table`.
CLASSIFIER_COLUMNS = {
    "cell": "model",
    "parameters": "parameters:,",
    "accuracy": "accuracy:.1%",
    "report_accuracy": "report's accuracy:.1%",
    "macro_f1": "macro F1:.3f",
    "seconds": "seconds:.0f",
}


def baselines(train: Sequence[Labelled], valid: Sequence[Labelled], *tests: Sequence[Labelled]) -> list[dict[str, Any]]:
    """Return the rows of the most frequent class, naive Bayes and a linear SVM, tuned on `valid`, for each test set."""
    labels = sorted({label for _, label in train})
    number = {label: i for i, label in enumerate(labels)}

    def split(part: Sequence[Labelled]) -> tuple[list[str], np.ndarray]:
        return [text for text, _ in part], np.array([number[label] for _, label in part], np.int64)

    def scored(name: str, predict: Callable[[list[str]], list[str]]) -> list[dict[str, Any]]:
        pairs = [([text for text, _ in test], [label for _, label in test]) for test in tests]
        return [{"cell": name, **class_scores(predict(texts), actual)} for texts, actual in pairs]

    def chosen(predict: Callable[[Sequence[str]], np.ndarray]) -> Callable[[list[str]], list[str]]:
        return lambda texts: [labels[i] for i in predict(texts)]

    frequent = max(labels, key=Counter(label for _, label in train).__getitem__)
    rows = [scored(f"always {frequent}", lambda texts: [frequent] * len(texts))]
    entries = sum(2 * len(text.split()) for part in (train, valid, *tests) for text, _ in part)
    if len(labels) * entries > MOST_NUMBERS:
        print(f"naive Bayes and the linear SVM are left out: {len(labels):,} classes need too much memory")
    else:
        (texts, classes), held_out = split(train), split(valid)
        bayes = NaiveBayes(texts, classes, len(labels)).choose(*held_out)
        svm = LinearSVM(texts, classes, len(labels), held_out)
        rows.append(scored(f"naive Bayes, alpha {bayes.alpha:g}", chosen(bayes.predict)))
        rows.append(scored(f"linear SVM, C {svm.c:g}", chosen(svm.predict)))
    return [row for test in zip(*rows, strict=True) for row in test]


def sample_errors(texts: Sequence[str], actual: Sequence[str], predicted: Sequence[str]) -> str:
    """List the first 20 misclassified texts, one a line: actual > predicted, text."""
    wrong = [f"{a} > {p}\t{text.strip()}" for text, a, p in zip(texts, actual, predicted, strict=True) if a != p]
    head = f"{len(wrong)} of {len(texts)} texts were assigned to a wrong class; actual > predicted, text:\n"
    return head + "\n".join(wrong[:20])


def best_losses(run: RunFolder) -> dict[str, float]:
    """Return a run's training and validation loss at the validation with the best result."""
    best = min(epoch_rows(run.metrics(), report=False), key=lambda row: row["valid_loss"])
    return {name: best[name] for name in ("train_loss", "valid_loss") if name in best}


def headline_scores(headlines: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Compute BLEU and ROUGE."""
    scores = {f"rouge{kind}": rouge(headlines, references, kind).value for kind in ("1", "2", "L")}
    return {"bleu": bleu(headlines, references).value, **scores}


def headline_baselines(data: News) -> list[dict[str, Any]]:
    """Return the rows of two baselines: the description's first words (number chosen in validation), the nearest
    headline.
    """

    def first_words(articles: Sequence[Article], words: int) -> list[str]:
        return [" ".join(article.description.split()[:words]) for article in articles]

    held_out = [article.headline for article in data.valid]
    most = max(range(4, 31), key=lambda words: rouge(first_words(data.valid, words), held_out).value)
    found = nearest([article.description for article in data.test], [article.description for article in data.train])
    headlines = {
        f"first {most} words": first_words(data.test, most),
        "nearest article's headline": [data.train[i].headline for i in found],
    }
    references = [article.headline for article in data.test]
    return [{"cell": name, **headline_scores(texts, references)} for name, texts in headlines.items()]
