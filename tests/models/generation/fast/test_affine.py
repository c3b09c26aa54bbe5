"""The products of a decoding step, in blocks and not, on any number of threads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.models.generation.fast import affine
from handloom.models.generation.fast.affine import PackedAffine, pack

pytestmark = pytest.mark.usefixtures("restored_threads")


@given(
    rows=st.sampled_from([1, 2, 7, 32, 129]),
    sizes=st.lists(st.tuples(st.sampled_from([1, 8, 64]), st.sampled_from([1, 31, 32, 33, 200])), min_size=1),
    bias=st.booleans(),
    relu=st.booleans(),
    in_place=st.booleans(),
    small=st.sampled_from([1, 10_000, affine.SMALL]),
    seed=st.integers(0, 100),
)
def test_packed_products_are_the_products(rows, sizes, bias, relu, in_place, small, seed) -> None:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(out, features)) for features, out in sizes]
    biases = [rng.normal(size=out) if bias else None for _, out in sizes]
    layers = [PackedAffine(w, b) for w, b in zip(weights, biases, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(affine, "reads_in_place", lambda: in_place)
        patch.setattr(affine, "SMALL", small)
        pack(layers)
        assert all((layer.blocks is not None) == in_place for layer in layers)
        for layer, weight, b in zip(layers, weights, biases, strict=True):
            x = rng.normal(size=(rows, weight.shape[1]))
            expected = x @ weight.T + (0 if b is None else b)
            expected = np.maximum(expected, 0) if relu else expected
            np.testing.assert_allclose(layer(x, relu=relu), expected, rtol=1e-10, atol=1e-12)
            buffer = layer.buffer(rows)
            for fewer in (rows, (rows + 1) // 2):  # the memory of a step serves later, smaller ones
                found = layer(x[:fewer], buffer, relu=relu)
                assert np.shares_memory(found, buffer)
                np.testing.assert_allclose(found, expected[:fewer], rtol=1e-10, atol=1e-12)
