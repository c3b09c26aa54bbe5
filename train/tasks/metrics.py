"""Scores of generated texts with their signature, scores of classifiers, and samples as text.

BLEU (Papineni et al. 2002) and chrF (Popovic 2015) are computed by sacrebleu (Post 2018) on untokenised, cased text.
The signature of a score describes its computation; two scores can be compared only if their signatures are equal.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import printable
from ...kinds import checked


@dataclass(frozen=True)
class Score:
    """A score from 0 to 100, and the signature that describes its computation."""

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value:.2f} ({self.signature})"

    __repr__ = __str__


@dataclass(frozen=True)
class ScoredTranslation:
    """A translation and its reference; `score` is its sentence BLEU, `index` its index in the set."""

    source: str
    reference: str
    hypothesis: str
    score: float
    index: int


@checked
def bleu(hypotheses: Sequence[str], references: Sequence[str | Sequence[str]]) -> Score:
    """Compute corpus BLEU of cased text, tokenised by 13a of sacrebleu.

    Each text has one reference, or a list of references; the lists may differ in length.

    Raises ValueError if the two arguments differ in length or are empty, or a text has no reference.
    """
    _check_lengths(hypotheses=hypotheses, references=references)
    lists = [[own] if isinstance(own, str) else own for own in references]
    if not all(lists):
        raise ValueError("each text needs a reference")
    columns = [[own[i] if i < len(own) else None for own in lists] for i in range(max(map(len, lists)))]
    metric = _sacrebleu().BLEU(tokenize="13a", force=True)
    score = metric.corpus_score(list(hypotheses), columns).score
    return Score("BLEU", score, str(metric.get_signature()))


@checked
def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Compute corpus chrF2, cased. Raises ValueError if the lists differ in length or are empty."""
    _check_lengths(hypotheses=hypotheses, references=references)
    metric = _sacrebleu().CHRF()
    return Score("chrF2", metric.corpus_score(hypotheses, [references]).score, str(metric.get_signature()))


def sentence_bleu(hypothesis: str, reference: str) -> float:
    """Compute the BLEU of a sentence, 0 to 100, for ranking. It is smoothed (Chen and Cherry 2014, method 3)."""
    return float(_sacrebleu().BLEU(tokenize="13a", effective_order=True).sentence_score(hypothesis, [reference]).score)


@checked
def rouge(hypotheses: Sequence[str], references: Sequence[str], kind: str = "L") -> Score:
    """Compute the mean ROUGE F-measure over the texts, 0 to 100.

    Words consist of the letters a to z, in lower case, and digits, and are not stemmed. All other characters separate
    words, so texts in other alphabets have no words and get 0.

    Args:
        kind: "L" for the longest common subsequence, "1" or "2" for common words or pairs of words.

    Source: Lin 2004, "ROUGE: a package for automatic evaluation of summaries", computed by rouge-score.

    Raises ValueError if the lists differ in length or are empty, or the kind is unknown.
    """
    from importlib.metadata import version

    from rouge_score import rouge_scorer  # the import takes half a second and is not needed to translate

    _check_lengths(hypotheses=hypotheses, references=references)
    scorer = rouge_scorer.RougeScorer([f"rouge{kind}"], use_stemmer=False)
    pairs = zip(references, hypotheses, strict=True)
    values = [scorer.score(reference, hypothesis)[f"rouge{kind}"].fmeasure for reference, hypothesis in pairs]
    signature = f"measure:f1|stemmer:no|average:mean|rouge-score:{version('rouge-score')}"
    return Score(f"ROUGE-{kind}", 100 * sum(values) / len(values), signature)


@checked
def accuracy(predicted: Sequence[Any], actual: Sequence[Any]) -> float:
    """Return the share of equal pairs, 0 to 1. Raises ValueError for lists that differ in length or are empty."""
    _check_lengths(predicted=predicted, actual=actual)
    return sum(p == a for p, a in zip(predicted, actual, strict=True)) / len(actual)


