"""Tokens that do not result from merges, such as special tokens."""

from collections.abc import Iterable
from typing import NamedTuple

import regex


class AddedToken(NamedTuple):
    """A token that is found in a text before the text is split into words."""

    id: int
    content: str
    special: bool = True  # omitted from decoded text if `skip_special_tokens` is true


class AddedTokenSplitter:
    """A splitter that finds added tokens in a text by an `expression`, at each position the longest. If
    `split_special_tokens` is true, a special token that it finds stays text.
    """

    def __init__(self, tokens: Iterable[AddedToken], *, split_special_tokens: bool = False) -> None:
        tokens = list(tokens)
        self._ids = {token.content: token.id for token in tokens if not (token.special and split_special_tokens)}
        longest_first = sorted([token.content for token in tokens] if self._ids else [], key=len, reverse=True)
        self.expression = regex.compile(f"({'|'.join(map(regex.escape, longest_first)) or '(?!)'})")

    def split(self, text: str) -> list[str | int]:
        """Split `text` into the added tokens' ids and the non-empty strings between them, in order."""
        parts: list[str | int] = []
        start = 0
        for found in self.expression.finditer(text):
            if found[0] in self._ids:
                parts += [text[start : found.start()], self._ids[found[0]]]
                start = found.end()
        return [part for part in (*parts, text[start:]) if part != ""]
