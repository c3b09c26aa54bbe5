"""Encode texts with a cache of words, because most words of a text have occurred before."""

from collections.abc import Callable
from itertools import chain

import regex

from .normalizer import normalized
from .pre_tokenizer import WHITE_SPACE, Splitter

_ENTRIES = 1 << 18  # a cache with this many entries is emptied
_LONGEST = 100  # characters; a longer piece of text is unlikely to occur again
_START = "\0"  # before the first chunk, which no blank precedes


class _NeedsCareError(Exception):
    """Raised for a chunk that begins with white space or contains an added token."""


class TextEncoder:
    """An encoder that splits texts at blanks and looks up the chunks in a cache, which is faster than splitting texts
    into words.

    As in `word_counts`, words begin at blanks that don't follow white space. For a text with other blanks, with a token
    that the expression `added` finds, or to be normalised, `encode_quickly` returns None. Only chunks that are not in
    the cache are split. `encode_word` returns the ids of the bytes of a word.
    """

    def __init__(
        self,
        encode_word: Callable[[bytes], list[int]],
        split: Splitter,
        added: "regex.Pattern[str]",
        normalize: bool = False,
    ) -> None:
        self._split, self._added, self._normalize = split, added, normalize
        self._encode_word, self._words = encode_word, _Cache(self._encode_text_of_word)
        self._chunks = _Cache(self._encode_chunk)

    def encode_quickly(self, text: str) -> list[int] | None:
        """Return the ids of a text, or None if it must be split at added tokens, and normalised, first."""
        if _START in text:
            return None
        try:
            return list(chain.from_iterable(map(self._chunks.__getitem__, (_START + text).split(" "))))
        except _NeedsCareError:
            return None

    def encode_words(self, text: str) -> list[int]:
        """Return the ids of a text without added tokens."""
        return list(chain.from_iterable(map(self._words.__getitem__, self._split(text))))

    def _encode_chunk(self, chunk: str) -> list[int]:
        if not chunk or chunk[0] in WHITE_SPACE or self._added.search(chunk):
            raise _NeedsCareError
        bare = chunk.removeprefix(_START)
        plain = bare and bare.isascii() and bare.isprintable()  # the usual case
        if self._normalize and not plain and (not bare or normalized(bare) != bare):
            raise _NeedsCareError
        words = self._split(bare if chunk[0] == _START else " " + chunk)
        return self._words[words[0]] if len(words) == 1 else [id for word in words for id in self._words[word]]

    def _encode_text_of_word(self, word: str) -> list[int]:
        return self._encode_word(word.encode("utf-8", "surrogatepass"))


class _Cache(dict[str, list[int]]):
    """A dict from pieces of text to ids, which are computed at the first look-up."""

    def __init__(self, find: Callable[[str], list[int]]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, piece: str) -> list[int]:
        ids = self._find(piece)
        if len(piece) <= _LONGEST:
            if len(self) >= _ENTRIES:
                self.clear()
            self[piece] = ids
        return ids
