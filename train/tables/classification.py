"""Tables of classifiers: accuracy and macro-F1, baselines, and misclassified texts."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

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
    """Accuracy and macro-F1, both 0 to 1."""
    labels = sorted({*predicted, *actual})
    return {
        "accuracy": accuracy(predicted, actual),
        "macro_f1": macro_f1(confusion_matrix(predicted, actual, labels)),
    }


def baselines(train: Sequence[Labelled], test: Sequence[Labelled]) -> list[dict[str, Any]]:
    """Rows for the most frequent class and, where scikit-learn is installed, logistic regression on TF-IDF."""
    actual = [label for _, label in test]
    majority = Counter(label for _, label in train).most_common(1)[0][0]
    rows: list[dict[str, Any]] = [{"cell": "always " + majority, **figures([majority] * len(actual), actual)}]
    predicted = tf_idf_regression(train, [text for text, _ in test])
    if predicted is not None:
        rows.append({"cell": "TF-IDF + logistic regression", **figures(predicted, actual)})
    return rows


def tf_idf_regression(train: Sequence[Labelled], texts: Sequence[str]) -> list[str] | None:
    """Predictions of scikit-learn's logistic regression on TF-IDF of words and pairs; None where it isn't installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own imports warn with some versions of its dependencies
            from sklearn.feature_extraction.text import TfidfVectorizer
            from sklearn.linear_model import LogisticRegression
            from sklearn.pipeline import make_pipeline
    except ModuleNotFoundError:
        return None
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=1 if len(train) < 1000 else 2),
        LogisticRegression(C=10.0, max_iter=300),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not quite converged is good enough for a baseline
        model.fit([text for text, _ in train], [label for _, label in train])
    return list(model.predict(texts))


def sample_errors(texts: Sequence[str], actual: Sequence[str], predicted: Sequence[str], most: int = 20) -> str:
    """The first misclassified texts, a line each: actual > predicted, text."""
    wrong = [
        f"{a} > {p}\t{text.strip()}" for text, a, p in zip(texts, actual, predicted, strict=True) if a != p
    ]
    head = f"{len(wrong)} of {len(texts)} texts in a wrong class; actual > predicted, text:\n"
    return head + "\n".join(wrong[:most])
