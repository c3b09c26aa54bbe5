"""Back-translation: a model of the other direction turns text in the target language into training pairs.

The synthetic side is the source, so that the model still learns to write real sentences. Source: Sennrich et al. 2016,
arXiv 1511.06709.
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
        translator: from the language of `sentences` into the other one.
        sentences: of the target language of the model that is to be trained; blank ones are passed over.
        beam: 1 is greedy search, which is quick and no worse here.
    """
    real = [sentence for sentence in sentences if sentence.strip()]
    synthetic = translator.translate(real, beam=beam, too_long="truncate", progress=True)
    return [(source, target) for source, target in zip(synthetic, real, strict=True) if source.strip()]


def round_trips(
    text: str, forth: Translator, back: Translator, *, share: float = 1.0, seed: int = 0
) -> tuple[str, str]:
    """Augment the training text of a language model: sentences translated into another language and back.

    Args:
        forth, back: into the other language, and from there.
        share: of the sentences, chosen at random by `seed`; they keep their order.

    Returns the new text, five sentences a paragraph, and a line that says how much there is and how much it resembles
    its origin. Sentences of more than 40 words are not taken; what comes back unchanged, or with characters that the
    text doesn't have, is left out. Source: Sennrich et al. 2016, arXiv 1511.06709, of back-translation; the round trip:
    Yu et al. 2018, arXiv 1804.09541, section 3.

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
        f"{len(kept):,} of {len(originals):,} sentences came back from two translations, {sum(map(len, new)):,} "
        f"characters; BLEU against their originals {bleu(new, [original for original, _ in kept]).value:.1f}"
    )
    return "\n\n".join(" ".join(new[i : i + 5]) for i in range(0, len(new), 5)) + "\n", note


def split_sentences(text: str) -> list[str]:
    """Split a text into its sentences, each on one line, with blank lines between paragraphs."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    return [s for paragraph in paragraphs for s in re.split(r"(?<=[.!?])\s+", paragraph) if s.strip()]
