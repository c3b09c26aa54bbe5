"""Back-translation: text of the target language alone becomes training pairs, translated by a model the other way.

The synthetic side is the source, so that the model still learns to write real sentences. Source: Sennrich et al. 2016,
arXiv 1511.06709.
"""

from __future__ import annotations

from collections.abc import Sequence

from .translation import Pair, Translator


def back_translate(translator: Translator, sentences: Sequence[str], *, beam: int = 1) -> list[Pair]:
    """Pairs (translation of the sentence, the sentence itself), for the sentences that get a translation at all.

    Args:
        translator: from the language of `sentences` into the other one.
        sentences: of the target language of the model that is to be trained; blank ones are passed over.
        beam: 1 is greedy search, which is quick and no worse here.
    """
    real = [sentence for sentence in sentences if sentence.strip()]
    synthetic = translator.translate(real, beam=beam, too_long="truncate", progress=True)
    return [(source, target) for source, target in zip(synthetic, real, strict=True) if source.strip()]
