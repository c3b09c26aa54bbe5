"""The kernels of layer norm, dropout, feed-forward, loss and embedding, against NumPy in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from handloom.autograd.kernels import fused
from handloom.autograd.kernels.fused import Drop
from handloom.autograd.kernels.philox import keep_mask

SHAPES = [(1, 1), (2, 3), (5, 32), (7, 97), (3, 257), (300, 5), (4, 1000)]
DTYPES = [np.float32, np.float16]
SEED = 2**40 + 7


def drop_on(device: Any, call: int = 3, threshold: int = 13107) -> Drop:
    return Drop(device.asarray(np.array([SEED], np.uint64)), call, threshold)


def drawn(rng: np.random.Generator, dtype: Any, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def mask_of(shape: tuple[int, ...], call: int = 3, threshold: int = 13107) -> np.ndarray:
    return keep_mask(SEED, call, shape, threshold) * 65536 / (65536 - threshold)


def close(found: Any, wanted: np.ndarray, dtype: Any, what: str, ulps: float = 4, least: float = 1e-3) -> None:
    """Within some last places of the largest element (of `least` if that is larger): results are rounded once."""
    host = found.get()
    assert host.dtype == dtype, what
    bound = ulps * float(np.finfo(dtype).eps) * max(np.abs(wanted).max(initial=0), least)
    np.testing.assert_allclose(host.astype(np.float64), wanted, rtol=0, atol=bound, err_msg=what)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("residual", [False, True, "and past"])
@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm(shape, residual, dtype, device) -> None:
    rng = np.random.default_rng(shape[1])
    x, r, g = (drawn(rng, dtype, *shape) for _ in range(3))
    weight, bias = drawn(rng, dtype, shape[1]), drawn(rng, dtype, shape[1])
    arrays = [device.asarray(a) for a in (x, weight, bias)]
    more = (device.asarray(r), drop_on(device)) if residual else (None, None)
    y, z, mean, rstd = fused.layer_norm(*arrays, 1e-5, *more)
    wide = x.astype(np.float64)
    if residual:
        close(z, r + wide * mask_of(shape), dtype, "z")
        wide = z.get().astype(np.float64)  # statistics are those of what was stored
    middle = wide.mean(axis=1, keepdims=True)
    inverse = 1 / np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
    x_hat = (wide - middle) * inverse
    close(y, x_hat * weight + bias, dtype, "y", 16)
    close(mean, middle[:, 0], np.float32, "mean", 16)

    past = drawn(rng, dtype, *shape) if residual == "and past" else np.zeros(shape)
    beside = device.asarray(past) if residual == "and past" else None
    grads = fused.layer_norm_backward(device.asarray(g), z, arrays[1], mean, rstd, more[1], beside)
    h = g.astype(np.float64) * weight
    dz = inverse * (h - h.mean(axis=1, keepdims=True) - x_hat * (h * x_hat).mean(axis=1, keepdims=True)) + past
    wanted = (dz, dz * mask_of(shape) if residual else dz, (g * x_hat).sum(axis=0), g.sum(axis=0, dtype=np.float64))
    for name, found, want in zip(("dz", "dx", "dweight", "dbias"), grads, wanted, strict=True):
        # dz is a difference: its errors are of the size of h / standard deviation.
        scale = float((np.abs(h) * inverse).max()) / max(float(np.abs(want).max()), 1e-3)
        close(found, want, dtype, name, 32 * max(scale, 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 7, 8, 97, 4099])
def test_dropout_and_its_sum_with_a_residual(size, dtype, device) -> None:
    rng = np.random.default_rng(size)
    x, r = drawn(rng, dtype, size), drawn(rng, dtype, size)
    mask = mask_of((size,))
    close(fused.dropout_add(device.asarray(x), drop_on(device)), x * mask, dtype, "dropout", 1)
    close(fused.dropout_add(device.asarray(x), drop_on(device), device.asarray(r)), r + x * mask, dtype, "sum", 1)
    everything = fused.dropout_add(device.asarray(x), drop_on(device, 2, 65536), device.asarray(r))
    np.testing.assert_array_equal(everything.get(), r)


def test_dropout_of_more_elements_than_16_bits_count(device) -> None:
    shape, dtype = (170, 400), np.float16
    rng = np.random.default_rng(0)
    x, r = drawn(rng, dtype, *shape), drawn(rng, dtype, *shape)
    want, arrays = x * mask_of(shape), [device.asarray(a) for a in (x, *np.ones((2, 400), dtype), r)]
    close(fused.dropout_add(arrays[0], drop_on(device)), want, dtype, "dropout", 1)
    close(fused.layer_norm(*arrays[:3], 1e-5, arrays[3], drop_on(device))[1], r + want, dtype, "z")


erf = np.vectorize(math.erf, otypes=[float])


def expit(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


FUNCTIONS = {
    "relu": (lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0),
    "gelu": (
        lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
        lambda x: (1 + erf(x / np.sqrt(2))) / 2 + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi),
    ),
    "silu": (lambda x: x * expit(x), lambda x: expit(x) * (1 + x * (1 - expit(x)))),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", fused.ACTIVATIONS)
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (97, 13), (2, 400), (600, 32)])
def test_bias_activation_and_dropout(shape, activation, dtype, device) -> None:
    rng = np.random.default_rng(shape[0])
    x, g, bias = drawn(rng, dtype, *shape), drawn(rng, dtype, *shape), drawn(rng, dtype, shape[1])
    x[np.abs(x.astype(np.float32) + bias) < 1e-3] += 1  # away from the kink
    arrays = [device.asarray(a) for a in (x, bias)]
    function, slope = FUNCTIONS[activation]
    wide = x.astype(np.float64) + bias
    drop = drop_on(device)
    close(fused.bias_activation_dropout(*arrays, activation, drop), function(wide) * mask_of(shape), dtype, "y")
    dx, db = fused.bias_activation_dropout_backward(device.asarray(g), *arrays, activation, drop)
    wanted = g * mask_of(shape) * slope(wide)
    close(dx, wanted, dtype, "dx")
    close(db, dx.get().sum(axis=0, dtype=np.float64), dtype, "db", 16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (5, 97), (4, 1013)])
def test_cross_entropy(shape, smoothing, dtype, device) -> None:
    rng = np.random.default_rng(shape[1])
    logits, bias = drawn(rng, dtype, *shape) * dtype(3), drawn(rng, dtype, shape[1])
    target = rng.integers(0, shape[1], shape[0])
    target[shape[0] // 2] = -1 if shape[0] > 1 else target[0]
    z = logits.astype(np.float64) + bias
    lse = np.log(np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1)) + z.max(axis=1)
    real = target != -1
    own = z[np.arange(len(z)), target]
    loss = real * (lse - (1 - smoothing) * own - smoothing * z.mean(axis=1))
    onehot = np.zeros(shape)
    onehot[np.arange(len(z)), target] = 1
    p = np.exp(z - lse[:, None])
    gradient = real[:, None] * 0.25 * (p - smoothing / shape[1] - (1 - smoothing) * onehot)

    args = (device.asarray(bias), device.asarray(target))
    on_device = device.asarray(logits)
    size = float(np.abs(z).max())  # the loss is a difference of logits
    close(fused.cross_entropy_rows(on_device, *args, None, -1, smoothing), loss, np.float32, "loss only", 8, size)
    np.testing.assert_array_equal(on_device.get(), logits)
    factor = device.asarray(np.array([0.25], np.float32))
    close(fused.cross_entropy_rows(on_device, *args, factor, -1, smoothing), loss, np.float32, "loss", 8, size)
    close(on_device, gradient, dtype, "gradient", 16)


def test_cross_entropy_of_far_apart_and_infinite_logits(device) -> None:
    # 700 classes: some threads meet nothing but -inf, several times.
    logits = np.zeros((3, 700), np.float32)
    logits[0, :2], logits[1], logits[2, :2] = [1e4, -1e4], -np.inf, [-3e38, 3e38]
    logits[1, 513] = 2.0
    target, factor = np.array([0, 513, 1]), device.asarray(np.ones(1, np.float32))
    on_device = device.asarray(logits)
    loss = fused.cross_entropy_rows(
        on_device, device.asarray(np.zeros(700, np.float32)), device.asarray(target), factor, -1, 0.0
    )
    np.testing.assert_array_equal(loss.get(), 0)
    np.testing.assert_array_equal(on_device.get(), 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("count", "rows", "width"), [(1, 1, 1), (7, 3, 5), (97, 11, 33), (40, 500, 70), (0, 4, 4)])
def test_embedding(count, rows, width, dtype, device) -> None:
    rng = np.random.default_rng(count)
    table, g, ids = drawn(rng, dtype, rows, width), drawn(rng, dtype, count, width), rng.integers(0, rows, count)
    close(fused.embedding(device.asarray(table), device.asarray(ids), 2.5), 2.5 * table[ids], dtype, "rows", 1)
    for padding in (None, 0):
        want = np.zeros((rows, width))
        np.add.at(want, ids, 2.5 * g.astype(np.float64))
        if padding is not None:
            want[padding] = 0
        found = fused.embedding_backward(device.asarray(g), device.asarray(ids), rows, 2.5, padding)
        close(found, want, dtype, "gradient", 8)


def test_a_frequent_id_is_summed_with_the_others(device) -> None:
    """Runs of 1, 2, 3, 7, 8, 9, 17, 64 and 300 equal ids, each in a shuffled batch."""
    rng, runs = np.random.default_rng(0), (1, 2, 3, 7, 8, 9, 17, 64, 300)
    ids = rng.permutation(np.repeat(np.arange(len(runs)), runs))
    g, want = drawn(rng, np.float32, len(ids), 37), np.zeros((9, 37))
    np.add.at(want, ids, g.astype(np.float64))
    close(fused.embedding_backward(device.asarray(g), device.asarray(ids), 9), want, np.float32, "gradient", 8)


def test_ids_and_targets_outside_give_nan_and_touch_nothing(device) -> None:
    rng = np.random.default_rng(0)
    table, g = drawn(rng, np.float32, 11, 5), drawn(rng, np.float32, 6, 5)
    ids = np.array([3, -1, 11, 10, 3, 2**40])
    inside = (ids >= 0) & (ids < 11)
    rows = fused.embedding(device.asarray(table), device.asarray(ids)).get()
    np.testing.assert_array_equal(np.isnan(rows).all(axis=1), ~inside)
    np.testing.assert_array_equal(rows[inside], table[ids[inside]])
    want = np.zeros((11, 5))
    np.add.at(want, ids[inside], g[inside].astype(np.float64))
    close(fused.embedding_backward(device.asarray(g), device.asarray(ids), 11), want, np.float32, "gradient", 8)
    logits, factor = drawn(rng, np.float32, 4, 11), device.asarray(np.ones(1, np.float32))
    target = np.array([11, 2, -5, 2**40])
    args = device.asarray(np.zeros(11, np.float32)), device.asarray(target), factor, -1, 0.0
    on_device = device.asarray(logits)
    loss = fused.cross_entropy_rows(on_device, *args).get()
    np.testing.assert_array_equal(np.isnan(loss), [True, False, True, True])
    np.testing.assert_array_equal(np.isnan(on_device.get()).all(axis=1), np.isnan(loss))


def test_sums_of_columns(device) -> None:
    for shape in [(1, 1), (1000, 3), (17, 97), (9, 300)]:
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        close(fused.column_sums(device.asarray(x)), x.sum(axis=0, dtype=np.float64), np.float32, "sums", 32)


def test_rows_that_do_not_fit_are_refused(device) -> None:
    x = device.zeros((1, fused.WIDEST_ROW + 1), np.float32)
    with pytest.raises(ValueError, match="at most"):
        fused.layer_norm(x, x[0], x[0], 1e-5)
