"""Specifications of softmax, normalisation, losses, dropout and attention."""

from typing import Any

import numpy as np

from ..ops.recurrence import gru_step, lstm_step, rnn_step
from .draw import Draw, spec, with_seed


def _along_axis(d: Draw, shape: tuple[int, ...]) -> Any:
    axis = d.position(shape)
    return d.array(shape, -4, 4), {} if axis == -1 and d.flag("axis left out") else {"axis": axis}


spec("softmax", least=1)(_along_axis)
spec("log_softmax", least=1)(_along_axis)


@spec("layer_norm", most=2, ulps=200)
def _layer_norm(d: Draw, rows: tuple[int, ...]) -> Any:
    width = d.integer(3, 5)
    return d.distinct((*rows, width)), d.array((width,)), d.array((width,)), d.maybe(eps=0.1)


@spec("residual_layer_norm", most=2, adapt=with_seed, ulps=1000)
def _residual_layer_norm(d: Draw, rows: tuple[int, ...]) -> Any:
    shape = (*rows, d.integer(3, 5))
    kwargs = {"seed": d.integer(0, 9), "p": d.choice("p", (0.0, 0.3)), "training": d.choice("training", (True, False))}
    # Where elements are dropped, the residual remains. Its elements all differ, so no row is constant.
    arrays = *d.distinct(shape, shape), d.array(shape[-1:]), d.array(shape[-1:])
    return *arrays, {**kwargs, "eps": 0.1, "both": d.flag("both")}


@spec("rms_norm", most=2, ulps=64)
def _rms_norm(d: Draw, rows: tuple[int, ...]) -> Any:
    width = d.integer(2, 4)
    weight = (d.array((width,)),) if d.flag("weight") else ()
    return d.array((*rows, width), avoid=(0.0,)), *weight, d.maybe(eps=0.1)


def _reduction(d: Draw, shape: tuple[int, ...], most: int = 4) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Draw the reduction of a loss, and make the shape not empty for a mean; the mean over nothing is NaN."""
    kwargs = dict(d.choice("reduction", ({}, *({"reduction": name} for name in ("mean", "sum", "none")))[:most]))
    return kwargs, tuple(max(side, 1) for side in shape) if kwargs.get("reduction", "mean") == "mean" else shape


def _padded(d: Draw, target: np.ndarray, ignored: int, classes: int, kwargs: dict[str, Any]) -> np.ndarray:
    """Replace some targets by `ignored`, but not all for a mean: the mean over no target is NaN."""
    kwargs["ignore_index"] = ignored
    target = np.where(d.mask(target.shape), ignored, target)
    if kwargs.get("reduction", "mean") == "mean":
        target.flat[0] = classes - 1
    return target


@spec("cross_entropy", most=2, ulps=64)
def _cross_entropy(d: Draw, shape: tuple[int, ...]) -> Any:
    classes, (kwargs, shape) = d.integer(1, 4), _reduction(d, shape)
    kwargs |= {**d.maybe(weight=d.array((classes,), 0.5, 2)), **d.maybe(label_smoothing=0.2)}
    logits = d.array((*shape, classes), -3, 3)
    if d.choice("target", ("classes", "classes", "distributions")) == "distributions":
        return logits, d.array((*shape, classes), 0, 1), kwargs
    target = d.indices(shape, classes)
    if d.flag("padding"):
        ignored = d.choice("ignored", (-100, 0)) if classes > 1 else -100
        target = _padded(d, target, ignored, classes, kwargs)
    return logits, target, kwargs


def _bias_third(function: Any) -> Any:
    """Return `function` with the target before the bias, so that the bias can be omitted."""
    return lambda x, weight, target, bias=None, **kwargs: function(x, weight, bias, target, **kwargs)


@spec("linear_cross_entropy", most=2, empty=False, adapt=_bias_third, ulps=64)
def _linear_cross_entropy(d: Draw, shape: tuple[int, ...]) -> Any:
    features, classes, (kwargs, _) = d.integer(1, 3), d.integer(1, 4), _reduction(d, shape, most=3)
    target = d.indices(shape, classes)
    if d.flag("padding"):
        target = _padded(d, target, -100, classes, kwargs)
    kwargs |= {**d.maybe(class_weight=d.array((classes,), 0.5, 2)), **d.maybe(label_smoothing=0.2)}
    kwargs |= d.maybe(block_rows=d.integer(1, 2))
    bias = (d.array((classes,)),) if d.flag("bias") else ()
    return d.array((*shape, features)), d.array((classes, features)), target, *bias, kwargs


for _name in ("mse_loss", "l1_loss"):

    @spec(_name)
    def _difference(d: Draw, shape: tuple[int, ...]) -> Any:
        kwargs, shape = _reduction(d, shape)
        return *d.distinct(shape, shape), kwargs


def _binary(d: Draw, shape: tuple[int, ...], low: float, high: float, avoid: Any, *weights: str) -> Any:
    kwargs, shape = _reduction(d, shape)
    for name in weights:
        kwargs |= d.maybe(**{name: d.array(d.narrowed(shape), 0.5, 2)})
    return d.array(shape, low, high, avoid), d.array(shape, 0, 1), kwargs


spec("binary_cross_entropy", ulps=64)(lambda d, shape: _binary(d, shape, 0.1, 0.9, (), "weight"))
spec("binary_cross_entropy_with_logits", ulps=64)(
    lambda d, shape: _binary(d, shape, -3, 3, (0.0,), "weight", "pos_weight")
)


def _dropped(d: Draw, shape: tuple[int, ...], arrays: int) -> Any:
    p, training = d.choice("p", (0.0, 0.3, 0.5, 1.0)), d.choice("training", (True, True, False))
    return *(d.array(shape) for _ in range(arrays)), {"seed": d.integer(0, 9), "p": p, "training": training}


# Without training the result of dropout is x itself.
spec("dropout", views=True, adapt=with_seed)(lambda d, shape: _dropped(d, shape, 1))
spec("dropout_add", adapt=with_seed)(lambda d, shape: _dropped(d, shape, 2))


def _bias_last(function: Any) -> Any:
    """Return attention with the bias as its fourth positional argument, so that the bias's gradient is checked too."""
    return with_seed(lambda query, key, value, bias=None, **kwargs: function(query, key, value, bias=bias, **kwargs))


