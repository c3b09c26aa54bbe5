"""Test that the mixture of generating and copying follows the paper, and that its gradients are correct."""

from functools import partial

import numpy as np
import pytest

from handloom.autograd import Tensor, no_grad, ops
from handloom.autograd.gradcheck import gradcheck
from handloom.errors import InputError
from handloom.models import Seq2SeqConfig, pretrained
from handloom.models.copying import copied_shares, copy_logits, coverage_loss
from tests.support.decoding import build, random_source
from tests.support.derivatives import Computed

SOURCE = np.array([[3, 1, 3, 3, 2], [4, 6, 4, 0, 0]])  # repeated tokens, and padding


def inputs(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return logits over 7 tokens, gates and attention weights for 2 sentences of 4 tokens."""
    rng = np.random.default_rng(seed)
    weights = rng.random((2, 4, 5)) * (SOURCE != 0)[:, None]
    return rng.normal(size=(2, 4, 7)), rng.normal(size=(2, 4, 1)), weights / weights.sum(axis=-1, keepdims=True)


def plain_mixture(logits: np.ndarray, gate: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute P(w) = p v(w) + (1 - p) sum of a_i over the source positions with token w, in a loop."""
    p = 1 / (1 + np.exp(-gate))
    mixed = p * np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    for b, t, i in np.ndindex(weights.shape):
        mixed[b, t, SOURCE[b, i]] += (1 - p[b, t, 0]) * weights[b, t, i]
    return mixed


def test_it_is_the_mixture_of_the_paper() -> None:
    logits, gate, weights = inputs()
    found = ops.softmax(copy_logits(Tensor(logits), Tensor(gate), Tensor(weights), SOURCE)).data
    np.testing.assert_allclose(found, plain_mixture(logits, gate, weights), rtol=1e-12)


def test_what_is_not_copied_leaves_its_share_to_the_others() -> None:
    logits, gate, weights = inputs()
    found = ops.softmax(copy_logits(*map(Tensor, (logits, gate, weights)), SOURCE, 3)).data
    expected = plain_mixture(logits, gate, weights * (SOURCE != 3)[:, None])
    np.testing.assert_allclose(found, expected / expected.sum(axis=-1, keepdims=True), rtol=1e-12)
    shares = copied_shares(*map(Tensor, (logits, gate, weights)), SOURCE, np.array([[3, 1, 3, 2], [4] * 4]), 3)
    np.testing.assert_array_equal(shares[0, [0, 2]], 0)
    assert 0 < shares[0, 1, 1] < 1


def test_gradients_of_the_mixture() -> None:
    """Check the gradients of the logits, and of a loss with label smoothing and coverage."""
    assert gradcheck(lambda *operands: copy_logits(*operands, SOURCE), list(inputs()))
    target = np.array([[3, 5, 2, 0], [6, 1, 0, 0]])

    def loss(*operands: Tensor) -> Tensor:
        mixed = copy_logits(*operands, SOURCE)
        nats = ops.cross_entropy(mixed, target, ignore_index=0, label_smoothing=0.1)
        return nats + 0.5 * coverage_loss(operands[2], target != 0)

    assert gradcheck(loss, list(inputs(1)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_nothing_overflows(dtype) -> None:
    """Loss and gradients are finite for extreme gates and for tokens that are nearly impossible to generate or copy."""
    for scale, size in ((1e4, 1), (30, 500), (30, -500)):
        logits, gate, weights = inputs()
        weights[0, :, 1], weights[0, :, 4] = 1e-30, 0
        logits, gate, weights = (x.astype(dtype) for x in (logits * scale, gate * 0 + size, weights))
        operands = [Tensor(x, requires_grad=True) for x in (logits, gate, weights)]
        mixed = copy_logits(*operands, SOURCE)
        assert mixed.dtype == np.float32
        loss = ops.cross_entropy(mixed, np.array([[3, 1, 2, 5]] * 2), label_smoothing=0.1)
        loss.backward()
        assert np.isfinite(loss.data)
        assert all(np.isfinite(x.grad).all() for x in operands)


def test_coverage_counts_what_was_looked_at_before() -> None:
    weights, counted = inputs()[2], np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)
    expected = 0.0
    for b, t in zip(*np.nonzero(counted), strict=True):
        expected += np.minimum(weights[b, t], weights[b, :t].sum(axis=0)).sum()
    np.testing.assert_allclose(coverage_loss(Tensor(weights), counted).data, expected / 6)
    once = np.eye(4)[None]  # each source token gets attention in one step
    assert coverage_loss(Tensor(once), np.ones((1, 4), bool)).data == 0


def test_what_was_copied_is_the_part_of_copying_in_the_mixture() -> None:
    logits, gate, weights = inputs()
    written = np.array([[3, 1, 5, 2], [6, 4, 4, 5]])
    shares = copied_shares(*map(Tensor, (logits, gate, weights)), SOURCE, written)
    mixed, p = plain_mixture(logits, gate, weights), 1 / (1 + np.exp(-gate))
    for b, t, i in np.ndindex(shares.shape):
        token = written[b, t]
        of_source = (1 - p[b, t, 0]) * weights[b, t, i] * (SOURCE[b, i] == token)
        np.testing.assert_allclose(shares[b, t, i], of_source / mixed[b, t, token], atol=1e-12)


def test_the_loss_of_the_model_and_its_gradients() -> None:
    """With label smoothing and padding, the loss is that of the logits of `forward`; gradients include coverage."""
    model, rng = build(0, copy=True, share_embeddings=True).train(), np.random.default_rng(0)
    source, target = random_source(rng, [3, 5]), random_source(rng, [4, 3])
    labels = np.array([[5, 4, 6, 3], [7, 3, 0, 0]])
    plain = ops.cross_entropy(model(source, target), labels, ignore_index=0, label_smoothing=0.1)
    np.testing.assert_allclose(model.loss(source, target, labels, label_smoothing=0.1).data, plain.data, rtol=1e-12)
    loss = partial(model.loss, source, target, labels, label_smoothing=0.1, coverage=0.7)
    lists = (ids.tolist() for ids in (source, target, labels))
    assert model.loss(*lists, label_smoothing=0.1, coverage=0.7).item() == loss().item()
    assert gradcheck(Computed(model, loss), [], max_entries=2)


def test_where_copying_makes_no_sense(tmp_path) -> None:
    with pytest.raises(ValueError, match="copy needs equal vocabularies, not 9 and 8 ids"):
        Seq2SeqConfig(9, 8, copy=True)
    model = build(0, copy=True)
    assert Seq2SeqConfig(**model.config.to_dict()) == model.config
    with pytest.raises(ValueError, match="needs the argument source"), no_grad():
        model.decode(np.array([[2]]), *model.encode(np.array([[4, 5]])))
    with pytest.raises(ValueError, match="coverage needs a copying model"):
        build(0).loss(SOURCE, SOURCE, SOURCE, coverage=1.0)
    with pytest.raises(InputError, match=r"can't be saved as Marian: .*copy is True; only False"):
        pretrained.save(model.astype(np.float32), None, tmp_path / "marian")
