"""What is counted as the same text."""

from __future__ import annotations

from benchmarks.data_overlap import overlap, size_row


def test_texts_are_compared_by_their_letters() -> None:
    assert overlap(["Go on!", "Los, Äh 2", "Stop."], ["go ON", "losäh", "Stop it."]) == 2


def test_overlaps_are_shares_of_the_held_out_part() -> None:
    row = size_row(["A b.", "c"], ["a B", "d"], ["e", "f", "C", "g"])
    assert (row["valid_overlap"], row["test_overlap"], row["words"]) == (0.5, 0.25, 1.5)
