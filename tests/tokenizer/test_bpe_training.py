"""Both BPE trainers and Hugging Face's learn the same merges in the same order, for characters that all know."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from handloom.errors import InputError
from handloom.tokenizer import SPECIAL_TOKENS, BPETokenizer
from handloom.tokenizer.bpe_reference import merge_pair, train_reference
from handloom.tokenizer.bpe_trainer import train_fast
from handloom.tokenizer.byte_alphabet import BYTE_TO_CHARACTER, BYTES_IN_ID_ORDER
from handloom.tokenizer.pre_tokenizer import PATTERNS, splitter
from handloom.tokenizer.word_counts import count_words
from tests.support.tokenizer_texts import corpora, peer_merges, train_peer

Trainer = Callable[[dict[bytes, int], list[str], list[int], int, int], Iterator[tuple[int, int]]]

SPECIAL_LISTS = [SPECIAL_TOKENS, ("the", "<eos>"), ("aa", "ab"), (), ("abab", "<pad>", " b")]
patterns = st.sampled_from(list(PATTERNS))


def merges_of(trainer: Trainer, words: dict[bytes, int], vocab_size: int, special: tuple[str, ...] = ()) -> list[str]:
    vocabulary = [*special, *(BYTE_TO_CHARACTER[byte] for byte in BYTES_IN_ID_ORDER)]
    byte_ids = [vocabulary.index(character, len(special)) for character in BYTE_TO_CHARACTER]
    pairs = list(trainer(words, vocabulary, byte_ids, vocab_size, 0))
    return [f"{vocabulary[left]} {vocabulary[right]}" for left, right in pairs]


@given(
    corpus=corpora(),
    special=st.sampled_from(SPECIAL_LISTS),
    more=st.sampled_from([0, 1, 7, 40, 1000]),
    min_frequency=st.integers(0, 3),
    pattern=patterns,
)
@settings(max_examples=100)
@example(corpus=["abab abab", "aaaa"], special=("abab", "aa"), more=20, min_frequency=0, pattern="gpt2")
@example(corpus=["a" * 50, "a" * 7], special=(), more=20, min_frequency=0, pattern="gpt2")
def test_merges_and_ids_equal_the_peers(
    corpus: list[str], special: tuple[str, ...], more: int, min_frequency: int, pattern: str
) -> None:
    vocab_size = 256 + len(special) + more
    peer = train_peer(corpus, vocab_size, special, min_frequency=min_frequency, pattern=pattern)
    peer.encode_special_tokens = True
    ours = BPETokenizer.train(
        iter(corpus), vocab_size, special_tokens=special, min_frequency=min_frequency, pattern=pattern
    )
    assert ours.merges == peer_merges(peer)
    assert ours.vocab == peer.get_vocab()
    for text in corpus:
        assert ours.encode(text) == peer.encode(text).ids


@given(corpus=corpora(), special=st.sampled_from(SPECIAL_LISTS), more=st.sampled_from([1, 7, 40, 1000]))
@settings(max_examples=100)
def test_the_fast_trainer_equals_the_readable_one(corpus: list[str], special: tuple[str, ...], more: int) -> None:
    words = count_words(iter(corpus), splitter())
    vocab_size = 256 + len(special) + more
    fast = merges_of(train_fast, words, vocab_size, special)
    assert fast == merges_of(train_reference, words, vocab_size, special)


def test_the_trainers_agree_over_several_epochs_and_large_batches() -> None:
    generator = random.Random(0)
    draw = generator.randint
    words = {bytes(generator.choices(b"abcdefghij", range(1, 11), k=draw(1, 12))): draw(1, 900) for _ in range(3000)}
    assert merge_pair([1, 1, 1, 2, 1, 2], (1, 1), 9) == [9, 1, 2, 1, 2], "merge_pair merges from left to right"
    fast = merges_of(train_fast, words, 256 + 3000)
    assert len(fast) == 3000
    assert fast == merges_of(train_reference, words, 256 + 3000)


def test_an_open_file_is_read_line_by_line_and_a_text_as_a_whole(tmp_path: Path) -> None:
    text = "one\n\n\n two  \r\n three\n\n\n\n"
    path = tmp_path / "text.txt"
    path.write_bytes(text.encode())
    with open(path, encoding="utf-8", newline="\n") as file:
        for source, texts_of_peer in ((file, [path]), ([text], [text])):
            ours = BPETokenizer.train(source, 300, special_tokens=["<unk>"])
            assert ours.merges == peer_merges(train_peer(texts_of_peer, 300, ["<unk>"]))


# Counting words


def counted_plainly(sequences: list[str], pattern: str) -> dict[bytes, int]:
    split = splitter(pattern)
    return dict(Counter(word.encode("utf-8", "surrogatepass") for text in sequences for word in split(text)))


@given(corpus=corpora(), pattern=patterns)
@settings(max_examples=150)
@example(corpus=["a\n "], pattern="gpt2")
@example(corpus=["a\t \tb", "a\t", "\t b"], pattern="gpt2")
@example(corpus=["\ud800 \udcff  a"], pattern="gpt4")
def test_words_of_texts_are_those_of_the_expression(corpus: list[str], pattern: str) -> None:
    assert count_words(iter(corpus), splitter(pattern)) == counted_plainly(corpus, pattern)


def test_words_are_the_same_in_any_number_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handloom.tokenizer.word_counts._TEXTS", 7)
    corpus = ["word1, and\0 and", *(f"word{i % 50}, {i}\t and" for i in range(1000))]
    assert count_words(iter(corpus), splitter()) == counted_plainly(corpus, "gpt2")


# Invalid training input


def test_input_that_cannot_be_used_is_named() -> None:
    bad: list[tuple[object, dict[str, object], str]] = [
        ([], {}, "no text to train on"),
        ([""], {}, "no text to train on"),
        ("text", {}, "not 'text': give a list"),
        (["text", Path("a.txt")], {}, "To train on a file, open it"),
        ([__file__, "b.txt"], {}, "To train on a file, open it"),
        ([3], {}, "To train on a file, open it"),
        (["text"], {"vocab_size": 259}, "Choose at least 260"),
        (["text"], {"special_tokens": ["<eos>", "<eos>"]}, "'<eos>' occurs twice"),
        (["text"], {"special_tokens": [""]}, "special token is empty"),
        (["text"], {"special_tokens": "<eos>"}, "special_tokens is '<eos>', but it must be a list"),
        (["text"], {"special_tokens": ["a"]}, "'a' equals the token of a byte"),
        (["text"], {"pattern": "("}, "The pattern '(' is not one of gpt2, gpt4, whitespace"),
    ]
    for source, arguments, message in bad:
        with pytest.raises((InputError, TypeError), match=re.escape(message)):
            BPETokenizer.train(source, **{"vocab_size": 300, **arguments})  # type: ignore[arg-type]
