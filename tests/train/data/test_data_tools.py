"""Clean-up, prefetching, the token cache, and the order of a curriculum."""

from __future__ import annotations

import threading
import tracemalloc

import numpy as np
import pytest

from handloom.errors import InputError
from handloom.tokenizer import BPETokenizer
from handloom.train.data.batches import TokenBatches, TokenSequences
from handloom.train.data.cleaning import clean_pairs, title_case
from handloom.train.data.prefetch import prefetch
from handloom.train.data.token_cache import cache_tokens, file_key
from tests.support.small_run import small_batches

TEXTS = [f"Satz {number} von {number % 7} über Hunde." for number in range(500)]


class TestCleaning:
    def test_every_reason_is_counted_and_good_pairs_stay_in_order(self) -> None:
        good = [("Der Hund läuft.", "The dog runs."), ("Ja.", "Yes, of course I do."), ("Berlin", "Berlin")]
        bad = {
            "with an empty side": (" ", "The dog."),
            "not translated": ("The dog is here.", "the dog is here."),
            "with broken characters": ("Der H\N{REPLACEMENT CHARACTER}nd", "The dog"),
            "longer than 10 words": ("wort " * 11, "word " * 11),
            "with lengths 3 times apart": ("Der Hund.", "The dog that we saw in the park."),
            "with few letters": ("12 | 34 | 56", "12 | 34 | 56 |"),
            "repeated": good[0],
        }
        cleaned = clean_pairs([*good, *bad.values(), bad["with an empty side"]], max_words=10)
        assert cleaned.pairs == good
        assert cleaned.dropped == {reason: 2 if reason == "with an empty side" else 1 for reason in bad}
        assert cleaned.note().startswith("Clean-up dropped 8 of 11 pairs: 2 with an empty side, 1 not translated")

    def test_nothing_to_say(self) -> None:
        assert clean_pairs([("Hund", "dog")]).note() == ""


@pytest.mark.parametrize(
    ("text", "titled"),
    [
        ("they don't, he says, 'know'", "They Don't, He Says, 'Know'"),
        ("the GOP’s “pro-life” e-mails", "The GOP’s “Pro-Life” E-Mails"),
        ("über 20 ängste in 5g, u.s. _ok_", "Über 20 Ängste In 5g, U.S. _ok_"),
        ("", ""),
    ],
)
def test_title_case(text: str, titled: str) -> None:
    assert title_case(text) == title_case(titled) == titled


class TestPrefetch:
    def test_the_same_items_in_the_same_order(self) -> None:
        assert list(prefetch(iter(range(100)), 3)) == list(range(100))

    def test_items_are_made_ahead_but_not_more_than_depth(self) -> None:
        made: list[int] = []
        fourth = threading.Event()

        def numbers():
            for i in range(100):
                made.append(i)
                if len(made) == 4:
                    fourth.set()
                yield i

        items = prefetch(numbers(), 2)
        next(items)
        assert fourth.wait(300), "one is out, two wait, one is in the thread's hand"
        items.close()
        assert len(made) == 4, "and there it stays until the next is taken"

    def test_errors_come_through_in_their_place(self) -> None:
        def items():
            yield 1
            raise InputError("the disk is gone")

        found = prefetch(items())
        assert next(found) == 1
        with pytest.raises(InputError, match="the disk is gone"):
            next(found)

    def test_a_consumer_that_stops_ends_the_thread(self) -> None:
        before = threading.active_count()
        items = prefetch(iter(range(10**9)), 1)
        next(items)
        items.close()
        assert threading.active_count() == before
        with pytest.raises(ValueError, match="at least 1"):
            prefetch([], 0)


@pytest.fixture(scope="module")
def tokenizer() -> BPETokenizer:
    return BPETokenizer.train(TEXTS, 300)


