"""A tokenizer of single characters, with the clean-up that keeps its alphabet small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Self

from .base import SPECIAL_TOKENS
from .vocabulary import VocabularyTokenizer, most_common


class CharacterTokenizer(VocabularyTokenizer):
    """One token a character.

    Args:
        vocabulary: the characters, without the special tokens.
        special_tokens: the tokens with the first ids.
        clean: clean each text first (see `clean_text`).
    """

    kind = "character"

    def __init__(
        self, vocabulary: Sequence[str], *, special_tokens: Sequence[str] = SPECIAL_TOKENS, clean: bool = True
    ) -> None:
        super().__init__(vocabulary, special_tokens)
        self.clean = clean

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int | None = None,
        *,
        special_tokens: Sequence[str] = SPECIAL_TOKENS,
        min_frequency: int = 1,
        clean: bool = True,
    ) -> Self:
        """Take the characters of `texts`: all, or the most frequent ones that fit `vocab_size`.

        Raises:
            InputError: there is no text, or no room.
        """
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(clean_text(text) if clean else text)
        characters = most_common(counts, vocab_size, special_tokens, min_frequency)
        return cls(sorted(characters), special_tokens=special_tokens, clean=clean)

    def split(self, text: str) -> list[str]:
        return list(clean_text(text) if self.clean else text)

    def join(self, units: list[str]) -> str:
        return "".join(units)

    def _settings(self) -> dict[str, Any]:
        return {"clean": self.clean}


def clean_text(text: str) -> str:
    """`text` itself, for now."""
    return text
