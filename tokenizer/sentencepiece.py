"""The tokenizer of Marian's translators: two SentencePiece models, of source and target, with one vocabulary."""

import base64
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Self

from ..errors import InputError, printable
from .added_tokens import AddedToken, AddedTokenSplitter
from .base import Tokenizer


class SentencePieceTokenizer(Tokenizer):
    """Marian's tokenizer, with the same ids as in `transformers` without the optional package `sacremoses`.

    `encode` is for source texts, `encode_targets` and `decode` are for target texts. The model's decoder begins with
    `pad_id`, so `bos_id` equals `pad_id`. Source: Kudo and Richardson 2018, arXiv 1808.06226.

    Args:
        source, target: the two SentencePiece models, as the bytes of their files.
        vocab: {piece: id}; a piece that is not in `vocab` becomes `unk_id`.
        roles: the special tokens by their role.

    Raises InputError if the package sentencepiece is not installed, a model is damaged, or a special token is missing.
    """

    kind = "sentencepiece"
    ends = True
    split_special_tokens = False

    def __init__(self, source: bytes, target: bytes, vocab: Mapping[str, int], roles: Mapping[str, str] | None = None):
        self.models = {"source": source, "target": target}
        self._source, self._target = _processor(source), _processor(target)
        self.vocab = dict(vocab)
        self.roles = dict(roles or {"pad": "<pad>", "bos": "<pad>", "eos": "</s>", "unk": "<unk>"})
        missing = [token for token in self.roles.values() if token not in self.vocab]
        if missing:
            raise InputError(f"The vocabulary does not contain the special token {missing[0]!r}. Restore vocab.json.")
        self.special_ids = {token: self.vocab[token] for token in self.roles.values()}
        self._splitter = AddedTokenSplitter(AddedToken(id, token) for token, id in self.special_ids.items())
        self._pieces = {id: piece for piece, id in self.vocab.items()}
        if sorted(self._pieces) != list(range(len(self.vocab))):
            raise InputError("The vocabulary's ids have a gap or a duplicate. Restore vocab.json from a copy.")

    @property
    def vocab_size(self) -> int:
        return len(self.vocab)

    def _encode(self, text: str) -> list[int]:
        return self._ids_of(text, self._source)

    def encode_targets(self, texts: Iterable[str]) -> list[list[int]]:
        return [self._ids_of(text, self._target) for text in texts]

    def _ids_of(self, text: str, model: Any) -> list[int]:
        # This finds special tokens in a text, and a code such as >>fra<< at its start for the target language.
        unknown, ids = self.unk_id, []
        parts = self._splitter.split(text)
        for i, part in enumerate(parts):
            if isinstance(part, int):
                ids.append(part)
                continue
            if i:
                part = part.lstrip()
            if i < len(parts) - 1:
                part = part.rstrip()
            code = part.find("<<") + 2 if part.startswith(">>") and "<<" in part else 0
            pieces = ([part[:code]] if code else []) + model.encode(part[code:], out_type=str)
            ids += [self.vocab.get(piece, unknown) for piece in pieces]
        return ids

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        special = set(self.special_ids.values())
        ids = [id for id in self._known(ids) if not (skip_special_tokens and id in special)]
        texts: list[str] = []
        for alone, group in groupby(ids, special.__contains__):
            pieces = [self._pieces[id] for id in group]
            texts += [f"{piece} " for piece in pieces] if alone else [self._target.decode_pieces(pieces)]
        return "".join(texts).replace("\u2581", " ").strip()

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        return [printable(self._pieces.get(id, "")) for id in self._checked(ids)]

    def _content(self) -> dict[str, Any]:
        models = {name: base64.b64encode(model).decode() for name, model in self.models.items()}
        return {"vocab": self.vocab, "roles": self.roles, **models}

    @classmethod
    def _from_content(cls, data: dict[str, Any]) -> Self:
        source, target = (base64.b64decode(data[name]) for name in ("source", "target"))
        return cls(source, target, data["vocab"], data["roles"])


def _processor(model: bytes) -> Any:
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise InputError("This tokenizer needs the package sentencepiece: pip install sentencepiece.") from None
    try:
        return SentencePieceProcessor(model_proto=model)
    except (RuntimeError, OSError) as error:
        raise InputError(f"The SentencePiece model is damaged ({error}). Fetch both .spm files again.") from None
