"""Tokenizers, which convert text to token ids and back: byte-level BPE, characters, and words.

base.py            the interface of every tokenizer
bpe.py             byte-level BPE: train, encode, decode, save, load
bpe_reference.py   the paper's training algorithm, slow but readable
bpe_trainer.py     a faster trainer with the same result, which BPETokenizer.train uses
word_counts.py     count words
text_encoder.py    encode texts with a cache of chunks
bpe_encoder.py     encode a word by applying merges
byte_alphabet.py   a printable character for each byte
normalizer.py      give the spellings of a text that look the same one form
pre_tokenizer.py   split text into words
added_tokens.py    find special tokens in a text
tokenizer_json.py  read and write the file format of Hugging Face's tokenizers
character.py       tokenizer of characters, with a clean-up of texts
word.py            tokenizer of words, with a preprocessing of texts
hugging_face.py    use Hugging Face's package tokenizers; sentencepiece.py uses the package sentencepiece
vocabulary.py      the base class of character.py and word.py
explore.py         statistics of a BPE tokenizer
"""

from pathlib import Path

from ..files import read_json
from ..kinds import checked
from .base import SPECIAL_TOKENS, Tokenizer
from .bpe import BPETokenizer
from .character import CharacterTokenizer, without_special
from .explore import compression, token_lengths, usual_sizes
from .hugging_face import HuggingFaceTokenizer
from .pre_tokenizer import PATTERNS
from .sentencepiece import SentencePieceTokenizer
from .word import WordTokenizer, preprocess

__all__ = [
    "PATTERNS", "SPECIAL_TOKENS", "BPETokenizer", "CharacterTokenizer", "HuggingFaceTokenizer",
    "SentencePieceTokenizer", "Tokenizer", "WordTokenizer", "compression", "load_tokenizer", "preprocess",
    "token_lengths", "usual_sizes", "without_special",
]  # fmt: skip

_CLASSES: dict[str, type[Tokenizer]] = {
    one.kind: one for one in (CharacterTokenizer, WordTokenizer, SentencePieceTokenizer, HuggingFaceTokenizer)
}


@checked
def load_tokenizer(path: str | Path) -> Tokenizer:
    """Load a tokenizer of any class from a file. Raises InputError if the file is missing or damaged, or needs a
    feature that handloom does not support.
    """
    return _CLASSES.get(str(read_json(path).get("handloom_tokenizer")), BPETokenizer).load(path)
