"""The corpus: sizes, splits, the proof of what is held out, and properties that every sentence has."""

from __future__ import annotations

import itertools
import os
import random
import re
import subprocess
import sys

import pytest

from handloom.train.data.grammar import Corpus, build_corpus, choose_held_out, generate
from handloom.train.data.grammar.corpus import MAX_PAIRS, possible_combinations, words
from handloom.train.data.grammar.sentences import LONGEST, SHORTEST
from handloom.train.data.grammar.storyteller import ADJECTIVES_OF, PREPOSITIONS_OF
from handloom.train.data.grammar.words import (
    ACTIONS,
    ADJECTIVES,
    ALL_NOUNS,
    CREATING,
    FEELINGS,
    HINDRANCES,
    MANNERS,
    NOT_OWN,
    STATES,
    SUDDEN,
    TURNED,
    UNWILLED,
)
from tests.support.work import calls_in

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return build_corpus()


@pytest.fixture(scope="module")
def sample():
    return list(itertools.islice(generate(3), 20_000))


def test_sizes_and_distinct_sentences(corpus):
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [40_000, 1_000, 1_000]
    german = [pair[0] for part in (corpus.train, corpus.valid, corpus.test) for pair in part]
    assert len(set(german)) == len(german)


def test_training_lacks_the_held_out_combinations_and_every_test_sentence_has_one(corpus):
    # The combinations of a sentence are known to its generator: replay it and look each pair up.
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


def test_combinations_are_in_the_sentence(sample):
    stems = {noun.german: {noun.german[:3].lower(), noun.plural[:3].lower()} for noun in ALL_NOUNS}
    for sentence in sample[:3000]:
        text = sentence.german.lower()
        for _, _, noun in sentence.combinations:
            assert any(stem in text for stem in stems[noun]), (sentence, noun)


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


def test_the_same_seed_gives_the_same_corpus_in_another_process_with_other_hashes():
    code = (
        "from handloom.train.data.grammar import build_corpus; import hashlib;"
        "c = build_corpus(5, train_size=3000, valid_size=50, test_size=50);"
        "print(hashlib.sha256(repr((c.train, c.valid, c.test, sorted(c.held_out))).encode()).hexdigest())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert len(outputs.pop()) == 65


def test_another_seed_gives_other_sentences():
    first, second = (build_corpus(seed, train_size=500, valid_size=5, test_size=5) for seed in (0, 1))
    assert first != second
    assert first == build_corpus(0, train_size=500, valid_size=5, test_size=5)


def test_a_sentence_takes_few_calls():
    """No draws in vain, and no work that grows faster than the corpus: it is quick."""
    assert calls_in(lambda: build_corpus(train_size=1000, valid_size=25, test_size=25)) < 300 * 1050
    assert calls_in(lambda: build_corpus(train_size=4000, valid_size=100, test_size=100)) < 300 * 4200


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"train_size": -1}, "can't be negative"),
        ({"train_size": MAX_PAIRS}, "ask for fewer"),
        ({"train_size": 0, "valid_size": 0, "test_size": 1}, "must all occur in training"),
    ],
)
def test_impossible_sizes_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        build_corpus(**sizes)


def test_sentences_look_like_text(sample):
    for sentence in sample:
        for text in (sentence.german, sentence.english):
            assert text[0].isupper()
            assert re.fullmatch(r"[^.?!]+[.?!]", text), text
            assert not re.search(r"\s\s|\s[,.?!']|,[,.?!]|^\s|\s$", text), text
            assert "None" not in text
        assert sentence.german[-1] == sentence.english[-1]
        assert SHORTEST <= len(sentence.german.split()) <= LONGEST


def test_a_german_sentence_has_one_translation(sample):
    translations = {}
    for sentence in sample:
        assert translations.setdefault(sentence.german, sentence.english) == sentence.english


def test_articles_before_vowels(sample):
    for sentence in sample:
        for article, word in re.findall(r"\b([Aa]n?) (\w)", sentence.english):
            assert (article.lower() == "an") == (word in "aeiou"), sentence.english


def test_subordinate_clauses_end_with_their_verb(sample):
    auxiliary = r"(hat|habe|hast|haben|habt|ist|bin|bist|sind|seid)"
    clauses = re.compile(rf", (weil|obwohl|dass|ob) ([^,.?]* {auxiliary}\b[^,.?]*)[,.?]")
    perfect = [match[2] for sentence in sample if (match := clauses.search(sentence.german))]
    assert len(perfect) > 300
    assert all(re.search(rf" {auxiliary}$", clause) for clause in perfect)


def test_every_pattern_and_every_verb_is_drawn(sample):
    text = " ".join(sentence.german for sentence in sample)
    traces = ", weil |, obwohl |, dass |, ob |, um |, den |, aber |Wenn |Bevor |Wem |Wen |Was |Welche|Wohin |Wo |Wann |"
    traces += "Warum |Wer | bitte|!| als | noch nicht | in der Nacht | gerade "
    for trace in traces.split("|"):
        assert trace in text, trace
    drawn = {word for sentence in sample for _, word, _ in sentence.combinations}
    assert {verb.name for verb in [*ACTIONS, *STATES, *TURNED]} <= drawn
    assert {adjective.german for adjective in ADJECTIVES} <= drawn
    assert {noun.german for noun in ALL_NOUNS} <= {noun for sentence in sample for _, _, noun in sentence.combinations}


def test_the_tables_refer_to_each_other_without_gaps():
    names = {verb.name for verb in [*ACTIONS, *STATES]}
    assert names >= UNWILLED | SUDDEN | CREATING | NOT_OWN
    assert set(HINDRANCES) <= set(FEELINGS)
    for verb in [*ACTIONS, *STATES, *TURNED]:
        assert verb.subjects
        assert all(slot.nouns for slot in verb.slots)
        assert set(verb.feelings) <= set(FEELINGS)
        assert set(verb.manners) <= set(MANNERS)
        for slot in verb.slots:
            if slot.case in ("goal", "place"):
                assert all(slot.preposition or PREPOSITIONS_OF[noun] for noun in slot.nouns)
    assert {adjective for choices in ADJECTIVES_OF.values() for adjective in choices} == set(ADJECTIVES)
