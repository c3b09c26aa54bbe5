"""Texts that are difficult for tokenizers, and Hugging Face tokenizers with handloom's training or settings."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from handloom.tokenizer.pre_tokenizer import PATTERNS, WHITE_SPACE

# Each alphabet has a different difficulty. All characters are old enough to have the same category in every version of
# Unicode that Python, regex and tokenizers use.
ALPHABETS = [
    "ab",  # all pairs are about equally frequent, and runs are long
    "ab ",
    "aaab\n",
    "acgt",
    "the cat sat on  ",
    "'s'S'll'VE a",
    "a1²½b2 .,!?",
    "<pad>eos ",
    "áéß ñÄ",
    "中文字 かな。a",
    "क्षत्रिय ก่ำ",
    "אבג مرحبا ",
    "😀👍🏽\u200d👩 x",
    "\x00\x1c\x7f\xad ab",
    "ab. " + WHITE_SPACE,
    "  \n\t\r a",
]

SPECIALS = ["<pad>", "<eos>", " <bos> ", "<unk", "<eos><eos>"]


@st.composite
def texts(draw: st.DrawFn, max_size: int = 60) -> str:
    """Draw a text from one or several alphabets, sometimes with special tokens."""
    alphabet = "".join(draw(st.lists(st.sampled_from(ALPHABETS), min_size=1, max_size=3)))
    parts = draw(st.lists(st.text(st.sampled_from(alphabet), max_size=max_size), min_size=1, max_size=3))
    return draw(st.sampled_from(["", "", "", *SPECIALS])).join(parts)


def corpora(max_texts: int = 8) -> st.SearchStrategy[list[str]]:
    """Return a strategy for lists of texts that are not all empty."""
    return st.lists(texts(), min_size=1, max_size=max_texts).filter(any)


def hugging_face() -> Any:
    """Return the module `tokenizers`, or skip the test if the module is not installed."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # with threads, it warns at every later fork
    return pytest.importorskip("tokenizers", reason="Hugging Face's tokenizers is not installed")


def peer_tokenizer(pattern: str = "gpt2") -> Any:
    """Return an untrained byte-level BPE tokenizer of Hugging Face that splits text by `pattern`."""
    peer = hugging_face()
    tokenizer = peer.Tokenizer(peer.models.BPE())
    byte_level = peer.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern == "gpt2")
    if pattern == "gpt2":
        tokenizer.pre_tokenizer = byte_level
    else:
        split = peer.pre_tokenizers.Split(peer.Regex(PATTERNS[pattern]), "isolated")
        tokenizer.pre_tokenizer = peer.pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = peer.decoders.ByteLevel()
    return tokenizer


def train_peer(
    files_or_texts: Sequence[str | Path],
    vocab_size: int,
    special_tokens: Sequence[str],
    *,
    min_frequency: int = 0,
    pattern: str = "gpt2",
) -> Any:
    """Return a Hugging Face tokenizer, trained with the arguments of `BPETokenizer.train`."""
    peer = hugging_face()
    tokenizer = peer_tokenizer(pattern)
    trainer = peer.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special_tokens),
        min_frequency=min_frequency,
        initial_alphabet=peer.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    if isinstance(files_or_texts[0], Path):
        tokenizer.train([str(path) for path in files_or_texts], trainer)
    else:
        tokenizer.train_from_iterator(files_or_texts, trainer)
    return tokenizer


def peer_merges(tokenizer: Any) -> list[tuple[str, str]]:
    """Return the merges of a Hugging Face tokenizer in order."""
    return [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
