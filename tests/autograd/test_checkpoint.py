"""Activation checkpointing: the same bits, less memory, dropout drawn again."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import (
    Generator,
    Parameter,
    Tensor,
    checkpoint,
    default_generator,
    grad,
    manual_seed,
    no_grad,
    ops,
)
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer

RNG = np.random.default_rng(0)
X, OUT = (RNG.normal(size=(8, 40, 32)).astype(np.float32) for _ in range(2))


def encoder_pass(on: bool) -> tuple[list[np.ndarray], int, int]:
    """Output and all gradients of six layers with dropout; bytes held before the backward pass, and at most."""
    manual_seed(0)
    stack = nn.TransformerEncoder(
        [nn.TransformerEncoderLayer(32, 4, 128, 0.2, norm_first=True) for _ in range(6)], nn.LayerNorm(32)
    ).train()
    assert nn.checkpoint_activations(stack, on) == 1
    x = Tensor(X.copy(), requires_grad=True)
    manual_seed(1)
    tracemalloc.start()
    y = stack(x, lengths=np.arange(33, 41))
    held = tracemalloc.get_traced_memory()[0]
    y.backward(OUT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return [y.data, x.grad, *(p.grad for p in stack.parameters()), default_generator.numpy.random(3)], held, peak


def test_gradients_are_bit_equal_and_memory_falls() -> None:
    """The last array compared is what the generator draws afterwards: the pass leaves it where it was."""
    plain, plain_held, plain_peak = encoder_pass(False)
    saved, saved_held, saved_peak = encoder_pass(True)
    for one, other in zip(plain, saved, strict=True):
        np.testing.assert_array_equal(one, other)
    assert saved_held < plain_held / 6
    assert saved_peak < plain_peak / 2


def test_a_whole_translation_model() -> None:
    def gradients(on: bool) -> dict[str, np.ndarray]:
        manual_seed(0)
        model = Seq2SeqTransformer(Seq2SeqConfig(12, 12, 16, 2, 2, 2, 32, 0.3, share_embeddings=True, tie_output=True))
        assert nn.checkpoint_activations(model, on) == 2
        source, target = np.array([[4, 5, 6, 7], [8, 9, 0, 0]]), np.array([[1, 4, 5], [1, 6, 7]])
        manual_seed(1)
        loss = ops.cross_entropy(model(source, target), np.array([[4, 5, 2], [6, 7, 2]]))
        loss.backward()
        return {name: parameter.grad for name, parameter in model.named_parameters()} | {"loss": loss.data}

    plain, saved = gradients(False), gradients(True)
    for name, gradient in plain.items():
        np.testing.assert_array_equal(gradient, saved[name], err_msg=name)


def test_own_generators_are_replayed_too() -> None:
    layer = nn.Dropout(0.5, generator=Generator(7)).train()
    x = Tensor(np.ones((50, 50), np.float32), requires_grad=True)
    y = checkpoint(layer, x)
    y.backward(np.ones_like(y.data))
    np.testing.assert_array_equal(x.grad, y.data)
    own = Generator(8)
    x.grad = None
    y = checkpoint(lambda t: ops.dropout(t, 0.5, generator=own), x, generators=[own])
    y.backward(np.ones_like(y.data))
    np.testing.assert_array_equal(x.grad, y.data)


def test_several_outputs_keyword_tensors_and_parts_without_gradient() -> None:
    a, b = (Tensor(RNG.normal(size=3), requires_grad=True) for _ in range(2))

    def function(a, scale, *, b):
        return a * b * scale, ops.exp(a), Tensor(np.ones(2))

    def all_of(call) -> list[np.ndarray]:
        first, second, third = call(a, 2.0, b=b)
        assert third.shape == (2,)
        return [t.data for t in grad([first, second], [a, b], [np.arange(3.0), np.ones(3)])]

    saved = all_of(lambda *args, **kwargs: checkpoint(function, *args, **kwargs))
    np.testing.assert_array_equal(all_of(function), saved)
    only_second = checkpoint(function, a, 2.0, b=b)[1]
    np.testing.assert_array_equal(grad(only_second, [a, b], np.ones(3))[1].data, np.zeros(3))


def test_parameters_held_by_a_plain_function_get_their_gradients() -> None:
    weight = Parameter(np.array([2.0, 3.0]))
    x = Tensor(np.array([5.0, 7.0]), requires_grad=True)
    (checkpoint(lambda t: t * weight, x) + weight).backward(np.array([1.0, 1.0]))
    np.testing.assert_array_equal(weight.grad, [6.0, 8.0])
    np.testing.assert_array_equal(x.grad, [2.0, 3.0])


def test_results_from_outside_must_be_arguments() -> None:
    x = Tensor(np.ones(3), requires_grad=True)
    outside = x * 2
    with pytest.raises(RuntimeError, match=r"computed outside it \(Multiply, shape \(3,\)\); pass it as an argument"):
        checkpoint(lambda t: t * outside, x)


def test_a_parameter_changed_before_the_backward_pass_is_noticed() -> None:
    weight, x = Parameter(np.ones(3)), Tensor(np.ones(3), requires_grad=True)
    y = checkpoint(lambda t: t * weight, x)
    weight.data += 1
    weight.mark_changed()
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward(np.ones(3))


def test_first_derivatives_only_and_nothing_under_no_grad() -> None:
    x = Tensor(np.ones(3), requires_grad=True)
    with pytest.raises(RuntimeError, match="can't be differentiated"):
        grad(checkpoint(ops.exp, x), x, np.ones(3), create_graph=True)
    with no_grad():
        assert not checkpoint(ops.exp, x).requires_grad
    y = checkpoint(ops.exp, x)
    y.backward(np.ones(3))
    with pytest.raises(RuntimeError, match="freed"):
        y.backward(np.ones(3))
