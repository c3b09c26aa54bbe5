"""Text to token ids and back: byte-level BPE, characters, words.

base.py            what every tokenizer can do
bpe.py             byte-level BPE: train, encode, decode, save, load
bpe_reference.py   its trainer, to read
bpe_trainer.py     the same trainer, to use: many merges at a time
word_counts.py     how often each word occurs; parallel.py does it in two processes, chunk_counts.py counts
text_encoder.py    encoding: chunks of text that were seen before are looked up
bpe_encoder.py     ... and others are merged
token_array.py     replacing pairs in many places at once
byte_alphabet.py   a printable character for each byte
pre_tokenizer.py   cutting text into words
added_tokens.py    special tokens in a text
tokenizer_json.py  the file that Hugging Face's tokenizers reads too
character.py       single characters, with their clean-up
word.py            whole words, with their preprocessing
wordpiece.py       BERT's tokenizer; fallback_bpe.py Llama's; sentencepiece.py Marian's: to read, not to train
vocabulary.py      what these two have in common
explore.py         looking into a BPE tokenizer; pictures.py draws it
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InputError
from .base import SPECIAL_TOKENS, Tokenizer
from .bpe import BPETokenizer
from .character import CharacterTokenizer
from .fallback_bpe import FallbackBPETokenizer
from .sentencepiece import SentencePieceTokenizer
from .tokenizer_json import read_json
from .word import WordTokenizer
from .wordpiece import WordPieceTokenizer

_CLASSES: tuple[Any, ...] = (
    CharacterTokenizer,
    WordTokenizer,
    WordPieceTokenizer,
    SentencePieceTokenizer,
    FallbackBPETokenizer,
)


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Read a tokenizer of any class from its file.

    Raises:
        InputError: the file is missing or damaged, or needs something that is not done here.
    """
    kind = read_json(path).get("handloom_tokenizer")
    for tokenizer_class in _CLASSES:
        if kind == tokenizer_class.kind:
            try:
                return tokenizer_class.load(path)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(f"{path} is a damaged {kind} tokenizer file ({error}). Restore a copy.") from None
    return BPETokenizer.load(path)
