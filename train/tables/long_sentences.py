"""Quality of a translation model on sentences longer than any in its training."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...models import Strategy
from ..data.files import Pair
from ..data.pairs import TranslationData
from ..distributed import ProcessGroup
from ..tasks.metrics import bleu
from ..tasks.translation import Translator, translation_batches, translation_loss
from ..validation import Validation

LONG_SHARE, LONG_MOST = 0.05, 400


def set_long_apart(data: TranslationData) -> tuple[TranslationData, list[Pair]]:
    """Return the data without its longest sentences, and up to 400 of those sentences.

    A sentence is long if its source has more words than those of 95 % of the training pairs. The list begins with
    sentences of the test part; sentences removed from the training part follow.
    """
    limit = int(np.quantile([len(source.split()) for source, _ in data.train], 1 - LONG_SHARE))
    parts: dict[str, Any] = {}
    long: list[Pair] = []
    for name in ("test", "train", "valid"):
        pairs = getattr(data, name)
        short = [pair for pair in pairs if len(pair[0].split()) <= limit]
        parts[name] = short or pairs
        if short and name != "valid":
            long += [pair for pair in pairs if len(pair[0].split()) > limit]
    return dataclasses.replace(data, **parts), long[:LONG_MOST]


def mean_loss(translator: Translator, pairs: Sequence[Pair]) -> float:
    """Compute the cross-entropy of the targets in nats per token, including <eos> and without padding."""
    limit, loss = translator.model.config.max_length, translation_loss(0.0, translator.tokenizer.pad_id)
    batches = translation_batches(
        pairs, translator.tokenizer, tokens_per_batch=max(2048, limit), max_length=limit, seed=0, shuffle=False
    )
    return Validation(batches.epoch(0)).measure(translator.model, loss, ProcessGroup())["valid_loss"]


def figures(
    translator: Translator,
    test: Sequence[Pair],
    long: Sequence[Pair],
    strategy: Strategy,
    translations: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Compute BLEU and loss on the test set and on the longer sentences.
    `translations` are the translations of the test set, if known.
    """
    row: dict[str, Any] = {}
    for prefix, pairs, known in (("", test, translations), ("long_", long, None)):
        if pairs:
            sources, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            texts = known or translator.translate(sources, strategy=strategy, too_long="truncate", progress=True)
            row |= {f"{prefix}bleu": bleu(texts, references).value, f"{prefix}loss": mean_loss(translator, pairs)}
    return row
