"""Test the encoder-decoder model: padding has no effect, the future is hidden, and gradients are correct."""

import numpy as np
import pytest

from handloom.autograd import Tensor, manual_seed, ops
from handloom.autograd.gradcheck import gradcheck
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer
from tests.support.derivatives import Computed

SMALL = {"d_model": 8, "nhead": 2, "encoder_layers": 1, "decoder_layers": 2, "dim_feedforward": 12, "max_length": 20}


def build(seed: int = 0, dtype=np.float64, **options) -> Seq2SeqTransformer:
    manual_seed(seed)
    config = {"source_vocab_size": 11, "target_vocab_size": 9, "dropout": 0.0, **SMALL, **options}
    return Seq2SeqTransformer(Seq2SeqConfig(**config)).astype(dtype)


def random_ids(rng: np.random.Generator, batch: int, length: int, vocabulary: int) -> np.ndarray:
    return rng.integers(4, vocabulary, (batch, length))


def test_padding_changes_nothing() -> None:
    model, rng = build(), np.random.default_rng(0)
    source, target = random_ids(rng, 1, 4, 11), random_ids(rng, 1, 3, 9)
    alone = model(source, target).data
    longer = np.concatenate([source, np.zeros((1, 5), int)], axis=1)
    batch = np.concatenate([longer, random_ids(rng, 1, 9, 11)])
    targets = np.concatenate([target, target])
    np.testing.assert_allclose(model(batch, targets).data[:1], alone, rtol=1e-12)


def test_a_position_does_not_see_its_future() -> None:
    model, rng = build(), np.random.default_rng(1)
    source, target = random_ids(rng, 2, 5, 11), random_ids(rng, 2, 6, 9)
    before = model(source, target).data
    target[:, 4:] = 4 + (target[:, 4:] - 3) % 5
    after = model(source, target).data
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert not np.allclose(before[:, 4:], after[:, 4:])


@pytest.mark.parametrize("tied", [False, True])
def test_gradients_of_the_whole_model(tied: bool) -> None:
    options = {"source_vocab_size": 9, "share_embeddings": True, "tie_output": True} if tied else {}
    model, rng = build(**options), np.random.default_rng(3)
    source, target = random_ids(rng, 2, 3, 9), random_ids(rng, 2, 4, 9)
    source[1, 2] = 0

    def loss() -> Tensor:
        logits = model(source, target[:, :-1])
        return ops.cross_entropy(logits, target[:, 1:], ignore_index=0, label_smoothing=0.1)

    assert gradcheck(Computed(model, loss), [], max_entries=2)


def test_shared_and_tied_tables_are_one_parameter() -> None:
    model = build(source_vocab_size=9, share_embeddings=True, tie_output=True)
    assert model.source_embedding is model.target_embedding
    assert model.output.weight is model.target_embedding.weight
    names = [name for name, _ in model.named_parameters()]
    assert "output.weight" not in names
    with pytest.raises(ValueError, match="share_embeddings needs equal vocabularies, not 11 and 9"):
        build(share_embeddings=True)


def test_new_encoder_layers_do_not_change_the_output_until_they_are_trained() -> None:
    model, rng = build(norm_first=True, dtype=np.float32), np.random.default_rng(5)
    source, target = random_ids(rng, 2, 5, 11), random_ids(rng, 2, 6, 9)
    before = model(source, target)
    model.add_encoder_layers(2)
    after = model(source, target)
    np.testing.assert_array_equal(after.data, before.data)
    (after * after).sum().backward()
    assert all(layer.linear2.weight.grad.any() for layer in model.encoder.layers)
    assert model.config.encoder_layers == len(model.encoder.layers) == 3
    with pytest.raises(ValueError, match="only a model with norm_first=True can get new layers"):
        build().add_encoder_layers(1)


def test_limits_are_explained() -> None:
    model = build()
    with pytest.raises(ValueError, match="21 tokens is longer than the 20 positions"):
        model(np.ones((1, 21), int), np.ones((1, 2), int))
    with pytest.raises(IndexError, match="id 11 is outside the table of 11 rows"):
        model(np.full((1, 2), 11), np.ones((1, 2), int))


def test_class_weights_in_a_list() -> None:
    model, ids, weights = build(), np.array([[4, 5, 6]]), [1, 1, 1, 1, 2, 1, 1, 1, 1]
    loss = ops.cross_entropy(model(ids, ids), ids, weight=weights, ignore_index=0)
    assert model.loss(ids, ids, ids, class_weight=weights).item() == pytest.approx(loss.item(), rel=1e-12)
