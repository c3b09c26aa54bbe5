"""Compare attention methods with float64; the plain method's error in the same precision bounds their errors."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.autograd import Generator, Tensor, ops
from handloom.autograd.ops.attention_blocked import BlockedAttention
from tests.support.attention_cases import LENGTHS, RESTRICTIONS, WIDTHS, Case


@given(
    seed=st.integers(0, 2**32),
    lengths=st.sampled_from(LENGTHS),
    widths=st.sampled_from(WIDTHS),
    chosen=st.frozensets(st.sampled_from(RESTRICTIONS)),
    block_size=st.sampled_from([None, 1000, 64, 37]),
    dtype=st.sampled_from([np.float32, np.float16]),
)
def test_blocked_is_as_good_as_the_plain_path(seed, lengths, widths, chosen, block_size, dtype) -> None:
    Case(seed, lengths, widths, chosen).check(dtype, method="blocked", block_size=block_size)


@given(
    seed=st.integers(0, 2**32),
    lengths=st.sampled_from(LENGTHS[:6]),
    chosen=st.frozensets(st.sampled_from(RESTRICTIONS)),
    block_size=st.sampled_from([None, 7, 16]),
)
def test_dropout_falls_on_the_same_weights_in_both_directions(seed, lengths, chosen, block_size) -> None:
    """The gradient equals the gradient of the composed ops with the dropout mask that the blocks draw."""
    case = Case(seed, lengths, (5, 6), chosen)
    case.check_dropout(np.float64, 0.3, device="cpu", method="blocked", block_size=block_size)


@pytest.mark.parametrize(
    ("options", "share"),
    [({}, 16), ({"causal": True}, 10), ({"window": 7}, 10), ({"causal": True, "window": 7}, 7), ({"lengths": 8}, 4)],
)
def test_blocks_that_see_nothing_are_skipped(options, share, monkeypatch) -> None:
    formed = []
    original = BlockedAttention.scores
    monkeypatch.setattr(BlockedAttention, "scores", lambda *args: formed.append(args) or original(*args))
    x = Tensor(np.random.default_rng(0).standard_normal((1, 1, 32, 4)), requires_grad=True)
    lengths = {"key_lengths": np.array([options.pop("lengths")])} if "lengths" in options else {}
    out = ops.attention(x, x, x, **options, **lengths, method="blocked", block_size=8)
    assert len(formed) == share  # of 16 blocks
    out.backward(np.ones(out.shape))
    assert len(formed) == 2 * share


def peak_memory(length: int, method: str) -> int:
    x = Tensor(np.zeros((1, 2, length, 8), np.float32), requires_grad=True)
    g = np.zeros(x.shape, np.float32)
    tracemalloc.start()
    try:
        ops.attention(x, x, x, causal=True, dropout=0.1, method=method, generator=Generator(0)).backward(g)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_grows_with_the_length_and_not_its_square() -> None:
    short, long = peak_memory(1024, "blocked"), peak_memory(4096, "blocked")
    assert long - short < 3 * 9 * (4096 - 1024) * 2 * 8 * 4  # three times nine arrays of the input's size
    assert long < 2 * 4096 * 4096 * 4 / 8  # an eighth of the attention weights
    assert peak_memory(1024, "standard") > 2 * 1024 * 1024 * 4


def test_auto_takes_blocks_for_long_sequences() -> None:
    def kind(length: int) -> str:
        x = Tensor(np.zeros((1, 1, length, 2), np.float32), requires_grad=True)
        origin = ops.attention(x, x, x)._origin
        return origin.node.name

    assert (kind(64), kind(1024)) == ("StandardAttention", "BlockedAttention")


@pytest.mark.parametrize("method", ["standard", "blocked"])
@pytest.mark.parametrize("kind", ["mask", "bias"])
@pytest.mark.parametrize("shape", [(1, 1, 8, 8), (2, 1, 4, 4), (2, 4), (1, 3, 2, 4, 4)])
def test_a_mask_or_bias_that_does_not_broadcast_is_refused(method, kind, shape) -> None:
    """Without the check, the blocks would use only a corner of a mask or bias that is too large."""
    x = Tensor(np.zeros((3, 2, 4, 5)))
    restriction = {kind: np.ones(shape, bool if kind == "mask" else float)}
    with pytest.raises(ValueError, match=rf"the {kind} of shape .* does not broadcast to \(3, 2, 4, 4\)"):
        ops.attention(x, x, x, method=method, **restriction)


@pytest.mark.parametrize("method", ["standard", "blocked"])
def test_a_hidden_key_may_be_infinite(method) -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 2)).astype(np.float32)
    key = np.where(np.arange(4)[:, None] == 3, np.float32([np.inf, -np.inf]), x)
    with np.errstate(invalid="ignore"):
        outs = [ops.attention(x, k, x, causal=True, method=method).data[:, :, :3] for k in (x, key)]
    np.testing.assert_array_equal(*outs)
