"""Text to token ids and back: byte-level BPE, characters, words.

base.py            the interface of every tokenizer
bpe.py             byte-level BPE: train, encode, decode, save, load
bpe_reference.py   the trainer as the paper describes it: slow and short, to read
bpe_trainer.py     the trainer that is used: many merges at a time, the same result
word_counts.py     how often each word occurs; parallel.py does it in two processes, chunk_counts.py counts
text_encoder.py    encoding: looks up chunks of text that it has seen before
bpe_encoder.py     encoding: applies the merges to a new word
token_array.py     replacing all occurrences of many pairs at once
byte_alphabet.py   a printable character for each byte
pre_tokenizer.py   splitting text into words
added_tokens.py    finding special tokens in a text
tokenizer_json.py  reading and writing the file format of Hugging Face's tokenizers
character.py       single characters, with their clean-up
word.py            whole words, with their preprocessing
hugging_face.py    other projects' tokenizers through the package tokenizers; sentencepiece.py Marian's
vocabulary.py      the base class of character.py and word.py
explore.py         figures about a BPE tokenizer; pictures.py draws them
"""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError
from ..files import read_json
from .base import SPECIAL_TOKENS, Tokenizer
from .bpe import BPETokenizer
from .character import CharacterTokenizer
from .hugging_face import HuggingFaceTokenizer
from .sentencepiece import SentencePieceTokenizer
from .word import WordTokenizer

_CLASSES: tuple[type[Tokenizer], ...] = (
    CharacterTokenizer,
    WordTokenizer,
    SentencePieceTokenizer,
    HuggingFaceTokenizer,
)


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Read a tokenizer of any class from its file.

    Raises:
        InputError: the file is missing or damaged, or needs a feature that handloom does not have.
    """
    kind = read_json(path).get("handloom_tokenizer")
    for tokenizer_class in _CLASSES:
        if kind == tokenizer_class.kind:
            return tokenizer_class.load(path)
    if kind in ("wordpiece", "fallback-bpe"):
        raise InputError(f"{path} was saved by handloom 0.1. Train it again from the model's folder (--init FOLDER).")
    return BPETokenizer.load(path)
