"""A tokenizer of whole words, with the preprocessing of the news classifier."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Self

from .base import SPECIAL_TOKENS
from .vocabulary import VocabularyTokenizer, most_common


class WordTokenizer(VocabularyTokenizer):
    """One token a word.

    Args:
        vocabulary: the words, without the special tokens.
        special_tokens: the tokens with the first ids.
        lowercase: words are lower-cased.
    """

    kind = "word"

    def __init__(
        self, vocabulary: Sequence[str], *, special_tokens: Sequence[str] = SPECIAL_TOKENS, lowercase: bool = True
    ) -> None:
        super().__init__(vocabulary, special_tokens)
        self.lowercase = lowercase

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int | None = None,
        *,
        special_tokens: Sequence[str] = SPECIAL_TOKENS,
        min_frequency: int = 1,
        lowercase: bool = True,
    ) -> Self:
        """Take the words of `texts`: all, or the most frequent ones that fit `vocab_size`.

        Raises:
            InputError: there is no text, or no room.
        """
        tokenizer = cls([], special_tokens=special_tokens, lowercase=lowercase)
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(tokenizer.split(text))
        words = most_common(counts, vocab_size, special_tokens, min_frequency)
        return cls(words, special_tokens=special_tokens, lowercase=lowercase)

    def split(self, text: str) -> list[str]:
        return re.findall(r"\w+|[^\w\s]", text.lower() if self.lowercase else text)

    def join(self, units: list[str]) -> str:
        return " ".join(units)

    def _settings(self) -> dict[str, Any]:
        return {"lowercase": self.lowercase}
