"""Work in parts: each element once, whatever the number of threads, and the same result."""

from __future__ import annotations

import numpy as np
import pytest

from handloom.models import Rules, beam_search
from handloom.models.generation import threads, top
from handloom.models.generation.threads import in_parts
from tests.support.decoding import BOS, EOS, build, random_source


@pytest.fixture
def three_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "thread_count", lambda: 3)
    monkeypatch.setattr(top, "CHUNK", 1)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 10])
@pytest.mark.parametrize("smallest", [1, 4])
def test_every_element_is_worked_on_once(three_threads, length: int, smallest: int) -> None:
    counts, sizes = np.zeros(length, int), []

    def work(part: slice) -> None:
        counts[part] += 1
        sizes.append(part.stop - part.start)

    in_parts(work, length, smallest)
    assert (counts == 1).all()
    assert len(sizes) == max(min(3, length // smallest), 1)
    assert len(sizes) == 1 or min(sizes) >= smallest


def test_an_error_in_a_part_is_raised(three_threads) -> None:
    def work(part: slice) -> None:
        if part.start:
            raise ValueError("a part failed")

    with pytest.raises(ValueError, match="a part failed"):
        in_parts(work, 9, 1)


def test_threads_change_no_result(request) -> None:
    model, source = build(3, layers=2, vocabulary=600), random_source(np.random.default_rng(0), [3, 6, 2, 5, 1], 600)
    rules = Rules(BOS, EOS, max_length=8)
    alone = beam_search(model.start(source), rules, width=3, n_best=2)
    request.getfixturevalue("three_threads")
    assert beam_search(model.start(source), rules, width=3, n_best=2) == alone


def test_the_count_is_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "5")
    assert threads.thread_count.__wrapped__() == 5
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert threads.thread_count.__wrapped__() >= 1
