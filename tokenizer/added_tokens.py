"""Tokens that do not result from merges, such as special tokens."""

from collections.abc import Iterable
from typing import NamedTuple

import regex


class AddedToken(NamedTuple):
    """A token that is found in a text before the text is split into words.

    Attributes:
        id: the token's id.
        content: the token's text.
        special: whether the token is omitted from decoded text if `skip_special_tokens` is true.
    """

    id: int
    content: str
    special: bool = True


class AddedTokenSplitter:
    """A splitter that finds added tokens in a text. At each position it finds the longest added token. `expression` is
    the compiled regular expression by which they are found.
    """

    def __init__(self, tokens: Iterable[AddedToken]) -> None:
        self._ids = {token.content: token.id for token in tokens}
        longest_first = sorted(self._ids, key=len, reverse=True)
        self.expression = regex.compile(f"({'|'.join(map(regex.escape, longest_first)) or '(?!)'})")

    def split(self, text: str) -> list[str | int]:
        """Split `text` into the added tokens' ids and the non-empty strings between them, in order."""
        return [self._ids.get(part, part) for part in self.expression.split(text) if part]
