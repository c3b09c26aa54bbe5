"""WordPiece, BERT's tokenizer: words split into the longest pieces that are in the vocabulary."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from ..errors import InputError, printable
from ..files import read_json, write_json
from .added_tokens import AddedToken, AddedTokenSplitter
from .base import Tokenizer

ROLES = {"pad": "[PAD]", "unk": "[UNK]", "bos": "[CLS]", "eos": "[SEP]"}


class WordPieceTokenizer(Tokenizer):
    """BERT's tokenizer, equal to Hugging Face's id for id (Wu et al. 2016, arXiv 1609.08144; Devlin et al. 2019).

    A text is cleaned and split at white space and around punctuation; from each word the longest piece in the
    vocabulary is split off, again and again. Pieces within a word begin with ##. A word whose rest has no such piece
    becomes `unk_id`.

    Args:
        vocab: the pieces by id.
        lowercase: convert letters to lower case.
        strip_accents: remove accents; as `lowercase` if None.
        chinese: each Chinese character is a word.
        clean: remove control characters and replace white space by blanks.
        longest_word: in characters; a longer one becomes `unk_id`.
        roles: the special tokens for padding, unknown words, beginning and end.
        added_tokens: texts that are found before the text is split; by default the special tokens.

    Raises:
        InputError: a special token is missing in the vocabulary.
    """

    kind = "wordpiece"
    begins = ends = True

    def __init__(
        self,
        vocab: Sequence[str],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        chinese: bool = True,
        clean: bool = True,
        longest_word: int = 100,
        roles: Mapping[str, str] = ROLES,
        added_tokens: Sequence[AddedToken] | None = None,
    ) -> None:
        self.vocabulary = list(vocab)
        self._ids = {piece: id for id, piece in enumerate(self.vocabulary)}
        missing = [token for token in roles.values() if token not in self._ids]
        if missing:
            raise InputError(f"The vocabulary lacks the special token {missing[0]!r}. Restore its file.")
        self.lowercase, self.strip_accents, self.chinese, self.clean = lowercase, strip_accents, chinese, clean
        self.longest_word, self.roles = longest_word, dict(roles)
        if added_tokens is None:
            special = {*roles.values(), *(["[MASK]"] if "[MASK]" in self._ids else [])}
            added_tokens = [AddedToken(self._ids[token], token) for token in sorted(special)]
        self.added_tokens = list(added_tokens)
        self.special_ids = {token.content: token.id for token in self.added_tokens if token.special}
        self.special_ids |= {token: self._ids[token] for token in roles.values()}
        self._splitter = AddedTokenSplitter(self.added_tokens)
        self._pieces_of = lru_cache(1 << 16)(self._pieces)

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in self._splitter.split(text):
            if isinstance(part, int):
                ids.append(part)
                continue
            for word in self._words(part):
                ids += self._pieces_of(word)
        return ids

    def _words(self, text: str) -> list[str]:
        strips = self.lowercase if self.strip_accents is None else self.strip_accents
        if self.clean:
            text = "".join(" " if _is_space(c) else c for c in text if not _is_control(c))
        if self.chinese:
            text = "".join(f" {c} " if _is_chinese(c) else c for c in text)
        if strips:
            text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
        if self.lowercase:
            text = "".join(c.lower() for c in text)
        return "".join(f" {c} " if _is_punctuation(c) else c for c in text).split()

    def _pieces(self, word: str) -> tuple[int, ...]:
        if len(word) > self.longest_word:
            return (self.unk_id,)
        ids, start = [], 0
        while start < len(word):
            mark = "##" if start else ""
            end = next((end for end in range(len(word), start, -1) if mark + word[start:end] in self._ids), start)
            if end == start:
                return (self.unk_id,)
            ids.append(self._ids[mark + word[start:end]])
            start = end
        return tuple(ids)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        ids = list(ids)
        self._check_ids(ids)
        skipped = set(self.special_ids.values()) if skip_special_tokens else set()
        return " ".join(self.vocabulary[id] for id in ids if id not in skipped).replace(" ##", "")

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        ids = list(ids)
        self._check_ids(ids)
        return [printable(self.vocabulary[id]) for id in ids]

    def settings(self) -> dict[str, Any]:
        """The arguments of the class besides the vocabulary, in a form that JSON can hold."""
        names = ("lowercase", "strip_accents", "chinese", "clean", "longest_word", "roles")
        return {name: getattr(self, name) for name in names} | {"added_tokens": [vars(t) for t in self.added_tokens]}

    def save(self, path: str | Path) -> None:
        write_json(path, {"handloom_tokenizer": self.kind, "vocab": self.vocabulary, **self.settings()}, indent=1)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        data = read_json(path)
        if data.pop("handloom_tokenizer", None) != cls.kind:
            raise InputError(f"{path} is not a {cls.kind} tokenizer file. load_tokenizer finds the right class.")
        data["added_tokens"] = [AddedToken(**token) for token in data["added_tokens"]]
        return cls(**data)


def _is_space(character: str) -> bool:
    return character in "\t\n\r" or (character.isspace() and unicodedata.category(character) not in ("Cc",))


def _is_control(character: str) -> bool:
    if character in "\t\n\r":
        return False
    return character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Cn", "Co", "Cs")


def _is_chinese(character: str) -> bool:
    code = ord(character)
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2B73F
        or 0x2B740 <= code <= 0x2B81F
        or 0x2B920 <= code <= 0x2CEAF
        or 0xF900 <= code <= 0xFAFF
        or 0x2F800 <= code <= 0x2FA1F
    )


def _is_punctuation(character: str) -> bool:
    code = ord(character)
    if code < 128:
        return 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return unicodedata.category(character).startswith("P")
