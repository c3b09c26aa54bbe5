"""A tokenizer of words, with the preprocessing for the news classifier."""

import html
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

import regex

from ..kinds import checked
from .normalizer import normalized
from .vocabulary import VocabularyTokenizer

WORD_SPECIAL_TOKENS = ("<PAD>", "<UNK>", "<BOS>", "<EOS>")

_URL = regex.compile(r"(?:https?://|www\.)\S+", regex.IGNORECASE)
_TAG = regex.compile(r"</?[a-zA-Z][^<>]*>|<!--.*?-->", regex.DOTALL)
# nltk splits no other words without an apostrophe.
_SPLIT = re.compile(r"cannot|gimme|gonna|gotta|lemme|wanna", re.IGNORECASE)  # nltk's, with `re`'s rules of case
_WHOLE = regex.compile(r"\w+")  # unlike `re`, with combining marks
# An apostrophe within a word stays: nltk splits "don't" into "do" and "n't".
_PUNCTUATION = regex.compile(r"(?!(?<=\w)'(?=\w))[^\w\s]|_")


@checked
def preprocess(text: str, *, lowercase: bool = True, punctuation: bool = False) -> str:
    """Preprocess a text for the news classifier.

    The steps, in this order: normalise (`normalized`); convert to lower case; remove URLs; remove HTML tags and replace
    entities by their characters; remove punctuation (unless `punctuation`); reduce white space to single blanks.
    """
    text = normalized(text)
    text = text.lower() if lowercase else text
    text = html.unescape(_TAG.sub(" ", _URL.sub(" ", text)))
    text = text.replace("’", "'")
    if not punctuation:
        text = _PUNCTUATION.sub(" ", text)
    return " ".join(text.split())


class WordTokenizer(VocabularyTokenizer):
    """A tokenizer with one token for each word.

    It applies `preprocess`, then nltk's `NLTKWordTokenizer` (the rules of the Penn Treebank). Decoded words are joined
    by blanks, which does not restore the original text.

    Args:
        vocabulary: the words, without the special tokens.
        special_tokens: special tokens, which get the first ids.
        lowercase, punctuation: see `preprocess`.

    Raises InputError if a word occurs twice.
    """

    kind = "word"
    usual_special_tokens = WORD_SPECIAL_TOKENS
    settings = ("lowercase", "punctuation")

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        special_tokens: Sequence[str] = WORD_SPECIAL_TOKENS,
        lowercase: bool = True,
        punctuation: bool = False,
    ) -> None:
        super().__init__(vocabulary, special_tokens=special_tokens)
        self.lowercase = lowercase
        self.punctuation = punctuation

    def split(self, text: str) -> list[str]:
        text = preprocess(text, lowercase=self.lowercase, punctuation=self.punctuation)
        if self.punctuation or "' " in f"{text} ":
            return _nltk_split()(text)
        # Only nltk's rules for punctuation and for an apostrophe at the end of a word look beyond the word.
        return [unit for word in text.split() for unit in _units(word)]

    def join(self, units: list[str]) -> str:
        return " ".join(units)


@lru_cache(maxsize=1 << 16)
def _units(word: str) -> tuple[str, ...]:
    """Return the units of a word by nltk's rules. nltk applies 30 regular expressions, which most words don't need."""
    return (word,) if _WHOLE.fullmatch(word) and not _SPLIT.fullmatch(word) else tuple(_nltk_split()(word))


@cache
def _nltk_split() -> Callable[[str], list[str]]:
    from nltk.tokenize import NLTKWordTokenizer  # half a second, which other tokenizers do not need

    return NLTKWordTokenizer().tokenize