@checked
def confusion_matrix(predicted: Sequence[Any], actual: Sequence[Any], labels: Sequence[Any]) -> np.ndarray:
    """Return the confusion matrix (labels, labels), int64: counts by actual label (row) and predicted label (column).

    Raises ValueError if the lists differ in length or are empty, and KeyError if an item is not a label.
    """
    _check_lengths(predicted=predicted, actual=actual)
    number = {label: i for i, label in enumerate(labels)}
    matrix = np.zeros((len(labels), len(labels)), np.int64)
    for p, a in zip(predicted, actual, strict=True):
        matrix[number[a], number[p]] += 1
    return matrix


@checked
def macro_f1(matrix: np.ndarray) -> float:
    """Compute the mean F1 over the classes of a confusion matrix, 0 to 1.

    A class that is neither predicted nor actual is left out. F1 of a class is 2 hits / (predictions + occurrences).
    Raises ValueError if the matrix is all zeros.
    """
    matrix = np.asarray(matrix, np.float64)  # sums of small integers would wrap around
    if matrix.ndim != 2 or len(set(matrix.shape)) > 1:
        raise ValueError(f"macro_f1: a confusion matrix has a row and a column for each class, not {matrix.shape}")
    hits, total = np.diag(matrix), matrix.sum(axis=0) + matrix.sum(axis=1)
    if not total.any():
        raise ValueError("macro_f1 of an empty confusion matrix")
    return float((2 * hits[total > 0] / total[total > 0]).mean())


@checked
def class_scores(predicted: Sequence[Any], actual: Sequence[Any]) -> dict[str, float]:
    """Compute accuracy and macro-F1, both from 0 to 1."""
    labels = sorted({*predicted, *actual})
    return {"accuracy": accuracy(predicted, actual), "macro_f1": macro_f1(confusion_matrix(predicted, actual, labels))}


def best_and_worst(
    sources: Sequence[str], references: Sequence[str], hypotheses: Sequence[str], k: int = 5
) -> tuple[list[ScoredTranslation], list[ScoredTranslation]]:
    """Return the k best translations, best first, and the k worst, worst first, by sentence BLEU.

    Among equal scores the longer reference comes first, since ten correct words mean more than two. No sample is in
    both lists; with fewer than 2k sentences the lists are shorter.

    Raises ValueError if the lists differ in length or are empty.
    """
    _check_lengths(sources=sources, references=references, hypotheses=hypotheses)
    samples = [
        ScoredTranslation(*texts, score=sentence_bleu(texts[2], texts[1]), index=i)
        for i, texts in enumerate(zip(sources, references, hypotheses, strict=True))
    ]
    k = min(k, (len(samples) + 1) // 2)
    best = sorted(samples, key=lambda sample: (-sample.score, -len(sample.reference), sample.index))[:k]
    chosen = {sample.index for sample in best}
    rest = [sample for sample in samples if sample.index not in chosen]
    worst = sorted(rest, key=lambda sample: (sample.score, -len(sample.reference), sample.index))[:k]
    return best, worst


@checked
def samples_text(
    samples: Sequence[ScoredTranslation], headers: Sequence[str] = ("source", "reference", "translation")
) -> str:
    """Format samples as plain text; `headers` are the names of the three texts. See `rows_text`."""
    rows = [(f"{each.score:.1f}", each.source, each.reference, each.hypothesis) for each in samples]
    return rows_text([dict(zip(("BLEU", *headers), row, strict=True)) for row in rows])


@checked
def rows_text(rows: Sequence[Mapping[str, str]]) -> str:
    """Format rows of texts as plain text: a line for each text, after its name, and a blank line between two rows."""
    width = max((len(name) for row in rows for name in row), default=0)
    return "\n\n".join("\n".join(f"{name:<{width}}  {_one_line(text)}" for name, text in row.items()) for row in rows)


def _one_line(text: str) -> str:
    # A model that has learned little may generate any characters; escapes prevent them from disturbing the terminal.
    return printable(re.sub(r"\s", " ", text)).rstrip() or "(nothing)"


def _sacrebleu() -> Any:
    from sacrebleu import metrics  # slow to import, and not needed to translate

    return metrics


def _check_lengths(**texts: Sequence[Any]) -> None:
    lengths = {name: len(values) for name, values in texts.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        counts = ", ".join(f"{length} {name}" for name, length in lengths.items())
        raise ValueError(f"The metric needs the same number of texts of each kind, at least one; got {counts}.")
