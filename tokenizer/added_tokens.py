"""Tokens that the merges do not make: special tokens, and those that a user added to a finished vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import regex

from .pre_tokenizer import WHITE_SPACE


@dataclass(frozen=True)
class AddedToken:
    """A token that is found in a text before the text is split into words.

    Attributes:
        id: its id.
        content: its text.
        special: left out of decoded text with `skip_special_tokens`.
        single_word: matched only where the characters beside it are not word characters.
        lstrip, rstrip: white space before or after it becomes a part of it.
        normalized: searched for after the tokens that are not `normalized` (no text is normalised here).
    """

    id: int
    content: str
    special: bool = True
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False


class AddedTokenSplitter:
    """Finds added tokens in a text: at each position the longest one."""

    def __init__(self, tokens: Iterable[AddedToken]) -> None:
        tokens = list(tokens)
        self._passes = [_Pass([token for token in tokens if token.normalized is late]) for late in (False, True)]
        self._passes = [finder for finder in self._passes if finder.tokens]

    def split(self, text: str) -> list[str | int]:
        """`text` as a list, in order: the ids of added tokens and the non-empty strings between them."""
        parts: list[str | int] = [text] if text else []
        for finder in self._passes:
            parts = [piece for part in parts for piece in ([part] if isinstance(part, int) else finder.split(part))]
        return parts


class _Pass:
    def __init__(self, tokens: list[AddedToken]) -> None:
        self.tokens = {token.content: token for token in tokens}
        longest_first = sorted(self.tokens, key=len, reverse=True)
        self._expression = regex.compile("|".join(regex.escape(content) for content in longest_first))

    def split(self, text: str) -> Iterator[str | int]:
        end = 0
        for match in self._expression.finditer(text):
            token = self.tokens[match.group()]
            start, stop = match.span()
            if token.single_word and (_is_word(text[start - 1 : start]) or _is_word(text[stop : stop + 1])):
                continue
            if token.lstrip:
                start = end + len(text[end:start].rstrip(WHITE_SPACE))
            if token.rstrip:
                stop += len(text) - stop - len(text[stop:].lstrip(WHITE_SPACE))
            if start > end:
                yield text[end:start]
            if start < stop:  # a token of white space may lie within what the token before it has stripped
                yield token.id
            end = stop
        if end < len(text):
            yield text[end:]


# Unicode's definition (UTS 18, annex C); \w of the regex package matches more numbers.
_WORD = regex.compile(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]")


def _is_word(character: str) -> bool:
    return _WORD.match(character) is not None
