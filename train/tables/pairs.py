"""Tables that compare with the German-English and the paraphrase report: samples, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..tasks.metrics import ScoredTranslation, best_and_worst

#: Table 1 of the German-English report: sentence BLEU of the best and the worst translation of a random batch.
BATCH_SIZE, BATCH_SCORES = 32, {"best": 75.98, "worst": 8.25}
BATCH_COLUMNS = {
    "which": "of a random batch of 32",
    "score": "BLEU:.2f",
    "report": "the report's:.2f",
    "source": "source",
    "reference": "reference",
    "hypothesis": "translation",
}
#: Table 2 of the paraphrase report: the output of its model for each input (with the spelling mistakes).
PARAPHRASES = {
    "A dig sitting on the grass": "A bench sitting on a lush green field.",
    "A gir and a man playing on the filed": "A man in a suit and tie playing a game of frisbee.",
    "A woman interacting with an apple": "A woman holding a banana in her hand.",
}
#: The memory that mixed precision saves according to the report, on a GPU with 6 GB.
SAVED_MEMORY = 0.40
MEMORY_COLUMNS = {
    "precision": "precision",
    "tokens": "tokens:,",
    "kept": "weights, gradients, moments (MB):.1f",
    "forward": "held after the forward pass (MB):.1f",
    "peak": "peak of both passes (MB):.1f",
    "saved": "all, less than fp32:.0%",
    "report": "the report's:.0%",
}


def batch_samples(
    sources: Sequence[str], references: Sequence[str], hypotheses: Sequence[str], seed: int
) -> list[ScoredTranslation]:
    """Return the best and the worst translation of a random batch of 32, by sentence BLEU.
    For a single pair there is only a best translation.
    """
    chosen = np.random.default_rng(seed).permutation(len(sources))[:BATCH_SIZE]
    source, reference, hypothesis = ([side[i] for i in chosen] for side in (sources, references, hypotheses))
    best, worst = best_and_worst(source, reference, hypothesis, k=1)
    return [replace(sample, index=int(chosen[sample.index])) for sample in best + worst]


def batch_rows(samples: Sequence[ScoredTranslation]) -> list[dict[str, Any]]:
    """Return the rows of Table 1, from the result of `batch_samples`."""
    stated = zip(BATCH_SCORES.items(), samples, strict=False)
    return [{"which": which, **vars(sample), "report": score} for (which, score), sample in stated]


def memory_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of `step_memory`: fp32 comes first, the others have their saving in total memory."""
    whole = [0.75 * row["kept"] + row["peak"] for row in rows]  # gradients are in both
    saved = [None, *(1 - own / whole[0] for own in whole[1:])]
    return [
        {**row, "saved": share, "report": SAVED_MEMORY if row["precision"] == "fp16" else None}
        for row, share in zip(rows, saved, strict=True)
    ]
