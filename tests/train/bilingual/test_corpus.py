"""The splits: deterministic, distinct, and held out as promised."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from handloom.train.bilingual import Corpus, build_corpus
from handloom.train.bilingual.corpus import draw_sentences, is_reserved

SIZES = {"train_size": 6_000, "valid_size": 150, "test_size": 150}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return build_corpus(3, **SIZES)


def test_sizes(corpus):
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (6_000, 150, 150)


def test_the_same_seed_gives_the_same_corpus_and_another_another(corpus):
    assert build_corpus(3, **SIZES) == corpus
    assert build_corpus(4, **SIZES).train[:50] != corpus.train[:50]


def test_hash_randomization_changes_nothing():
    code = (
        "import hashlib; from handloom.train.bilingual import build_corpus; "
        "c = build_corpus(1, train_size=1500, valid_size=20, test_size=20); "
        "print(hashlib.sha256(repr(c).encode()).hexdigest())"
    )
    digests = {
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": s}, capture_output=True, check=True).stdout
        for s in ("1", "2")
    }
    assert len(digests) == 1


def test_no_german_sentence_occurs_twice(corpus):
    german = [de for part in (corpus.train, corpus.valid, corpus.test) for de, _ in part]
    assert len(set(german)) == len(german)


def test_held_out_combinations():
    seed = 3
    train, held_out = draw_sentences(seed, 6_000, 300)
    assert not [c for s in train for c in s.combinations if is_reserved(seed, c)]
    assert all(any(is_reserved(seed, c) for c in s.combinations) for s in held_out)


def test_a_few_per_cent_are_reserved_and_the_seed_chooses():
    combinations = [f"noun{i}+verb{i % 97}" for i in range(20_000)]
    reserved = [{c for c in combinations if is_reserved(seed, c)} for seed in (0, 1)]
    assert all(0.03 < len(chosen) / len(combinations) < 0.05 for chosen in reserved)
    assert len(reserved[0] & reserved[1]) < len(reserved[0]) / 10


def test_combinations_name_what_stands_together():
    """The proof rests on the lists, so they are read off the sentences: an adjective beside its noun is listed."""
    train, held_out = draw_sentences(0, 3_000, 50)
    found = 0
    for sentence in train + held_out:
        for noun in re.findall(r"\balte[nrs]? ([A-ZÄÖÜ]\w+)", sentence.german):
            listed = [c.partition("|")[2] for c in sentence.combinations if c.startswith("alt|")]
            assert any(noun.translate(_PLAIN)[:3] == name.translate(_PLAIN)[:3] for name in listed), sentence
            found += 1
    assert found > 20


_PLAIN = str.maketrans("äöüÄÖÜ", "aouAOU")  # the plural of Apfel is Äpfel


def test_every_held_out_word_occurs_in_training(corpus):
    def words(pairs):
        return {word for pair in pairs for text in pair for word in re.findall(r"\w+", text)}

    assert words(corpus.valid) | words(corpus.test) <= words(corpus.train)


def test_sentences_look_like_sentences(corpus):
    for german, english in corpus.train:
        for text in (german, english):
            assert text[0].isupper()
            assert text[-1] in ".?!"
            assert "  " not in text
            assert not re.search(r"\s[,.?!]", text)
    lengths = [len(german.split()) for german, _ in corpus.train]
    assert 6 < sum(lengths) / len(lengths) < 11
    assert max(lengths) < 25


def test_one_rendering_for_each_german_sentence():
    """Also across seeds, where the same sentence may be drawn by another pattern."""
    renderings: dict[str, str] = {}
    for seed in range(4):
        train, held_out = draw_sentences(seed, 4_000, 0)
        for sentence in train + held_out:
            assert renderings.setdefault(sentence.german, sentence.english) == sentence.english


def test_small_training_sets_work():
    corpus = build_corpus(0, train_size=0, valid_size=0, test_size=0)
    assert corpus == Corpus([], [], [])


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"train_size": -1}, "train_size must not be negative, got -1"),
        ({"train_size": 10, "valid_size": 500, "test_size": 500}, "Ask for fewer"),
    ],
)
def test_impossible_sizes(sizes, message):
    with pytest.raises(ValueError, match=message):
        build_corpus(0, **sizes)
