"""A tokenizer of whole words, with the preprocessing of the news classifier."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Self

from .vocabulary import VocabularyTokenizer, most_common

WORD_SPECIAL_TOKENS = ("<PAD>", "<UNK>", "<BOS>", "<EOS>")

_URL = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>|<!--.*?-->", re.DOTALL)
# An apostrophe within a word stays: nltk splits "don't" into "do" and "n't".
_PUNCTUATION = re.compile(r"(?!(?<=\w)'(?=\w))[^\w\s]|_")


def preprocess(text: str, *, lowercase: bool = True, punctuation: bool = False) -> str:
    """Preprocess a text for the news classifier; words are separated by single blanks.

    In this order: lower case; URLs removed; HTML tags removed and entities replaced by their characters; punctuation
    removed (unless `punctuation`); white space reduced to single blanks.
    """
    text = text.lower() if lowercase else text
    text = html.unescape(_TAG.sub(" ", _URL.sub(" ", text)))
    text = text.replace("’", "'")
    if not punctuation:
        text = _PUNCTUATION.sub(" ", text)
    return " ".join(text.split())


class WordTokenizer(VocabularyTokenizer):
    """One token for each word: `preprocess`, then nltk's `NLTKWordTokenizer` (after the Penn Treebank's rules).

    Decoded words are joined by blanks, which does not restore the original text.

    Args:
        vocabulary: the words, without the special tokens.
        special_tokens: the tokens with the first ids.
        lowercase, punctuation: see `preprocess`.

    Raises:
        InputError: a word occurs twice.
    """

    kind = "word"

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        special_tokens: Sequence[str] = WORD_SPECIAL_TOKENS,
        lowercase: bool = True,
        punctuation: bool = False,
    ) -> None:
        super().__init__(vocabulary, special_tokens)
        if not isinstance(lowercase, bool) or not isinstance(punctuation, bool):
            raise TypeError("lowercase or punctuation is not true or false")
        self.lowercase = lowercase
        self.punctuation = punctuation

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int | None = None,
        *,
        special_tokens: Sequence[str] = WORD_SPECIAL_TOKENS,
        min_frequency: int = 1,
        lowercase: bool = True,
        punctuation: bool = False,
    ) -> Self:
        """Make a tokenizer from the words of `texts`: all, or the most frequent ones that fit `vocab_size`.

        Raises:
            InputError: there is no text, or `vocab_size` is too small for a word.
        """
        tokenizer = cls([], special_tokens=special_tokens, lowercase=lowercase, punctuation=punctuation)
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(tokenizer.split(text))
        words = most_common(counts, vocab_size, special_tokens, min_frequency)
        return cls(words, special_tokens=special_tokens, lowercase=lowercase, punctuation=punctuation)

    def split(self, text: str) -> list[str]:
        return _nltk_split()(preprocess(text, lowercase=self.lowercase, punctuation=self.punctuation))

    def join(self, units: list[str]) -> str:
        return " ".join(units)

    def _settings(self) -> dict[str, Any]:
        return {"lowercase": self.lowercase, "punctuation": self.punctuation}


@cache
def _nltk_split() -> Callable[[str], list[str]]:
    from nltk.tokenize import NLTKWordTokenizer  # half a second, which other tokenizers do not need

    return NLTKWordTokenizer().tokenize