class TestTokenCache:
    def test_it_holds_the_same_ids_and_is_not_made_twice(self, tokenizer, tmp_path) -> None:
        made = cache_tokens(tmp_path / "c", iter(TEXTS), tokenizer, key="a", add_eos=True, at_once=64)
        plain = TokenSequences.from_lists(tokenizer.encode_batch(TEXTS, add_eos=True))
        for _ in range(2):
            np.testing.assert_array_equal(made.tokens, plain.tokens)
            np.testing.assert_array_equal(made.offsets, plain.offsets)
            assert isinstance(made.tokens, np.memmap)

            def untouched():
                raise AssertionError("the texts were read again")
                yield

            made = cache_tokens(tmp_path / "c", untouched(), tokenizer, key="a", add_eos=True)

    def test_batches_from_it_are_those_from_memory(self, tokenizer, tmp_path) -> None:
        cached = cache_tokens(tmp_path / "c", TEXTS, tokenizer, key="a")
        lists = tokenizer.encode_batch(TEXTS)
        options = {"tokens_per_batch": 200, "seed": 1, "pad_id": 0, "bos_id": 1, "eos_id": 2}
        one, other = TokenBatches(cached, cached, **options), TokenBatches(lists, lists, **options)
        assert one.fingerprint() == TokenBatches(cached, cached, **options).fingerprint()
        for batch, same in zip(one.epoch(1), other.epoch(1), strict=True):
            np.testing.assert_array_equal(batch.target_output, same.target_output)

    def test_other_texts_tokenizers_and_options_make_it_anew(self, tokenizer, tmp_path) -> None:
        cache_tokens(tmp_path / "c", TEXTS, tokenizer, key="a")
        assert len(cache_tokens(tmp_path / "c", TEXTS[:3], tokenizer, key="b")) == 3
        assert len(cache_tokens(tmp_path / "c", TEXTS[:4], tokenizer, key="b", add_eos=True)) == 4
        other = BPETokenizer.train(TEXTS, 280)
        assert len(cache_tokens(tmp_path / "c", TEXTS[:5], other, key="b", add_eos=True)) == 5

    @pytest.mark.parametrize("damage", ["tokens.bin", "offsets.bin", "cache.json"])
    def test_a_damaged_one_is_made_anew(self, tokenizer, tmp_path, damage) -> None:
        cache_tokens(tmp_path / "c", TEXTS, tokenizer, key="a")
        path = tmp_path / "c" / damage
        path.write_bytes(path.read_bytes()[:-9])
        assert len(cache_tokens(tmp_path / "c", TEXTS, tokenizer, key="a")) == len(TEXTS)

    def test_the_corpus_is_never_whole_in_memory(self, tokenizer, tmp_path) -> None:
        tracemalloc.start()
        cached = cache_tokens(tmp_path / "c", (TEXTS[i % 500] for i in range(10_000)), tokenizer, key="a", at_once=500)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(cached) == 10_000
        assert peak < 1_500_000, "a list of the ids alone would take three times as much"

    def test_a_key_for_a_file(self, tmp_path) -> None:
        path = tmp_path / "text"
        path.write_text("a")
        before = file_key(path)
        path.write_text("ab")
        assert file_key(path) != before


def test_a_curriculum_goes_from_short_to_long_at_first() -> None:
    def lengths(batches: TokenBatches, epoch: int) -> list[int]:
        return [batch.source.shape[1] for batch in batches.epoch(epoch)]

    plain = small_batches()
    taught = TokenBatches(
        plain.source, plain.target, tokens_per_batch=110, seed=5, pad_id=0, bos_id=1, eos_id=2, curriculum=2
    )
    for epoch in (0, 1):
        assert lengths(taught, epoch) == sorted(lengths(plain, epoch))
    assert lengths(taught, 2) != sorted(lengths(taught, 2))
    members = [next(taught.epoch(epoch)).indices.tolist() for epoch in (0, 1)]
    assert members[0] != members[1], "batches have new members in each epoch"
    assert taught.fingerprint() != plain.fingerprint()
