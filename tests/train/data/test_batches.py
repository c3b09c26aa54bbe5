"""Padded batches of token sequences."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.errors import InputError
from handloom.tokenizer import BPETokenizer
from handloom.train.data import batches as data_batches
from handloom.train.data.batches import BPEDropoutBatches, TokenBatches, TokenSequences, join_neighbours, source_batches
from handloom.train.tasks.translator import fit_lengths
from tests.support.work import calls_in

PAD, BOS, EOS = 0, 2, 3
SPECIAL = {"pad_id": PAD, "bos_id": BOS, "eos_id": EOS}

tokens = st.integers(4, 99)
sources = st.lists(tokens, min_size=1, max_size=12)
targets = st.lists(tokens, max_size=12)
corpora = st.lists(st.tuples(sources, targets), min_size=1, max_size=60)


def random_corpus(pairs: int, seed: int = 0) -> tuple[list[list[int]], list[list[int]]]:
    """Return random sources and targets. Both sides of a pair have similar lengths, as in translations."""
    generator = np.random.default_rng(seed)
    lengths = np.clip(generator.gamma(6, 2.5, pairs), 2, 60)
    ratio = generator.normal(1, 0.15, pairs).clip(0.5, 2)
    return (
        [generator.integers(4, 8000, int(n)).tolist() for n in lengths],
        [generator.integers(4, 8000, int(n)).tolist() for n in lengths * ratio],
    )


@given(corpora, st.integers(13, 60), st.integers(0, 5), st.integers(0, 3), st.booleans(), st.integers(1, 9))
def test_every_pair_comes_back_exactly_once(corpus, budget, seed, epoch, shuffle, multiple):
    """Lengths are padded to a multiple of `pad_to`, but not beyond the longest sequence."""
    source_ids, target_ids = [s for s, _ in corpus], [t for _, t in corpus]
    options = {"tokens_per_batch": budget, "seed": seed, "shuffle": shuffle, "pad_to": multiple, **SPECIAL}
    batches = TokenBatches(source_ids, target_ids, **options)
    longest = max(max(len(s), len(t) + 1) for s, t in corpus)

    def width(lengths):
        return min(-(-int(lengths.max()) // multiple) * multiple, longest)

    seen, positions = [], 0
    for batch in batches.epoch(epoch):
        rows = len(batch)
        assert rows * max(batch.source.shape[1], batch.target_input.shape[1]) <= budget
        assert batch.source.dtype == batch.target_input.dtype == batch.target_output.dtype == np.int64
        assert batch.source.shape == (rows, width(batch.source_lengths))
        assert batch.target_input.shape == batch.target_output.shape == (rows, width(batch.target_lengths))
        assert batch.target_tokens == (batch.target_output != PAD).sum()
        for row, i in enumerate(batch.indices):
            s, t = batch.source_lengths[row], batch.target_lengths[row]
            assert batch.source[row, :s].tolist() == source_ids[i]
            assert batch.target_input[row, :t].tolist() == [BOS, *target_ids[i]]
            assert batch.target_output[row, :t].tolist() == [*target_ids[i], EOS]
            padding = [batch.source[row, s:], batch.target_input[row, t:], batch.target_output[row, t:]]
            assert all((rest == PAD).all() for rest in padding)
        seen.extend(batch.indices.tolist())
        positions += batch.source.size + batch.target_input.size
    assert sorted(seen) == list(range(len(corpus)))
    filled = sum(len(s) + len(t) + 1 for s, t in corpus)
    assert len(batches) > 1 or batches.padding_fraction == pytest.approx(1 - filled / positions)


def test_a_batch_has_so_many_pairs_at_most() -> None:
    options = {"tokens_per_batch": 1000, "seed": 0, "pad_id": 0, "bos_id": 1, "eos_id": 2}
    pairs = [[5] * (1 + i % 7) for i in range(50)]
    batches = TokenBatches(pairs, pairs, pairs_per_batch=16, **options)
    assert sorted(map(len, batches.plan(0))) == [2, 16, 16, 16]
    assert batches.fingerprint() != TokenBatches(pairs, pairs, **options).fingerprint()


def test_the_fingerprint_depends_on_every_token(monkeypatch) -> None:
    """Also for a large corpus, whose older fingerprint was the beginning of this one."""
    options = {"tokens_per_batch": 1000, "seed": 0, "pad_id": 0, "bos_id": 1, "eos_id": 2}
    pairs = [[5] * (1 + i % 7) for i in range(9)]
    short = TokenBatches(pairs, pairs, **options).fingerprint()
    monkeypatch.setattr(data_batches, "_MANY", 10)
    before = TokenBatches(pairs, pairs, **options).fingerprint()
    assert len(before) == 2 * len(short)
    for number in range(sum(map(len, pairs))):
        tokens = iter(range(1000))
        changed = [[6 if next(tokens) == number else 5 for _ in own] for own in pairs]
        for sides in ((changed, pairs), (pairs, changed)):
            now = TokenBatches(*sides, **options).fingerprint()
            assert now != before
            assert not now.startswith(before)


def test_padded_to_a_multiple_batches_have_few_shapes():
    corpus = random_corpus(5000)

    def shapes(multiple):
        batches = TokenBatches(*corpus, tokens_per_batch=512, seed=0, pad_to=multiple, **SPECIAL)
        return {batch.source.shape + batch.target_input.shape for epoch in range(2) for batch in batches.epoch(epoch)}

    assert len(shapes(8)) < len(shapes(1)) / 4
    names = [TokenBatches(*corpus, tokens_per_batch=512, seed=0, pad_to=n, **SPECIAL).fingerprint() for n in (1, 8)]
    assert names[0] != names[1], "a run can't resume with other batches"


def test_order_depends_on_seed_and_epoch_alone():
    corpus = random_corpus(500)

    def order(seed, epoch):
        plan = TokenBatches(*corpus, tokens_per_batch=512, seed=seed, **SPECIAL).plan(epoch)
        return [batch.tolist() for batch in plan]

    assert order(1, 4) == order(1, 4)
    assert order(1, 4) != order(1, 5)
    assert order(1, 4) != order(2, 4)
    members = [{frozenset(batch) for batch in order(1, epoch)} for epoch in (0, 1)]
    assert members[0] != members[1], "another epoch changes the members of the batches, not only their order"


def test_resuming_inside_an_epoch_gives_the_rest():
    batches = TokenBatches(*random_corpus(200), tokens_per_batch=200, seed=0, **SPECIAL)
    whole = [batch.indices.tolist() for batch in batches.epoch(1)]
    assert len(whole) == len(batches) == len(batches.plan(0))
    rest = [batch.indices.tolist() for batch in batches.epoch(1, start=4)]
    assert rest == whole[4:]
    assert rest


def test_without_shuffling_short_pairs_come_first_in_every_epoch():
    batches = TokenBatches(*random_corpus(300), tokens_per_batch=256, seed=0, shuffle=False, **SPECIAL)
    orders = [[batch.tolist() for batch in batches.plan(epoch)] for epoch in (0, 1)]
    assert orders[0] == orders[1]
    widths = [max(b.source.shape[1], b.target_input.shape[1]) for b in batches.epoch(0)]
    assert widths == sorted(widths)


def test_little_padding():
    batches = TokenBatches(*random_corpus(5000), tokens_per_batch=4096, seed=0, **SPECIAL)
    filled = sum((b.source != PAD).sum() + (b.target_input != PAD).sum() for b in batches.epoch(0))
    positions = sum(b.source.size + b.target_input.size for b in batches.epoch(0))
    assert batches.padding_fraction == pytest.approx(1 - filled / positions)
    assert batches.padding_fraction < 0.1
    used = sum(len(b) * max(b.source.shape[1], b.target_input.shape[1]) for b in batches.epoch(0))
    assert used > 0.9 * 4096 * (len(batches) - 1), "batches fill their budget"


def test_pairs_over_the_limit_are_dropped_and_counted():
    source_ids = [[5] * n for n in (3, 4, 5, 2)]
    target_ids = [[6] * n for n in (3, 4, 1, 4)]  # lengths with <bos> or <eos>: 4, 5, 2, 5
    batches = TokenBatches(source_ids, target_ids, tokens_per_batch=100, seed=0, max_length=4, **SPECIAL)
    assert batches.dropped.tolist() == [1, 2, 3]
    assert batches.note() == "Left out 3 of 4 pairs that are longer than 4 tokens."
    assert list(itertools.chain(*batches.plan(0))) == [0]
    everything = TokenBatches(source_ids, target_ids, tokens_per_batch=100, seed=0, max_length=5, **SPECIAL)
    assert everything.note() == ""


@pytest.mark.parametrize(
    ("source_ids", "target_ids", "message"),
    [
        ([[5] * 4] * 2, [[5]] * 2, r"All 2 sentence pairs are longer than the limit of 3 tokens.*Raise"),
        ([[5] * 4], [[5]], r"^The one sentence pair is longer than the limit"),
    ],
)
def test_lists_that_do_not_fit(source_ids, target_ids, message):
    with pytest.raises(ValueError, match=message):
        TokenBatches(source_ids, target_ids, tokens_per_batch=9, seed=0, max_length=3, **SPECIAL)


def test_a_pair_over_the_budget():
    with pytest.raises(InputError, match=r"has 8 tokens, more than the budget of 7 .*Raise the tokens per batch"):
        TokenBatches([[5]], [[5] * 7], tokens_per_batch=7, seed=0, **SPECIAL)


def test_an_epoch_takes_few_calls_a_batch_however_many_pairs_it_has():
    def calls_a_batch(budget):
        batches = TokenBatches(*sides, tokens_per_batch=budget, seed=0, **SPECIAL)
        pairs = []
        calls = calls_in(lambda: pairs.extend(len(batch) for batch in batches.epoch(0)))
        assert sum(pairs) == 4000
        return calls / len(pairs)

    sides = random_corpus(4000)
    assert calls_a_batch(512) < 80
    assert calls_a_batch(4096) < 80


def test_sequences_from_a_flat_array():
    flat = TokenSequences([[4], [], [5, 6, 7]])
    assert len(flat) == 3
    assert flat.pad(np.array([2, 0, 1]), 0).tolist() == [[5, 6, 7], [4, 0, 0], [0, 0, 0]]
    assert flat.pad(np.array([1, 0]), 0, first=1, last=9).tolist() == [[1, 9, 0], [1, 4, 9]]


@given(st.lists(sources, max_size=40), st.integers(1, 40))
def test_source_batches_hold_every_sentence_once(source_ids, budget):
    seen = []
    widths = []
    for indices, source, lengths in source_batches(source_ids, tokens_per_batch=budget, pad_id=PAD):
        assert len(indices) == 1 or source.size <= budget
        for row, length, i in zip(source, lengths, indices, strict=True):
            assert row[:length].tolist() == source_ids[i]
            assert (row[length:] == PAD).all()
        seen.extend(indices.tolist())
        widths.append(source.shape[1])
    assert sorted(seen) == list(range(len(source_ids)))
    assert widths == sorted(widths, reverse=True)


def test_sentences_that_are_too_long_are_refused_or_cut_off_with_a_warning():
    ids, texts = [[1, EOS], [4, 5, 6, EOS], [7, 8, 9, EOS]], ["a", "b c", "d e"]
    assert fit_lengths(ids, texts, 4, EOS, "error") == ids
    with pytest.raises(InputError, match=r"'b c' has 4 tokens; the model takes at most 3. Split it"):
        fit_lengths(ids, texts, 3, EOS, "error")
    with pytest.warns(UserWarning, match=r"'b c' has 4 tokens.* It was truncated.* 1 more were truncated too"):
        assert fit_lengths(ids, texts, 3, EOS, "truncate") == [[1, EOS], [4, 5, EOS], [7, 8, EOS]]


def test_neighbours_are_joined_to_documents() -> None:
    sources, targets = [[1] * 3, [2] * 2, [3] * 4, [4] * 20], [[1], [2] * 2, [3], [4]]
    assert join_neighbours(sources, targets, 8) == ([[1, 1, 1, 2, 2], [3] * 4, [4] * 7], [[1, 2, 2], [3], [4]])
    assert sources[0] == [1] * 3, "the given pairs do not change"


def test_bpe_dropout_splits_the_same_texts_into_other_tokens_in_every_epoch() -> None:
    texts = [" ".join(["lieber Bahnhof"] * n) for n in range(1, 9)] * 5
    tokenizer = BPETokenizer.train(texts, 300)
    longest = len(tokenizer.encode(texts[7])) + 1
    options = {"tokens_per_batch": 300, "seed": 0, "max_length": longest, **SPECIAL}
    batches = BPEDropoutBatches([(text, text) for text in texts], tokenizer, 0.3, **options)
    epochs = [list(batches.epoch(epoch)) for epoch in (0, 0, 1)]
    sources = [{batch.source.tobytes() for batch in epoch} for epoch in epochs]
    assert sources[0] == sources[1] != sources[2]
    assert [batch.source.tobytes() for batch in batches.epoch(0, 1)] == [b.source.tobytes() for b in epochs[0][1:]]
    assert sum(batch.source.size for batch in epochs[0]) > sum(map(len, tokenizer.encode_batch(texts)))
    for batch in epochs[2]:
        assert batch.source.shape[1] <= longest
        for row, length, i in zip(batch.source, batch.source_lengths, batch.indices, strict=True):
            assert tokenizer.decode(row[: length - 1]) == texts[i]
        for row, length, i in zip(batch.target_output, batch.target_lengths, batch.indices, strict=True):
            assert tokenizer.decode(row[: length - 1]) == texts[i]
