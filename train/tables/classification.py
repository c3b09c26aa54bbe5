"""Tables of classifiers: accuracy and macro-F1, baselines, and misclassified texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...models.text_baselines import NaiveBayes, TfIdfRegression
from ..tasks.classification import Labelled
from ..tasks.metrics import accuracy, confusion_matrix, macro_f1

#: Columns of the tables, for `markdown_table`.
CLASSIFIER_COLUMNS = {
    "cell": "model",
    "parameters": "parameters:,",
    "accuracy": "accuracy:.1%",
    "report_accuracy": "report's accuracy:.1%",
    "macro_f1": "macro F1:.3f",
    "seconds": "seconds:.0f",
}


def figures(predicted: Sequence[str], actual: Sequence[str]) -> dict[str, float]:
    """Compute accuracy and macro-F1, both from 0 to 1."""
    labels = sorted({*predicted, *actual})
    return {
        "accuracy": accuracy(predicted, actual),
        "macro_f1": macro_f1(confusion_matrix(predicted, actual, labels)),
    }


def baselines(train: Sequence[Labelled], valid: Sequence[Labelled], test: Sequence[Labelled]) -> list[dict[str, Any]]:
    """Return the rows of the most frequent class, naive Bayes and regression on TF-IDF.
    The constants are chosen on `valid`.
    """
    labels = sorted({label for _, label in train})
    number = {label: i for i, label in enumerate(labels)}

    def split(part: Sequence[Labelled]) -> tuple[list[str], np.ndarray]:
        return [text for text, _ in part], np.array([number[label] for _, label in part], np.int64)

    actual = [label for _, label in test]
    (texts, classes), held_out = split(train), split(valid)
    majority = int(np.bincount(classes).argmax())
    bayes = NaiveBayes(texts, classes, len(labels)).choose(*held_out)
    regression = TfIdfRegression(texts, classes, len(labels), held_out)
    predictions = {
        f"always {labels[majority]}": np.full(len(test), majority),
        f"naive Bayes, alpha {bayes.alpha:g}": bayes.predict([text for text, _ in test]),
        f"TF-IDF regression, {regression.epochs} epochs": regression.predict([text for text, _ in test]),
    }
    return [{"cell": name, **figures([labels[i] for i in found], actual)} for name, found in predictions.items()]


def sample_errors(texts: Sequence[str], actual: Sequence[str], predicted: Sequence[str], most: int = 20) -> str:
    """List the first misclassified texts, one a line: actual > predicted, text."""
    wrong = [
        f"{a} > {p}\t{text.strip()}" for text, a, p in zip(texts, actual, predicted, strict=True) if a != p
    ]
    head = f"{len(wrong)} of {len(texts)} texts were assigned to a wrong class; actual > predicted, text:\n"
    return head + "\n".join(wrong[:most])
