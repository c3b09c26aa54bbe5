"""Clean-up, prefetching, and the order of a curriculum."""

from __future__ import annotations

import threading

import pytest

from handloom.errors import InputError
from handloom.train.data.batches import TokenBatches, prefetch
from handloom.train.data.pairs import clean_pairs, title_case
from tests.support.small_run import small_batches


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
        assert clean_pairs(good).note() == ""


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

    def test_items_and_errors_come_in_their_order(self) -> None:
        def items():
            yield 1
            raise InputError("the disk is gone")

        assert list(prefetch(iter(range(100)), 3)) == list(range(100))
        found = prefetch(items(), 2)
        assert next(found) == 1
        with pytest.raises(InputError, match="the disk is gone"):
            next(found)

    def test_a_consumer_that_stops_ends_the_thread(self) -> None:
        before = threading.active_count()
        items = prefetch(iter(range(10**9)), 1)
        next(items)
        items.close()
        assert threading.active_count() == before


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
