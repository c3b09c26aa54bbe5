"""Byte-level byte-pair encoding: the tokenizer of the translation and language models."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Self

from ..errors import InputError, printable
from ..files import write_json
from .added_tokens import AddedToken, AddedTokenSplitter
from .base import SPECIAL_TOKENS, Texts, Tokenizer, check_special_tokens
from .bpe_encoder import BPEEncoder
from .bpe_trainer import train_fast
from .byte_alphabet import BYTE_TO_CHARACTER, BYTES_IN_ID_ORDER, bytes_to_text, text_to_bytes
from .normalizer import normalized
from .pre_tokenizer import splitter
from .text_encoder import TextEncoder
from .tokenizer_json import bpe_from_json, bpe_to_json
from .word_counts import count_words


class BPETokenizer(Tokenizer):
    """Byte-level BPE (Sennrich et al. 2016; on bytes: Radford et al. 2019).

    Merges and ids are the same as in Hugging Face's tokenizers, if both use the same version of Unicode.

    Encoding and decoding is lossless for any text and any bytes, because each of the 256 bytes is a token. With
    `normalize`, it is lossless for normalised texts, and for any bytes.

    Args:
        vocab: {token: id}, where a token is written with one character for each byte (`byte_alphabet`).
        merges: the pairs of tokens to merge, in the order in which they were learned.
        added_tokens: special and other tokens that are found in a text before it is split into words.
        pattern: name in `pre_tokenizer.PATTERNS`, by which a text is split into words.
        ignore_merges: whether a word that is itself a token is encoded as this token, without applying merges.
        normalize: whether texts are normalised first (`normalizer.normalized`), as for a translator.
        split_special_tokens: whether a special token that is written in a text is encoded as ordinary text.
        dropout: probability of skipping a merge, to regularise training (BPE-dropout, Provilkov et al. 2020). It can be
            changed at any time; 0 means no dropout.
        seed: seed of the random numbers for the dropout.

    Attributes:
        vocab, merges, added_tokens, pattern, ignore_merges, normalize, split_special_tokens, dropout: the arguments.
        generator: the random number generator for the dropout, with a state that can be saved and restored.

    Raises InputError if a byte or a part of a merge is not in the vocabulary, or the ids are not 0, 1, 2, ...
    """

    kind = "bpe"

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        *,
        added_tokens: Sequence[AddedToken] = (),
        pattern: str = "gpt2",
        ignore_merges: bool = False,
        normalize: bool = False,
        split_special_tokens: bool = True,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        if not 0 <= dropout <= 1:
            raise InputError(f"dropout={dropout} is not a probability. Choose a number from 0 to 1, such as 0.1.")
        self.vocab, self.merges, self.added_tokens = dict(vocab), list(merges), list(added_tokens)
        self.pattern, self.ignore_merges, self.normalize = pattern, ignore_merges, normalize
        self.split_special_tokens, self.dropout = split_special_tokens, dropout
        self.special_ids = {token.content: token.id for token in self.added_tokens if token.special}
        self._special = set(self.special_ids.values())
        self._split = splitter(pattern)
        self._added = AddedTokenSplitter(self.added_tokens, split_special_tokens=split_special_tokens)
        self.generator = Random(seed)
        self._token_bytes = _token_bytes(self.vocab, self.added_tokens, {left + right for left, right in self.merges})
        missing = [byte for byte in range(256) if BYTE_TO_CHARACTER[byte] not in self.vocab]
        if missing:
            raise InputError(
                f"The vocabulary lacks {len(missing)} of the 256 bytes, so some texts can't be encoded. Train the "
                "tokenizer again with all bytes (in Hugging Face's trainer: initial_alphabet=ByteLevel.alphabet())."
            )
        try:
            pairs = [(self.vocab[left], self.vocab[right]) for left, right in self.merges]
            merged = [self.vocab[left + right] for left, right in self.merges]
        except KeyError as error:
            raise InputError(
                f"A merge needs the token {str(error)[:60]}, which is not in the vocabulary. Restore the file."
            ) from None
        self._encoder = BPEEncoder(pairs, merged, [self.vocab[character] for character in BYTE_TO_CHARACTER])
        self._texts = TextEncoder(self._encode_word, self._split, self._added.expression, normalize)
        # An added token without blanks is within one chunk, where it is found.
        self._quick = not any(" " in token.content for token in self.added_tokens)

    @classmethod
    def train(
        cls,
        texts: Texts,
        vocab_size: int,
        *,
        special_tokens: Sequence[str] = SPECIAL_TOKENS,
        min_frequency: int = 0,
        pattern: str = "gpt2",
        normalize: bool = False,
    ) -> Self:
        """Learn a vocabulary of `vocab_size` tokens, or fewer if there are no more pairs to merge.

        Args:
            texts: an iterable of texts, such as the lines of a file: `open(path, encoding="utf-8")`.
            vocab_size: the number of tokens, including the special tokens and the 256 bytes.
            special_tokens: texts of the special tokens, which get the first ids.
            min_frequency: minimum number of occurrences of a pair that is merged.
            pattern: name in `pre_tokenizer.PATTERNS`, by which a text is split into words.
            normalize: whether texts are normalised, here and in encoding.

        Raises InputError if there is no text, `vocab_size` is too small for the bytes and the special tokens, or a
        special token equals another token.
        """
        special = check_special_tokens(special_tokens)
        alphabet = [BYTE_TO_CHARACTER[byte] for byte in BYTES_IN_ID_ORDER]
        for token in special:
            if token in alphabet:
                raise InputError(f"The special token {token!r} equals the token of a byte. Choose a longer one.")
        vocabulary = [*special, *alphabet]
        if vocab_size < len(vocabulary):
            raise InputError(
                f"vocab_size={vocab_size} is too small for the 256 bytes and {len(special)} special tokens. Choose at "
                f"least {len(vocabulary)}; some thousands are usual."
            )
        byte_ids = [vocabulary.index(character, len(special)) for character in BYTE_TO_CHARACTER]
        words = count_words(texts, splitter(pattern), normalize=normalize)
        merges = train_fast(words, vocabulary, byte_ids, vocab_size, min_frequency)
        del words  # the trainer has its own copy of the words, and frees it too
        pairs = list(merges)
        return cls(
            {token: id for id, token in enumerate(vocabulary)},
            [(vocabulary[left], vocabulary[right]) for left, right in pairs],
            added_tokens=[AddedToken(id, token) for id, token in enumerate(special)],
            pattern=pattern,
            normalize=normalize,
        )

    @property
    def vocab_size(self) -> int:
        return len(self._token_bytes)

    def _encode(self, text: str) -> list[int]:
        if self._quick and not self.dropout and (found := self._texts.encode_quickly(text)) is not None:
            return found
        ids: list[int] = []
        for part in self._added.split(text):
            if isinstance(part, int):
                ids.append(part)
                continue
            part = normalized(part) if self.normalize else part
            if not self.dropout:
                ids += self._texts.encode_words(part)
                continue
            for word in self._split(part):
                data = word.encode("utf-8", "surrogatepass")
                ids += self._encoder.encode_with_dropout(data, self.dropout, self.generator)
        return ids

    def encode_bytes(self, data: bytes) -> list[int]:
        """Return the ids of any bytes; `decode_bytes` is the inverse. Bytes that are not UTF-8 count as punctuation."""
        words = self._split(data.decode("utf-8", "surrogateescape"))
        return [id for word in words for id in self._encode_word(word.encode("utf-8", "surrogateescape"))]

    def _encode_word(self, word: bytes) -> list[int]:
        whole = self.vocab.get(bytes_to_text(word)) if self.ignore_merges else None
        return self._encoder.encode(word) if whole is None else [whole]

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        ids = list(ids)
        if skip_special_tokens:
            ids = [id for id in ids if id not in self._special]
        data = self.decode_bytes(ids)
        try:
            return data.decode("utf-8", "surrogatepass")  # lone surrogates come back unchanged
        except UnicodeDecodeError:
            return data.decode("utf-8", "replace")

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of `ids`, also of special tokens; they can be invalid UTF-8. Raises as `decode`."""
        return b"".join([self._token_bytes[id] for id in self._known(ids)])

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        return [printable(self.decode_bytes([id]).decode("utf-8", "backslashreplace")) for id in ids]

    def save(self, path: str | Path) -> None:
        """Write a `tokenizer.json`. A file without `roles` can also be loaded by `tokenizers.Tokenizer.from_file`.
        Raises InputError if the file can't be written.

        `load` also reads the byte-level BPE files of Hugging Face's `tokenizers`. It ignores their rules for padding,
        truncation, and special tokens around texts; `encode` adds `bos_id` and `eos_id` if requested.
        """
        own = {"handloom_tokenizer": self.kind, "roles": dict(self.roles), "begins": self.begins, "ends": self.ends}
        own |= {"split_special_tokens": self.split_special_tokens}
        plain = not self.roles and self.split_special_tokens
        write_json(path, self.to_json() if plain else {**own, **self.to_json()}, indent=1)

    def to_json(self) -> dict[str, Any]:
        """Return the tokenizer as the content of a `tokenizer.json`."""
        return bpe_to_json(self)

    _content = to_json

    @classmethod
    def _from_content(cls, data: dict[str, Any]) -> Self:
        tokenizer = cls(**bpe_from_json(data), split_special_tokens=data.get("split_special_tokens", True))
        tokenizer.roles = data.get("roles", {})
        tokenizer.begins, tokenizer.ends = data.get("begins", False), data.get("ends", False)
        return tokenizer


def _token_bytes(vocab: Mapping[str, int], added_tokens: Sequence[AddedToken], merged: set[str]) -> list[bytes]:
    """Return the bytes of each token by id. Raises InputError if the ids are not 0, 1, 2, ..."""
    texts = {id: text for text, id in vocab.items()}
    for token in added_tokens:
        if texts.get(token.id, token.content) != token.content or vocab.get(token.content, token.id) != token.id:
            raise InputError(f"The added token {token.content!r} has the id of another token. Restore the file.")
    if len({token.content for token in added_tokens}) < len(added_tokens):
        raise InputError("An added token occurs twice. Restore the tokenizer file from a copy.")
    texts |= {token.id: token.content for token in added_tokens}
    if sorted(texts) != list(range(len(texts))):
        raise InputError("The vocabulary's ids have a gap or a duplicate. Restore the tokenizer file from a copy.")
    # An added token is plain text, unless it is also a byte or the result of a merge.
    plain = {token.id for token in added_tokens if len(token.content) > 1 and token.content not in merged}
    found = []
    for id in range(len(texts)):
        try:
            found.append(texts[id].encode() if id in plain else text_to_bytes(texts[id]))
        except KeyError:  # another token in plain text
            found.append(texts[id].encode())
    return found
