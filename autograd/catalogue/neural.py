"""Specifications of softmax, normalisation, losses, dropout and attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops import OPS
from .draw import Draw, Sample, seeded, spec, with_seed


def _along_axis(d: Draw) -> Sample:
    shape = d.shape(1)
    axis = d.axis(shape, none=False, many=False)
    return Sample((d.array(shape, -4, 4),), {} if axis == -1 and d.flag("axis left out") else {"axis": axis})


spec("softmax")(_along_axis)
spec("log_softmax")(_along_axis)


@spec("layer_norm", ulps=200)
def _layer_norm(d: Draw) -> Sample:
    shape = (*d.shape(0, 2), d.integer(3, 5))
    kwargs = {"eps": 0.1} if d.flag("eps given") else {}
    return Sample((d.distinct(shape), d.array(shape[-1:]), d.array(shape[-1:])), kwargs)


@spec("residual_layer_norm", **seeded("residual_layer_norm"), ulps=1000)
def _residual_layer_norm(d: Draw) -> Sample:
    shape = (*d.shape(0, 2), d.integer(3, 5))
    kwargs = {"seed": d.integer(0, 9), "p": d.choice("p", (0.0, 0.3)), "training": d.choice("training", (True, False))}
    kwargs |= {"eps": 0.1, "both": d.flag("both")}
    # Where elements are dropped, the residual remains. Its elements all differ, so no row is constant.
    return Sample((*d.distinct(shape, shape), d.array(shape[-1:]), d.array(shape[-1:])), kwargs)


@spec("rms_norm", ulps=64)
def _rms_norm(d: Draw) -> Sample:
    shape = (*d.shape(0, 2), d.integer(2, 4))
    weight = (d.array(shape[-1:]),) if d.flag("weight") else ()
    return Sample((d.array(shape, avoid=(0.0,)), *weight), {"eps": 0.1} if d.flag("eps given") else {})


def _reduction(d: Draw) -> dict[str, Any]:
    return d.choice("reduction", ({}, {"reduction": "mean"}, {"reduction": "sum"}, {"reduction": "none"}))


@spec("cross_entropy", ulps=64)
def _cross_entropy(d: Draw) -> Sample:
    shape, classes = d.shape(0, 2), d.integer(1, 4)
    target = d.indices(shape, classes)
    kwargs = dict(_reduction(d))
    if d.choice("target", ("classes", "classes", "distributions")) == "distributions":
        if d.flag("smoothed distribution"):
            kwargs["label_smoothing"] = 0.2
        if d.flag("weights of a distribution"):
            kwargs["weight"] = d.array((classes,), 0.5, 2)
        if kwargs.get("reduction", "mean") == "mean":
            shape = tuple(max(side, 1) for side in shape)
        return Sample((d.array((*shape, classes), -3, 3), d.array((*shape, classes), 0, 1)), kwargs)
    if kwargs.get("reduction", "mean") == "mean":
        shape = tuple(max(side, 1) for side in shape)
        target = d.indices(shape, classes)
    if d.flag("padding"):
        ignored = d.choice("ignored", (-100, 0)) if classes > 1 else -100
        kwargs["ignore_index"] = ignored
        target = _padded(d, target, ignored, classes, kwargs)
    if d.flag("class weights"):
        kwargs["weight"] = d.array((classes,), 0.5, 2)
    if d.flag("smoothing"):
        kwargs["label_smoothing"] = 0.2
    return Sample((d.array((*shape, classes), -3, 3), target), kwargs, differentiable=(0,))


def _padded(d: Draw, target: np.ndarray, ignored: int, classes: int, kwargs: dict[str, Any]) -> np.ndarray:
    """Replace some targets by `ignored`. Keep at least one target for a mean; other tests cover the mean over no
    target, which is NaN.
    """
    target = np.where(d.mask(target.shape), ignored, target)
    if kwargs.get("reduction", "mean") == "mean":
        target.flat[0] = classes - 1
    return target


def _bias_third(function: Any) -> Any:
    """Return `function` with the target before the bias, so that the bias can be omitted."""
    return lambda x, weight, target, bias=None, **kwargs: function(x, weight, bias, target, **kwargs)


@spec(
    "linear_cross_entropy",
    function=_bias_third(OPS["linear_cross_entropy"].function),
    reference=_bias_third(OPS["linear_cross_entropy"].reference),
    ulps=64,
)
def _linear_cross_entropy(d: Draw) -> Sample:
    shape, features, classes = d.shape(0, 2, empty=False), d.integer(1, 3), d.integer(1, 4)
    target = d.indices(shape, classes)
    kwargs: dict[str, Any] = dict(d.choice("reduction", ({}, {"reduction": "mean"}, {"reduction": "sum"})))
    if d.flag("padding"):
        kwargs |= {"ignore_index": -100}
        target = _padded(d, target, -100, classes, kwargs)
    if d.flag("class weights"):
        kwargs |= {"class_weight": d.array((classes,), 0.5, 2)}
    if d.flag("smoothing"):
        kwargs |= {"label_smoothing": 0.2}
    if d.flag("small blocks"):
        kwargs |= {"block_rows": d.integer(1, 2)}
    arrays = d.array((*shape, features)), d.array((classes, features))
    bias = (d.array((classes,)),) if d.flag("bias") else ()
    return Sample((*arrays, target, *bias), kwargs)


def _same_shapes(d: Draw) -> Sample:
    kwargs = _reduction(d)
    shape = d.shape(empty=kwargs.get("reduction") in ("sum", "none"))
    return Sample(tuple(d.distinct(shape, shape)), kwargs)


spec("mse_loss")(_same_shapes)
spec("l1_loss")(_same_shapes)


@spec("binary_cross_entropy_with_logits", ulps=64)
def _bce_with_logits(d: Draw) -> Sample:
    kwargs = dict(_reduction(d))
    shape = d.shape(empty=kwargs.get("reduction") in ("sum", "none"))
    if d.flag("weight"):
        kwargs["weight"] = d.array(d.narrowed(shape), 0.5, 2)
    if d.flag("pos_weight"):
        kwargs["pos_weight"] = d.array(d.narrowed(shape), 0.5, 2)
    return Sample((d.array(shape, -3, 3, avoid=(0.0,)), d.array(shape, 0, 1)), kwargs)


@spec("binary_cross_entropy", ulps=64)
def _bce(d: Draw) -> Sample:
    kwargs = dict(_reduction(d))
    shape = d.shape(empty=kwargs.get("reduction") in ("sum", "none"))
    if d.flag("weight"):
        kwargs["weight"] = d.array(d.narrowed(shape), 0.5, 2)
    return Sample((d.array(shape, 0.1, 0.9), d.array(shape, 0, 1)), kwargs)


def _dropped(d: Draw, arrays: int) -> Sample:
    kwargs = {
        "seed": d.integer(0, 9),
        "p": d.choice("p", (0.0, 0.3, 0.5, 1.0)),
        "training": d.choice("training", (True, True, False)),
    }
    shape = d.shape()
    return Sample(tuple(d.array(shape) for _ in range(arrays)), kwargs)


# Without training the result of dropout is x itself.
spec("dropout", views=True, **seeded("dropout"))(lambda d: _dropped(d, 1))
spec("dropout_add", **seeded("dropout_add"))(lambda d: _dropped(d, 2))


def _bias_last(function: Any) -> Any:
    """Return attention with the bias as its fourth positional argument, so that the bias's gradient is checked too."""
    return with_seed(lambda query, key, value, bias=None, **kwargs: function(query, key, value, bias=bias, **kwargs))


