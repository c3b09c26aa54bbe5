"""`attention_maps` collects the attention weights of a model, computed by any method."""

import numpy as np
import pytest

from handloom.autograd import Tensor, no_grad
from handloom.nn import MultiHeadAttention, Sequential, attention_maps
from tests.support.decoding import BOS, build


@pytest.mark.parametrize("method", ["standard", "blocked"])
def test_every_layer_and_head(method: str) -> None:
    model = build(0, layers=2)
    for module in model.modules():
        if hasattr(module, "method"):
            module.method = method
    source, target = np.array([[4, 5, 6, 7], [8, 5, 0, 0]]), np.array([[BOS, 5, 6], [BOS, 7, 4]])
    with no_grad():
        plain = model(source, target).data
        with attention_maps(model) as maps:
            mapped = model(source, target).data
    np.testing.assert_allclose(mapped, plain, rtol=1e-9, atol=1e-12)
    shapes = {name: weights[0].shape for name, weights in maps.items()}
    assert shapes == {
        "encoder.layers.0.self_attn": (2, 2, 4, 4),
        "decoder.layers.0.self_attn": (2, 2, 3, 3),
        "decoder.layers.0.multihead_attn": (2, 2, 3, 4),
        "decoder.layers.1.self_attn": (2, 2, 3, 3),
        "decoder.layers.1.multihead_attn": (2, 2, 3, 4),
    }
    for weights in maps.values():
        np.testing.assert_allclose(weights[0].sum(axis=-1), 1, rtol=1e-9)
    for layer in (0, 1):
        own = maps[f"decoder.layers.{layer}.self_attn"][0]
        assert not own[:, :, np.triu(np.ones((3, 3), bool), 1)].any()
        found = maps[f"decoder.layers.{layer}.multihead_attn"][0]
        assert not found[1, :, :, 2:].any()
    model(source, target)
    assert all(len(weights) == 1 for weights in maps.values()), "nothing is kept outside the with block"


def test_a_layer_that_is_used_twice_has_its_first_name() -> None:
    layer = MultiHeadAttention(4, 2)
    with attention_maps(Sequential(layer, layer)) as maps:
        Sequential(layer, layer)(Tensor(np.ones((1, 3, 4), np.float32)))
    assert {name: len(weights) for name, weights in maps.items()} == {"0": 2}


def test_training_mode_is_refused() -> None:
    model = build(0, layers=1)
    model.decoder.layers[0].self_attn.dropout = 0.1
    model.train()
    with pytest.raises(ValueError, match=r"decoder.layers.0.self_attn is in training mode"), attention_maps(model):
        pass
