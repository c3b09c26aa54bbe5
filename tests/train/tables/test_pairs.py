"""Tables of the reports on pairs of texts."""

from __future__ import annotations

import pytest

from handloom.train.tables.pairs import batch_rows, batch_samples, memory_rows


def test_best_and_worst_are_of_a_batch_that_the_seed_draws() -> None:
    references = [f"the old dog number {i} sleeps in the garden" for i in range(100)]
    written = [" ".join(text.split()[: 3 + i % 6]) for i, text in enumerate(references)]
    batches = [batch_samples(references, references, written, seed) for seed in (0, 0, 1)]
    assert batches[0] == batches[1] != batches[2]
    for best, worst in batches:
        assert best.hypothesis == written[best.index]
        assert len(best.hypothesis) > len(worst.hypothesis)
    assert [(row["which"], row["report"]) for row in batch_rows(batches[0])] == [("best", 75.98), ("worst", 8.25)]
    assert len(batch_rows(batch_samples(["a b"], ["a b"], ["a b"], 0))) == 1, "one pair has no worst"


def test_saved_memory_counts_gradients_once() -> None:
    rows = memory_rows([
        {"precision": "fp32", "kept": 40.0, "peak": 70.0}, {"precision": "fp16", "kept": 40.0, "peak": 30.0}
    ])  # fmt: skip
    assert rows[0]["saved"] is rows[0]["report"] is None
    assert rows[1]["saved"] == pytest.approx(0.4)
    assert rows[1]["report"] == 0.4
