"""Byte-pair encoding of characters, with bytes for unknown characters: Llama's tokenizer, versions 1 and 2."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from ..errors import InputError, printable
from ..files import read_json, write_json
from .added_tokens import AddedToken, AddedTokenSplitter
from .base import Tokenizer

BLANK = "\u2581"  # stands for a blank


class FallbackBPETokenizer(Tokenizer):
    """SentencePiece's byte-pair encoding with byte fallback, equal to Hugging Face's `tokenizers` id for id.

    The whole text is one word, with blanks as \u2581. A character that the vocabulary lacks becomes its bytes' tokens,
    <0x00> to <0xFF>.

    Args:
        vocab: tokens and ids.
        merges: pairs that become one, in the order in which they were learned.
        added_tokens: special and other tokens that are found before the merges.
        prepend: where a blank is inserted: "always" (before each part between added tokens), "missing" (each that
            does not begin with one), "first" (the beginning of the text, unless it has one), or "never".
        roles: the special tokens by their role.
        begins: whether `encode_whole` puts `bos_id` before the text.

    Raises:
        InputError: a merge's part or a byte is missing in the vocabulary, or ids are not 0, 1, 2, ...
    """

    kind = "fallback-bpe"

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        *,
        added_tokens: Sequence[AddedToken] = (),
        prepend: str = "first",
        roles: Mapping[str, str] | None = None,
        begins: bool = True,
    ) -> None:
        self.begins = begins
        self.vocab, self.merges, self.prepend = dict(vocab), [tuple(pair) for pair in merges], prepend
        self.added_tokens, self.roles = list(added_tokens), dict(roles or {})
        self.special_ids = {token.content: token.id for token in self.added_tokens if token.special}
        self._texts = {id: text for text, id in self.vocab.items()} | {t.id: t.content for t in self.added_tokens}
        if sorted(self._texts) != list(range(len(self._texts))):
            raise InputError("The vocabulary's ids have a gap or a duplicate. Restore the tokenizer file from a copy.")
        try:
            self._bytes = [self.vocab[f"<0x{byte:02X}>"] for byte in range(256)]
            self._merged = {
                (self.vocab[left], self.vocab[right]): (rank, self.vocab[left + right])
                for rank, (left, right) in enumerate(self.merges)
            }
        except KeyError as error:
            raise InputError(f"The vocabulary lacks the token {error}. Restore the tokenizer file.") from None
        self._byte_of = {id: byte for byte, id in enumerate(self._bytes)}
        self._splitter = AddedTokenSplitter(self.added_tokens)

    @property
    def vocab_size(self) -> int:
        return len(self._texts)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for number, part in enumerate(self._splitter.split(text)):
            if isinstance(part, int):
                ids.append(part)
                continue
            part = part.replace(" ", BLANK)
            begins = part.startswith(BLANK)
            wanted = {"always": True, "missing": not begins, "first": not number and not begins, "never": False}
            ids += self._merge(BLANK + part if wanted[self.prepend] else part)
        return ids

    def _merge(self, text: str) -> list[int]:
        """Ids after all merges: the pair that was learned first is merged first, of equal pairs the leftmost."""
        ids: list[int] = []
        for character in text:
            id = self.vocab.get(character)
            ids += [id] if id is not None else [self._bytes[b] for b in character.encode("utf-8", "surrogatepass")]
        before, behind = list(range(-1, len(ids) - 1)), list(range(1, len(ids) + 1))
        waiting: list[tuple[int, int, int, int]] = []

        def look(left: int) -> None:
            right = behind[left]
            if right < len(ids) and (found := self._merged.get((ids[left], ids[right]))):
                heapq.heappush(waiting, (found[0], left, ids[left], ids[right]))

        for left in range(len(ids) - 1):
            look(left)
        while waiting:
            _, left, first, second = heapq.heappop(waiting)
            right = behind[left]
            if ids[left] != first or right >= len(ids) or ids[right] != second:
                continue  # one of the two has been merged since
            ids[left], ids[right] = self._merged[first, second][1], -1
            behind[left] = behind[right]
            if behind[left] < len(ids):
                before[behind[left]] = left
            if before[left] >= 0:
                look(before[left])
            look(left)
        return [id for id in ids if id >= 0]

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        text = self._decode(ids, skip_special_tokens)
        return text.removeprefix(" ") if self.prepend != "never" else text

    def decode_more(self, ids: Iterable[int]) -> str:
        return self._decode(ids, True)

    def _decode(self, ids: Iterable[int], skip_special_tokens: bool) -> str:
        ids = list(ids)
        self._check_ids(ids)
        special = set(self.special_ids.values())
        data = b""
        for id in ids:
            if id in self._byte_of:
                data += bytes([self._byte_of[id]])
            elif not (skip_special_tokens and id in special):
                data += self._texts[id].replace(BLANK, " ").encode("utf-8", "surrogatepass")
        return data.decode("utf-8", "replace")

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        ids = list(ids)
        self._check_ids(ids)
        return [printable(self._texts[id]) for id in ids]

    def settings(self) -> dict[str, Any]:
        """The arguments of the class, in a form that JSON can hold."""
        return {
            "vocab": self.vocab,
            "merges": self.merges,
            "added_tokens": [vars(token) for token in self.added_tokens],
            "prepend": self.prepend,
            "roles": self.roles,
            "begins": self.begins,
        }

    def save(self, path: str | Path) -> None:
        write_json(path, {"handloom_tokenizer": self.kind, **self.settings()}, indent=1)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        data = read_json(path)
        if data.pop("handloom_tokenizer", None) != cls.kind:
            raise InputError(f"{path} is not a {cls.kind} tokenizer file. load_tokenizer finds the right class.")
        data["added_tokens"] = [AddedToken(**token) for token in data["added_tokens"]]
        return cls(**data)
