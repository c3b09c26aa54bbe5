"""The interface of every tokenizer: encode and decode, special tokens, save and load."""

import gc
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from ..errors import InputError, several, short
from ..files import read_json, write_json
from ..kinds import checked

# Ids 0 to 3 of a tokenizer trained with the defaults: padding, a token that is not in the vocabulary, the beginning and
# the end of a sequence.
SPECIAL_TOKENS = ("<pad>", "<unk>", "<bos>", "<eos>")

#: Texts to encode or to train on, which are checked where they are read: an iterator is read once.
Texts = Annotated[Iterable[str], "checked later"]

#: The exceptions that reading a damaged file can raise.
DAMAGED = (AttributeError, KeyError, TypeError, ValueError, IndexError)


@checked
class Tokenizer(ABC):
    """The base class of tokenizers, which map a text to token ids and back.

    A subclass defines how a text without special tokens becomes ids (`_encode`), how ids become text (`decode`), how
    tokens are displayed (`token_strings`), and the content of its file (`_content` and `_from_content`).

    Attributes:
        kind: the name of the class in saved files.
        special_ids: the special tokens' texts and ids. A special token whose text is a role's name in angle brackets,
            in upper or lower case, has this role. For example, `<bos>` and `<BOS>` set `bos_id`.
        roles: {role: text}, for special tokens with other texts; the roles are "pad", "unk", "bos" and "eos".
        split_special_tokens: whether a special token that is written in a text is encoded as ordinary text. It is true
            for handloom's own tokenizers, and for others what their tokenizer_config.json says, by default false.
        unused: number of ids after `vocab_size` that a model with a larger output layer can generate, without a text.
        begins, ends: whether `encode_whole` adds `bos_id` before the text, and whether it adds `eos_id` after the text.
    """

    kind: str
    special_ids: dict[str, int]
    roles: Mapping[str, str] = {}
    split_special_tokens: bool = True
    unused: int = 0
    begins: bool = False
    ends: bool = False

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """The number of token ids; the ids are `range(vocab_size)`."""

    def __init_subclass__(cls) -> None:
        checked(cls)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.vocab_size:,} tokens)"

    @abstractmethod
    def _encode(self, text: str) -> list[int]:
        """Return the ids of `text`, without <bos> and <eos>."""

    @abstractmethod
    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """Return the text of `ids`. Special tokens are omitted if `skip_special_tokens` is true, and written as text
        otherwise. Raises InputError if an id is not in `range(vocab_size + unused)`.
        """

    @abstractmethod
    def token_strings(self, ids: Iterable[int]) -> list[str]:
        """Return a printable string for each id, for display. Raises InputError as `decode`."""

    @abstractmethod
    def _content(self) -> dict[str, Any]:
        """Return the tokenizer's data for `_from_content`, as a JSON object."""

    @classmethod
    @abstractmethod
    def _from_content(cls, data: dict[str, Any]) -> Self:
        """Return the tokenizer whose file contains `data`. Damaged data can raise the exceptions in `DAMAGED`."""

    def save(self, path: str | Path) -> None:
        """Write the tokenizer to one JSON file. Raises InputError if the file can't be written."""
        write_json(path, {"handloom_tokenizer": self.kind, **self._content()}, indent=1)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read the tokenizer from a file that `save` wrote. Raises InputError if the file is missing or damaged, or
        contains another type of tokenizer.
        """
        data = read_json(path)
        data.pop("handloom_tokenizer", None)
        try:
            return cls._from_content(data)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        except DAMAGED as error:
            what = f"{path} is not a {cls.kind} tokenizer file, or it is damaged"
            raise InputError(f"{what} ({error}). Restore a copy.") from None

    def encode(self, text: str, *, add_bos: bool = False, add_eos: bool = False) -> list[int]:
        """Return the ids of `text`. `add_bos` adds `bos_id` before them, and `add_eos` adds `eos_id` after them."""
        return self.encode_batch([text], add_bos=add_bos, add_eos=add_eos)[0]

    def encode_whole(self, text: str) -> list[int]:
        """Encode `text` with the <bos> and <eos> that the model expects; see `begins` and `ends`."""
        return self.encode(text, add_bos=self.begins, add_eos=self.ends)

    def encode_batch(self, texts: Texts, *, add_bos: bool = False, add_eos: bool = False) -> list[list[int]]:
        """Encode each text by `encode`, without padding. Raises InputError for a single text instead of a list."""
        before = [self.bos_id] if add_bos else []
        behind = [self.eos_id] if add_eos else []
        encode, texts = self._encode, several(texts)
        collecting = gc.isenabled()
        gc.disable()  # it would repeatedly scan a batch's many lists, although these have no cycles
        try:
            return [before + encode(text) + behind for text in texts]
        finally:
            if collecting:
                gc.enable()

    def encode_targets(self, texts: Texts) -> list[list[int]]:
        """Encode texts in the target language, which may have separate tokens in a translator's tokenizer."""
        return self.encode_batch(texts)

    def decode_more(self, ids: Iterable[int]) -> str:
        """Return the text that `ids` append to the text of earlier ids, without special tokens."""
        return self.decode(ids)

    def decode_stream(self, ids: Iterable[int]) -> Iterator[str]:
        """Yield the text of `ids` as `decode_more` does, each piece as soon as its characters are complete."""
        pending: list[int] = []
        given = 0  # characters of the pending ids
        for id in ids:
            pending.append(id)
            text = self.decode_more(pending)
            # The last character may lack up to three bytes. Each of its bytes may be a token, and may look like this:
            complete = len(text) - min(3, len(text) - len(text.rstrip("\N{REPLACEMENT CHARACTER}")))
            yield text[given:complete]
            given = max(given, complete)
            if complete == len(text):
                pending, given = [], 0
        yield self.decode_more(pending)[given:]

    def decode_batch(self, batch: Iterable[Iterable[int]], *, skip_special_tokens: bool = True) -> list[str]:
        """Decode each sequence by `decode`."""
        return [self.decode(ids, skip_special_tokens=skip_special_tokens) for ids in batch]

    def tokens(self, text: str) -> list[str]:
        """Return the tokens of `text` as printable strings, for display."""
        return self.token_strings(self.encode(text))

    @property
    def pad_id(self) -> int:
        return self._special_id("pad")

    @property
    def unk_id(self) -> int:
        return self._special_id("unk")

    @property
    def bos_id(self) -> int:
        return self._special_id("bos")

    @property
    def eos_id(self) -> int:
        return self._special_id("eos")

    def _special_id(self, role: str) -> int:
        if role in self.roles:
            return self.special_ids[self.roles[role]]
        for token, token_id in self.special_ids.items():
            if token.lower() == f"<{role}>":
                return token_id
        known = ", ".join(self.special_ids) or "none"
        raise InputError(
            f"This tokenizer has no special token <{role}> (it has: {known}). Train a tokenizer with <{role}> in "
            f"special_tokens, or do not use <{role}>."
        )

    def _checked(self, ids: Iterable[int]) -> list[int]:
        """Return the ids as a list. Raises InputError for an id outside `range(vocab_size + unused)`."""
        size = self.vocab_size + self.unused
        try:
            ids = list(ids)
            right = not ids or (min(ids) >= 0 and max(ids) < size)
        except (TypeError, ValueError):
            raise InputError(f"Give a list of token ids, not {short(ids)}.") from None
        if not right:
            wrong = next(id for id in ids if not 0 <= id < size)
            raise InputError(
                f"Id {wrong} is not a token: this tokenizer's ids go from 0 to {size - 1}. The ids may be from another "
                "tokenizer, or from a model with a larger output layer."
            )
        return ids

    def _known(self, ids: Iterable[int]) -> list[int]:
        """Return the checked ids that have a text."""
        ids = self._checked(ids)
        return [id for id in ids if id < self.vocab_size] if self.unused else ids


def check_special_tokens(special_tokens: Sequence[str]) -> tuple[str, ...]:
    """Return the special tokens as a tuple. Raises InputError unless they are distinct non-empty strings."""
    tokens = tuple(several(special_tokens))
    if "" in tokens:
        raise InputError("A special token is empty. Omit it or give it a name.")
    if len(set(tokens)) < len(tokens):
        repeated = Counter(tokens).most_common(1)[0][0]
        raise InputError(f"The special token {repeated!r} occurs twice. Remove one of the two.")
    return tokens
