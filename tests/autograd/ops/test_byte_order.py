"""Arrays whose bytes stand in the other order, as files may hold them: taken everywhere, and turned on entry."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import Tensor, grad, no_grad
from handloom.autograd.catalogue import CATALOGUE


def swapped(value: Any) -> Any:
    """The same numbers with their bytes in the other order."""
    if isinstance(value, np.ndarray):
        return value.astype(value.dtype.newbyteorder("S"))
    return type(value)(map(swapped, value)) if isinstance(value, tuple | list) else value


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_op_takes_both_orders(name: str) -> None:
    """As leaves, as plain operands, as indices and masks, and as output gradients: the same bits either way."""
    spec = CATALOGUE[name]
    for number, sample in enumerate(spec.samples(np.random.default_rng(zlib.crc32(name.encode())), count=8)):
        results = []
        for changed in (lambda value: value, swapped):
            args, leaves = [changed(a) for a in sample.args], []
            for i in (sample.differentiable or ())[number % 2 :]:
                args[i] = Tensor(args[i], requires_grad=True)
                leaves.append(args[i])
            result = spec.function(*args, **{key: changed(value) for key, value in sample.kwargs.items()})
            outputs = list(result) if isinstance(result, tuple | list) else [result]
            recorded = [out for out in outputs if out.requires_grad]
            cotangents = [changed(np.random.default_rng(0).normal(size=out.shape)) for out in recorded]
            found = grad(recorded, leaves, cotangents) if recorded else []
            results.append([tensor.data for tensor in (*outputs, *found)])
        for own, other in zip(*results, strict=True):
            assert own.dtype == other.dtype
            np.testing.assert_array_equal(own, other)


def test_a_dtype_in_the_other_order_means_the_machines_own() -> None:
    foreign = np.dtype(np.float32).newbyteorder("S")
    assert Tensor([1.0, 2.0], dtype=foreign).dtype == np.float32
    assert Tensor([1.0]).astype(foreign).dtype == np.float32
    assert Tensor(np.ones(2, foreign)).dtype == np.float32
    assert nn.Linear(2, 3).astype(foreign).weight.dtype == np.float32


def test_what_is_set_and_loaded_is_turned_too() -> None:
    x = Tensor(np.zeros(3), requires_grad=True)
    with no_grad():
        x[:2] = swapped(np.array([1.0, 2.0]))
    y = x * 1
    y[swapped(np.array([0, 2]))] = swapped(np.array([5.0, 6.0]))
    assert y.data.tolist() == [5, 2, 6]
    assert (y < swapped(np.array([6.0, 1.0, 7.0]))).data.tolist() == [True, False, True]
    layer = nn.Linear(2, 1)
    weight, bias = np.array([[1.0, 2.0]], np.float32), np.ones(1, np.float32)
    layer.load_state_dict({"weight": swapped(weight), "bias": swapped(bias)})
    out = layer(Tensor(swapped(np.array([[3.0, 4.0]], np.float32))))
    out.backward(swapped(np.ones((1, 1), np.float32)))
    assert (out.item(), layer.weight.dtype, layer.weight.grad.tolist()) == (12, np.float32, [[3, 4]])
