"""Generators replay the same stream, and draw masks with the right distribution."""

import copy
import json
import pickle

import numpy as np
import pytest

from handloom.autograd import Generator, Tensor, default_generator, manual_seed, ops


def test_the_same_seed_gives_the_same_numbers() -> None:
    a, b, c = Generator(3), Generator(3), Generator(4)
    first = a.numpy.normal(size=10)
    np.testing.assert_array_equal(first, b.numpy.normal(size=10))
    assert not np.array_equal(first, c.numpy.normal(size=10))


def test_each_number_and_each_sequence_is_a_seed_of_its_own() -> None:
    seeds = [0, [0], [0, 0], [0, 0, 0, 0], [], 1, [1], [0, 1], [1, 0], 2**32, [2**32], 2**100, [12], [1, 2], 12]
    first = {Generator(seed).numpy.integers(1 << 62) for seed in seeds}
    assert len(first) == len(seeds)
    same = [Generator(seed).numpy.integers(1 << 62) for seed in ([3, 4], (3, 4), np.array([3, 4]))]
    assert len(set(same)) == 1
    assert Generator(np.int64(3)).numpy.integers(1 << 62) == Generator(3).numpy.integers(1 << 62)
    assert Generator(7)._bits.random_raw() == np.random.SFC64(7).random_raw()  # runs that were made before stay
    for wrong in (1.5, "a", None, [0.5]):
        with pytest.raises(TypeError, match="Generator: the seed must be an integer or several integers, not"):
            Generator(wrong)
    for negative in (-1, [1, -1]):
        with pytest.raises(ValueError, match="can't be negative"):
            manual_seed(negative)


def test_a_state_is_plain_data_and_replays() -> None:
    generator = Generator(1)
    generator.keep_mask((3,), 0.5)
    generator.numpy.integers(0, 10, dtype=np.uint32)  # leaves half a random word in the buffer
    state = json.loads(json.dumps(generator.get_state()))

    def draw(g):
        return g.keep_mask((50,), 0.3)[0], g.numpy.normal(size=5), g.numpy.integers(0, 100, 7, dtype=np.uint32)

    expected = draw(generator)
    other = Generator(99)
    other.set_state(state)
    np.testing.assert_equal(expected, draw(other))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_a_copy_goes_on_by_itself(duplicate) -> None:
    generator = Generator(1)
    generator.keep_mask((3,), 0.5)
    other = duplicate(generator)
    assert other.numpy.random() == generator.numpy.random()
    other.numpy.random()
    assert other.get_state() != generator.get_state()


def test_numpys_methods_draw_from_the_same_stream() -> None:
    a, b = Generator(3).numpy, np.random.Generator(np.random.SFC64(3))
    assert isinstance(a, np.random.Generator)
    assert np.random.default_rng(a) is a
    for _ in range(2):
        np.testing.assert_array_equal(a.permutation(9), b.permutation(9))
        assert a.choice([5, 6, 7]) == b.choice([5, 6, 7])
        assert a.integers(10, dtype=np.uint32) == b.integers(10, dtype=np.uint32)


@pytest.mark.parametrize("state", [{}, {"bit_generator": "PCG64"}, {"bit_generator": "SFC64", "state": [1, 2]}])
def test_a_foreign_state_is_refused(state) -> None:
    with pytest.raises(ValueError, match="not the state of an SFC64 generator"):
        Generator().set_state(state)


def test_manual_seed_seeds_the_default_generator() -> None:
    manual_seed(5)
    first = ops.dropout(Tensor(np.ones(100)), 0.5).data
    second = ops.dropout(Tensor(np.ones(100)), 0.5).data
    manual_seed(5)
    np.testing.assert_array_equal(ops.dropout(Tensor(np.ones(100)), 0.5).data, first)
    assert not np.array_equal(first, second)
    assert default_generator.get_state() != Generator(5).get_state()


@pytest.mark.parametrize("drop", [0.0, 0.1, 0.5, 0.9, 1.0, 1e-9, 1 - 1e-9])
def test_masks_have_the_right_rate_and_keep_expectations(drop) -> None:
    mask, scale = Generator(0).keep_mask((300, 400), drop)
    assert mask.shape == (300, 400)
    assert mask.dtype == bool
    kept = 1 - round(drop * 65536) / 65536
    assert mask.mean() == pytest.approx(kept, abs=5 * np.sqrt(kept * (1 - kept) / mask.size) + 1e-12)
    assert scale * kept == (1.0 if kept else 0.0)


def test_neighbouring_elements_are_independent() -> None:
    mask = Generator(0).keep_mask((200_000,), 0.5)[0].astype(float) - 0.5
    for lag in (1, 2, 3, 4, 8):
        assert abs((mask[lag:] * mask[:-lag]).mean() * 4) < 5 / np.sqrt(mask.size)
