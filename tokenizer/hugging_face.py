"""Other projects' tokenizers, used through Hugging Face's package `tokenizers`; they can be loaded but not trained."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from ..errors import InputError, printable, short
from .base import Tokenizer


class HuggingFaceTokenizer(Tokenizer):
    """A tokenizer from any `tokenizer.json`, such as WordPiece or Unigram.
    The ids are the same as in the package `tokenizers`.

    Args:
        data: the content of the `tokenizer.json`.
        roles: the special tokens by their role.
        split_special_tokens: whether a special token that is written in a text is encoded as ordinary text.

    Raises InputError if the package tokenizers is not installed or can't read the file, or a special token is missing.
    """

    kind = "hugging-face"

    def __init__(self, data: Mapping[str, Any], roles: Mapping[str, str], *, split_special_tokens: bool = False):
        self.split_special_tokens = split_special_tokens
        self.data = {**data, "truncation": None, "padding": None}
        self._peer = _read(json.dumps(self.data))
        self._peer.encode_special_tokens = split_special_tokens
        self.vocab: dict[str, int] = self._peer.get_vocab()
        self._texts = {id: text for text, id in self.vocab.items()}
        missing = [token for token in roles.values() if token not in self.vocab]
        if missing:
            raise InputError(f"The vocabulary does not contain the special token {missing[0]!r}. Restore its file.")
        self.roles = dict(roles)
        added = self._peer.get_added_tokens_decoder().items()
        self.special_ids = {token.content: id for id, token in added if token.special}
        self.special_ids |= {token: self.vocab[token] for token in roles.values()}
        plain, whole = self._encode("a"), self.encode_whole("a")
        before = next((n for n in range(len(whole)) if whole[n : n + len(plain)] == plain), 0)
        self.begins, self.ends = before > 0, before + len(plain) < len(whole)
        self._anchor = plain

    @property
    def vocab_size(self) -> int:
        return max(self._texts) + 1

    def _encode(self, text: str, whole: bool = False) -> list[int]:
        with _refused(f"The tokenizer can't encode the text {short(text)}"):
            text = text.encode("utf-8", "replace").decode()  # `tokenizers` does not accept lone surrogates
            return self._peer.encode(text, add_special_tokens=whole).ids

    def encode_whole(self, text: str) -> list[int]:
        return self._encode(text, whole=True)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        return self._peer.decode(self._known(ids), skip_special_tokens=skip_special_tokens)

    def decode_more(self, ids: Iterable[int]) -> str:
        # A decoder may drop a blank at the beginning of a text; here the ids are not the beginning of the text.
        return self.decode([*self._anchor, *ids])[len(self.decode(self._anchor)) :]

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        return [printable(self._texts.get(id, "")) for id in self._checked(ids)]

    def _content(self) -> dict[str, Any]:
        return {"roles": self.roles, "split_special_tokens": self.split_special_tokens, "data": self.data}

    @classmethod
    def _from_content(cls, data: dict[str, Any]) -> Self:
        return cls(data["data"], data["roles"], split_special_tokens=data.get("split_special_tokens", False))


def _read(text: str) -> Any:
    try:
        import tokenizers
    except ImportError:
        raise InputError("This tokenizer needs the package tokenizers: pip install tokenizers.") from None
    with _refused("Its tokenizer.json is damaged"):
        return tokenizers.Tokenizer.from_str(text)


@contextmanager
def _refused(what: str) -> Iterator[None]:
    """Turn any failure of the package `tokenizers` into an InputError. A panic of Rust is no `Exception`."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        raise InputError(f"{what} ({str(error)[:200]}). Fetch its tokenizer.json again.") from None
