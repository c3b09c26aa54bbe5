"""Back-translation: a model for the opposite direction turns text in the target language into training pairs.

Only the source is synthetic, so the model still learns to write real sentences. Source: Sennrich et al. 2016, arXiv
1511.06709.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ...errors import InputError
from .metrics import bleu
from .translation import Pair, Translator


def back_translate(translator: Translator, sentences: Sequence[str], *, beam: int = 1) -> list[Pair]:
    """Return pairs (translation of the sentence, the sentence itself).

    Sentences with an empty translation are left out.

    Args:
        translator: translates from the language of `sentences` into the other one.
        sentences: sentences in the target language of the model to be trained; blank ones are skipped.
        beam: beam width; 1 is greedy search, which is fast and no worse for this purpose.
    """
    real = [sentence for sentence in sentences if sentence.strip()]
    synthetic = translator.translate(real, beam=beam, too_long="truncate", progress=True)
    return [(source, target) for source, target in zip(synthetic, real, strict=True) if source.strip()]


def round_trips(
    text: str, forth: Translator, back: Translator, *, share: float = 1.0, seed: int = 0
) -> tuple[str, str]:
    """Augment the training text of a language model: sentences translated into another language and back.

    Args:
        forth, back: translators into the other language, and back.
        share: the share of the sentences to translate, chosen at random by `seed`; the order is kept.

    Returns the new text, with five sentences per paragraph, and a line that describes its amount and its similarity
    to the original. Sentences of more than 40 words are not translated. Results that are unchanged, or contain
    characters that the text doesn't contain, are left out. Source of back-translation: Sennrich et al. 2016, arXiv
    1511.06709; of the round trip: Yu et al. 2018, arXiv 1804.09541, section 3.

    Raises InputError if nothing is left.
    """
    sentences = [s for s in split_sentences(text) if len(s.split()) <= 40]
    chosen = np.random.default_rng(seed).random(len(sentences)) < share
    originals = [sentence for sentence, taken in zip(sentences, chosen, strict=True) if taken]
    away = forth.translate(originals, beam=1, too_long="truncate", progress=True)
    pairs = [(original, other) for original, other in zip(originals, away, strict=True) if other.strip()]
    returned = back.translate([other for _, other in pairs], beam=1, too_long="truncate", progress=True)
    known = set(text)
    kept = [
        (original, new)
        for (original, _), new in zip(pairs, returned, strict=True)
        if new.strip() and new != original and known.issuperset(new)
    ]
    if not kept:
        raise InputError("Translating the text there and back changed no sentence. Train the two models for longer.")
    new = [sentence for _, sentence in kept]
    note = (
        f"{len(kept):,} of {len(originals):,} sentences are new after two translations, {sum(map(len, new)):,} "
        f"characters; BLEU against their originals {bleu(new, [original for original, _ in kept]).value:.1f}"
    )
    return "\n\n".join(" ".join(new[i : i + 5]) for i in range(0, len(new), 5)) + "\n", note


def split_sentences(text: str) -> list[str]:
    """Split a text into its sentences, each on one line, with blank lines between paragraphs."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    return [s for paragraph in paragraphs for s in re.split(r"(?<=[.!?])\s+", paragraph) if s.strip()]