@spec("attention", adapt=_bias_last, ulps=64)
def _attention(d: Draw, _: tuple[int, ...]) -> Any:
    batch, heads, queries, keys = d.integer(1, 2), d.integer(1, 2), d.integer(1, 3), d.integer(1, 3)
    width, value_width = d.integer(1, 2), d.integer(1, 2)
    kv_heads = 1 if heads > 1 and d.flag("grouped queries") else heads

    def stretched(name: str) -> tuple[int, ...]:
        return tuple(1 if d.flag(f"stretched {name}") else side for side in (batch, heads, queries, keys))

    restrictions: dict[str, Any] = {
        "mask": d.mask(stretched("mask")), "key_lengths": d.indices((batch,), keys + 1), "causal": True,
        "window": d.integer(0, 2),
    }  # fmt: skip
    kind = d.choice("restriction", ("none", "all", *restrictions))
    kwargs = {name: value for name, value in restrictions.items() if kind in (name, "all")}
    kwargs |= {**d.maybe(scale=0.7), **d.maybe(alibi_slopes=d.array((heads,), 0.1, 1))}
    if d.flag("blocked"):
        kwargs |= {"method": "blocked", "block_size": d.integer(1, 3)}
    else:  # the reference draws the mask of the standard method
        kwargs |= d.maybe(dropout=0.4, seed=d.integer(0, 9))
    bias = (d.array(stretched("bias")),) if d.flag("bias") else ()
    arrays = d.array((batch, heads, queries, width)), d.array((batch, kv_heads, keys, width))
    return *arrays, d.array((batch, kv_heads, keys, value_width)), *bias, kwargs


@spec("recurrence", ulps=64, analytic=False)
def _recurrence(d: Draw, _: tuple[int, ...]) -> Any:
    step, gates, states = d.choice("step", ((rnn_step, 1, 1), (lstm_step, 4, 2), (gru_step, 3, 1)))
    batch, length, hidden = (d.integer(1, 3) for _ in range(3))
    shapes = (batch, length, gates * hidden), (gates * hidden, hidden), (gates * hidden,), *[(batch, hidden)] * states
    return *map(d.array, shapes), {"step": step}
