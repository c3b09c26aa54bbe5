"""The corpus: its sizes and splits, its held-out combinations, and checksums of its sentences."""

import hashlib
import itertools
import random

import pytest

from handloom.train.data.captions import scenes
from handloom.train.data.grammar import Corpus, build_corpus, choose_held_out, generate
from handloom.train.data.grammar.corpus import MAX_PAIRS, possible_combinations, words
from handloom.train.data.grammar.french import french_pairs
from handloom.train.data.news import articles
from tests.support.work import calls_in

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return build_corpus(train_size=8_000, valid_size=200, test_size=200)


@pytest.fixture(scope="module")
def sample():
    return list(itertools.islice(generate(3), 12_000))


def test_sizes_and_distinct_sentences(corpus):
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [8_000, 200, 200]
    german = [pair[0] for part in (corpus.train, corpus.valid, corpus.test) for pair in part]
    assert len(set(german)) == len(german)


def test_training_lacks_the_held_out_combinations_and_every_test_sentence_has_one(corpus):
    # Only the generator knows the combinations of a sentence. Replay the generator and look up each pair.
    combinations = {}
    sentences = generate(0)
    wanted = {pair[0] for part in (corpus.train, corpus.valid, corpus.test) for pair in part}
    while wanted:
        sentence = next(sentences)
        if sentence.german in wanted:
            wanted.discard(sentence.german)
            combinations[sentence.german] = sentence.combinations
    assert all(corpus.held_out.isdisjoint(combinations[german]) for german, _ in corpus.train)
    assert not any(corpus.held_out.isdisjoint(combinations[german]) for german, _ in corpus.valid + corpus.test)


def test_every_held_out_combination_is_possible_and_leaves_its_word_others():
    held_out = choose_held_out(random.Random(0))
    groups = possible_combinations()
    assert held_out <= set().union(*groups)
    assert all(len(held_out & set(group)) <= len(group) / 6 for group in groups)
    assert {kind for kind, _, _ in held_out} == {"subject", "object", "place", "adjective"}


def test_every_word_form_of_the_test_set_occurs_in_training(corpus):
    for side in (0, 1):
        known = {word for pair in corpus.train for word in words(pair[side])}
        for pair in corpus.valid + corpus.test:
            assert known.issuperset(words(pair[side])), pair


def _checksum(things) -> str:
    return hashlib.sha256(repr(things).encode()).hexdigest()[:16]


def test_a_seed_gives_the_same_corpus_always():
    """Published scores use the corpus, so all machines and versions of Python and handloom must make the same pairs."""
    corpus = build_corpus(5, train_size=3000, valid_size=50, test_size=50)
    assert _checksum((corpus.train, corpus.valid, corpus.test, sorted(corpus.held_out))) == "7e95af4575eaf7a8"
    assert build_corpus(1, train_size=3000, valid_size=50, test_size=50).train != corpus.train


def test_the_sentences_of_every_pattern_stay_as_they_are(sample):
    """The 12,000 sentences contain every pattern and every verb. Each was compared with a school grammar once."""
    assert _checksum([(one.german, one.english, sorted(one.combinations)) for one in sample]) == "a37c24d5de5339e8"


@pytest.mark.parametrize(
    ("source", "checksum"),
    [
        (french_pairs, "1690183e267d0f03"),
        (scenes, "3c156585e15a8058"),
        (lambda seed: map(tuple, articles(seed)), "678e981c29746937"),
    ],
    ids=["french", "scenes", "articles"],
)
def test_a_seed_gives_the_same_texts_always(source, checksum):
    first, other = (list(itertools.islice(source(seed), 4000)) for seed in (0, 1))
    assert _checksum(first) == checksum
    assert first != other


def test_a_sentence_takes_few_calls():
    """The grammar wastes no draws, and its work does not grow faster than the corpus."""
    assert calls_in(lambda: build_corpus(train_size=1000, valid_size=25, test_size=25)) < 300 * 1050
    assert calls_in(lambda: build_corpus(train_size=2000, valid_size=50, test_size=50)) < 300 * 2100


@pytest.mark.parametrize(
    ("size", "message"), [(-1, "can't be negative"), (MAX_PAIRS, "use fewer"), (0, "must all occur in training")]
)
def test_impossible_sizes_are_refused(size, message, monkeypatch):
    monkeypatch.setattr("handloom.train.data.grammar.corpus._PATIENCE", 500)
    with pytest.raises(ValueError, match=message):
        build_corpus(train_size=size, valid_size=0, test_size=1)
