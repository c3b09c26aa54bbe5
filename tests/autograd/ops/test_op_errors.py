"""A wrong shape, dtype or axis raises an error that names the op and the wrong value."""

import re
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Tensor, ops, plain
from handloom.autograd.ops.attention import METHODS


def f(*shape: int, dtype: Any = np.float64) -> Tensor:
    return Tensor(np.ones(shape, dtype), requires_grad=dtype == np.float64)


def attend(query: tuple[int, ...], other: tuple[int, ...] | None = None, **kwargs: Any) -> Any:
    return ops.attention(f(*query), f(*(other or query)), f(*(other or query)), **kwargs)


CASES: list[tuple[str, Any, type[Exception], tuple[str, ...]]] = [
    ("add", lambda: f(2) + f(3), ValueError, ("2", "3")),
    ("clip", lambda: ops.clip(f(2)), ValueError, ("min", "max")),
    ("masked_fill", lambda: ops.masked_fill(f(2), np.ones(2), 0.0), TypeError, ("float64",)),
    ("masked_fill", lambda: ops.masked_fill(f(2), np.ones(2, bool), f(2)), ValueError, ("2,",)),
    ("sum", lambda: ops.sum(f(2, 3), axis=2), ValueError, ("2, 3", "axis 2")),
    ("sum", lambda: ops.sum(f(2, 3), axis=(0, 0)), ValueError, ("2, 3",)),
    ("norm", lambda: ops.norm(f(2, 2), ord=3), ValueError, ("ord=3",)),
    ("norm", lambda: ops.norm(f(2), ord="nuc"), ValueError, ("nuc",)),
    ("reshape", lambda: ops.reshape(f(2, 3), (4, -1)), ValueError, ("2, 3", "4")),
    ("moveaxis", lambda: ops.moveaxis(f(2, 3), (0, 1), 0), ValueError, ("0, 1",)),
    ("concatenate", lambda: ops.concatenate([f(2, 2), f(3, 3)]), ValueError, ("2, 2", "3, 3")),
    ("split", lambda: ops.split(f(5), 2), ValueError, ("5",)),
    ("split", lambda: ops.split(f(5), [3, 1]), ValueError, ("[3, 1]", "ascend")),
    ("pad", lambda: ops.pad(f(2), 1, mode="median"), ValueError, ("median", "constant")),
    ("pad", lambda: ops.pad(f(2), -1), ValueError, ("-1",)),
    ("diagonal", lambda: ops.diagonal(f(2)), ValueError, ("2",)),
    ("getitem", lambda: f(2, 3)[2], IndexError, ("2, 3",)),
    ("setitem", lambda: ops.setitem(f(3), slice(2), f(3)), ValueError, ("3",)),
    ("setitem", lambda: ops.setitem(np.arange(3), 0, f()), TypeError, ("int64", "lose its gradient")),
    ("setitem", lambda: ops.setitem(f(3), np.array([0, 0]), f(2)), IndexError, ("twice", "scatter_add")),
    ("setitem", lambda: ops.setitem(f(3), "a", f(2)), IndexError, ("indices",)),
    ("cross_entropy", lambda: ops.cross_entropy(f(5), np.int64(-3)), IndexError, ("class -3", "0..4")),
    ("cross_entropy", lambda: ops.cross_entropy(f(5), Tensor(7)), IndexError, ("class 7", "0..4")),
    ("concatenate", lambda: ops.concatenate([1.0, 2.0]), ValueError, ("axis 0", "every tensor")),
    ("concatenate", lambda: ops.concatenate(None), TypeError, ("a list of tensors", "None")),
    ("concatenate", lambda: ops.concatenate([f(2)], axis=None), TypeError, ("axis", "whole number", "None")),
    ("stack", lambda: ops.stack([]), ValueError, ("the list of tensors is empty",)),
    ("split_heads", lambda: ops.split_heads(f(1, 2, 4), 0), ValueError, ("at least 1",)),
    ("repeat", lambda: ops.repeat(f(3), [1, 2]), ValueError, ("(2,)", "3 elements")),
    ("pad", lambda: ops.pad(f(3), [1, 2, 3]), ValueError, ("[1, 2, 3]", "pair", "1 axes")),
    ("tensordot", lambda: ops.tensordot(f(3), f(3), axes=[[0], [1]]), ValueError, ("axis 1",)),
    ("sum", lambda: ops.sum(f(3), dim=0, axis=0), TypeError, ("dim", "axis", "only one")),
    ("sum", lambda: ops.sum(f(3), 0, dim=0), TypeError, ("dim", "axis", "only one")),
    ("take", lambda: ops.take(f(2), np.array([0.5])), TypeError, ("float64",)),
    ("take_along_axis", lambda: ops.take_along_axis(f(2, 2), np.zeros(2, int)), ValueError, ("2, 2",)),
    ("topk", lambda: ops.topk(f(3), 4), ValueError, ("4", "3")),
    ("matmul", lambda: f(2, 3) @ f(2, 3), ValueError, ("2, 3",)),
    ("matmul", lambda: f() @ f(2, 3), ValueError, ("()", "(2, 3)", "with *")),
    ("attention", lambda: attend((1, 1, 2, 2), window=-1), ValueError, ("-1",)),
    ("attention", lambda: attend((1, 1, 2, 2), window=2.5), TypeError, ("2.5", "whole number")),
    ("linear", lambda: ops.linear(f(2, 3), f(4, 5)), ValueError, ("2, 3", "4, 5")),
    ("dot", lambda: ops.dot(f(2, 3), f(2)), ValueError, ("2, 3", "2")),
    ("tensordot", lambda: ops.tensordot(f(2, 3), f(2, 3), axes=1), ValueError, ("2, 3",)),
    ("einsum", lambda: ops.einsum("ij,jk->ik", f(2, 3), f(2, 3)), ValueError, ("ij,jk->ik", "3", "2")),
    ("getitem", lambda: f(4)[[[0], [1, 2]]], ValueError, ("different lengths", "pad")),
    ("l1_loss", lambda: ops.l1_loss(f(2), [[1], [2, 3]]), ValueError, ("different lengths", "pad")),
    ("leaky_relu", lambda: ops.leaky_relu(f(2), f()), TypeError, ("negative_slope", "detach")),
    ("cross_entropy", lambda: ops.cross_entropy(f(1, 3), [0], weight=f(3)), TypeError, ("weights", "detach")),
    ("attention", lambda: attend((1, 2, 2, 2), alibi_slopes=f(2)), TypeError, ("alibi_slopes", "detach")),
    ("attention", lambda: attend((1, 2, 2, 2), scale=f()), TypeError, ("scale", "detach")),
    ("embedding", lambda: ops.embedding([0], f(3, 2), scale=f()), TypeError, ("scale", "detach")),
    ("rms_norm", lambda: ops.rms_norm(f(2, 3), f(3), eps=f()), TypeError, ("eps", "detach")),
    ("cross_entropy", lambda: ops.cross_entropy(f(1, 3), [0], label_smoothing=f()), TypeError, ("label", "detach")),
    ("split", lambda: ops.split(f(4), 0), ValueError, ("at least 1, not 0",)),
    ("split", lambda: ops.split(f(4), 2.0), TypeError, ("integers", "not float64")),
    ("einsum", lambda: ops.einsum("ij->k", f(2, 3)), ValueError, ("ij->k",)),
    ("einsum", lambda: ops.einsum("ij,j", f(2, 3)), ValueError, ("ij,j",)),
    ("einsum", lambda: ops.einsum("i", f(2, 3)), ValueError, ("'i'", "2")),
    ("rms_norm", lambda: ops.rms_norm(f(2, 3), f(1)), ValueError, ("1", "3")),
    ("glu", lambda: ops.glu(f(2, 3)), ValueError, ("2, 3",)),
    ("gelu", lambda: ops.gelu(f(2), "quick"), ValueError, ("quick", "tanh")),
    ("dropout", lambda: ops.dropout(f(2), 1.5), ValueError, ("1.5",)),
    ("embedding", lambda: ops.embedding(np.array([3]), f(3, 2)), IndexError, ("3",)),
    ("embedding", lambda: ops.embedding(np.array([-1]), f(3, 2)), IndexError, ("-1",)),
    ("embedding", lambda: ops.embedding([[1, 2], [0]], f(3, 2)), ValueError, ("different lengths", "pad")),
    ("embedding", lambda: ops.embedding(np.array([0.0]), f(3, 2)), TypeError, ("float64",)),
    ("cross_entropy", lambda: ops.cross_entropy(f(2, 3), np.zeros(3, int)), ValueError, ("2, 3", "3")),
    ("cross_entropy", lambda: ops.cross_entropy(f(2, 3), np.array([0, 3])), IndexError, ("3", "2")),
    ("cross_entropy", lambda: ops.cross_entropy(f(1, 3), np.array([0]), label_smoothing=1.5), ValueError, ("1.5",)),
    ("cross_entropy", lambda: ops.cross_entropy(f(2, 3), f(2, 3), ignore_index=1), ValueError, ("1", "ignore")),
    ("mse_loss", lambda: ops.mse_loss(f(3, 1), f(3)), ValueError, ("3, 1", "3,")),
    ("l1_loss", lambda: ops.l1_loss(f(3), f(3), reduction="avg"), ValueError, ("avg", "mean")),
    ("binary_cross_entropy", lambda: ops.binary_cross_entropy(2 * f(3), f(3)), ValueError, ("with_logits",)),
    ("binary_cross_entropy", lambda: ops.binary_cross_entropy(f(3) * np.nan, f(3)), ValueError, ("[0, 1]",)),
    ("binary_cross_entropy", lambda: ops.binary_cross_entropy(f(3), f(3), weight=f(3, 1)), ValueError, ("(3, 3)",)),
    ("split_heads", lambda: ops.split_heads(f(1, 2, 5), 2), ValueError, ("5", "2")),
    ("attention", lambda: ops.attention(f(2, 3), f(2, 3), f(2, 3)), ValueError, ("query", "2, 3")),
    ("attention", lambda: attend((1, 1, 2, 3), (1, 1, 2, 4)), ValueError, ("2, 3", "2, 4")),
    ("attention", lambda: attend((2, 1, 2, 3), (1, 1, 2, 3)), ValueError, ("2, 1, 2, 3", "1, 1, 2, 3")),
    ("attention", lambda: attend((1, 1, 2, 2), mask=np.ones((2, 2))), TypeError, ("boolean", "float64")),
    ("attention", lambda: attend((1, 1, 2, 2), dropout=-0.5), ValueError, ("-0.5", "probability")),
    ("attention", lambda: attend((1, 1, 2, 2), return_weights=[0], dropout=0.1), ValueError, ("dropout=0",)),
    ("attention", lambda: attend((1, 1, 2, 2), method="flash"), ValueError, METHODS),
    ("attention", lambda: attend((1, 1, 2, 2), block_size=0), ValueError, ("block_size", "at least 1")),
    ("attention", lambda: attend((3, 2, 4, 5), alibi_slopes=np.ones(3)), ValueError, ("slopes", "(2,)", "(3,)")),
    ("attention", lambda: attend((3, 2, 4, 5), key_lengths=np.ones(1, int)), ValueError, ("lengths", "(3,)", "(1,)")),
    ("linear_activation", lambda: ops.linear_activation(f(2, 3), f(4, 3), dropout=2), ValueError, ("2", "probability")),
    ("layer_norm", lambda: ops.layer_norm(f(2, 3), f(1), f(3)), ValueError, ("weight", "(1,)", "(2, 3)")),
    ("layer_norm", lambda: ops.layer_norm(f(2, 3), f(3), f(2, 3)), ValueError, ("bias", "(2, 3)")),
    ("residual_layer_norm", lambda: ops.residual_layer_norm(f(2, 3), f(2, 3), f(3), f(1)), ValueError, ("(1,)",)),
    ("dropout_add", lambda: ops.dropout_add(f(2, 3), f(3), training=False), ValueError, ("2, 3", "3")),
    ("merge_heads", lambda: ops.merge_heads(f(2, 2, 3, 4), f(2, 2, 1, 4)), ValueError, ("2, 2, 3, 4", "2, 2, 1, 4")),
    ("embedding", lambda: ops.embedding(np.array([0]), f(3, 2), padding_id=3), IndexError, ("padding_id 3", "3 rows")),
]  # fmt: skip


@pytest.mark.parametrize("on", [False, True], ids=["quick", "plain"])
@pytest.mark.parametrize(("op", "call", "kind", "fragments"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_errors_name_the_op_and_the_shapes(
    op: str, call: Any, kind: type[Exception], fragments: tuple[str, ...], on: bool
) -> None:
    with plain(on), pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert op.replace("_", "") in re.sub("_", "", message).lower(), message
    for fragment in fragments:
        assert fragment in message, message


def test_no_class_and_no_target_is_no_error() -> None:
    for on in (False, True):
        with plain(on):
            assert np.isnan(ops.cross_entropy(f(0, 0), np.zeros(0, int), label_smoothing=0.1).item())