@spec(
    "attention",
    function=_bias_last(OPS["attention"].function),
    reference=_bias_last(OPS["attention"].reference),
    ulps=64,
)
def _attention(d: Draw) -> Sample:
    batch, heads, queries, keys = d.integer(1, 2), d.integer(1, 2), d.integer(1, 3), d.integer(1, 3)
    width, value_width = d.integer(1, 2), d.integer(1, 2)
    scores = (batch, heads, queries, keys)
    kv_heads = 1 if heads > 1 and d.flag("grouped queries") else heads
    kwargs: dict[str, Any] = {}
    kind = d.choice("restriction", ("none", "mask", "lengths", "causal", "window", "all"))
    if kind in ("mask", "all"):
        kwargs["mask"] = d.mask(tuple(1 if d.flag("stretched mask") else side for side in scores))
    if kind in ("lengths", "all"):
        kwargs["key_lengths"] = d.indices((batch,), keys + 1)
    if kind in ("causal", "all"):
        kwargs["causal"] = True
    if kind in ("window", "all"):
        kwargs["window"] = d.integer(0, 2)
    if d.flag("scale"):
        kwargs["scale"] = 0.7
    if d.flag("ALiBi"):
        kwargs["alibi_slopes"] = d.array((heads,), 0.1, 1)
    if d.flag("blocked"):
        kwargs |= {"method": "blocked", "block_size": d.integer(1, 3)}
    elif d.flag("dropout"):  # the reference draws the mask of the standard method
        kwargs |= {"dropout": 0.4, "seed": d.integer(0, 9)}
    bias = (d.array(tuple(1 if d.flag("stretched bias") else side for side in scores)),) if d.flag("bias") else ()
    arrays = d.array((batch, heads, queries, width)), d.array((batch, kv_heads, keys, width))
    return Sample((*arrays, d.array((batch, kv_heads, keys, value_width)), *bias), kwargs)
