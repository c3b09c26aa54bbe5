"""The kernels of layer norm, dropout, feed-forward, loss and embedding, against NumPy in float64."""

import math
from typing import Any
from unittest import mock

import numpy as np
import pytest

from handloom.autograd.kernels import fused
from handloom.autograd.kernels.fused import NO_DROPOUT, DropoutKey
from tests.support.fake_cupy import kernels
from tests.support.philox import keep_mask

SHAPES = [(1, 1), (2, 3), (5, 32), (7, 97), (3, 257), (300, 5), (4, 1000), (150, 8), (13, 264), (2, 1032)]
DTYPES = [np.float32, np.float16]
SEED = 2**40 + 7


def dropout_key_on(device: Any, call: int = 3, threshold: int = 13107) -> DropoutKey:
    return DropoutKey(device.asarray(np.array([SEED], np.uint64)), call, threshold)


def drawn(rng: np.random.Generator, dtype: Any, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def mask_of(shape: tuple[int, ...], call: int = 3, threshold: int = 13107) -> np.ndarray:
    return keep_mask(SEED, call, shape, threshold) * 65536 / (65536 - threshold)


def close(found: Any, wanted: np.ndarray, dtype: Any, what: str, ulps: float = 4, least: float = 1e-3) -> None:
    """Check the error in ulps of the largest element, or of `least` if that is larger. Results are rounded once."""
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
    more = (device.asarray(r), dropout_key_on(device)) if residual else (None, None)
    y, z, mean, rstd = fused.layer_norm(*arrays, 1e-5, *more)
    wide = x.astype(np.float64)
    if residual:
        close(z, r + wide * mask_of(shape), dtype, "z")
        wide = z.get().astype(np.float64)  # the statistics are those of the stored z
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
        # dz is a difference of terms of the size of h / standard deviation, and its errors are of their size.
        scale = float((np.abs(h) * inverse).max()) / max(float(np.abs(want).max()), 1e-3)
        close(found, want, dtype, name, 32 * max(scale, 1))


@pytest.mark.parametrize("width", [5, 8])
def test_layer_norm_of_more_rows_than_are_taken_at_a_time(width, device) -> None:
    with mock.patch.object(fused, "_BLOCKS", 2):
        test_layer_norm((50, width), True, np.float32, device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 7, 8, 97, 4099])
def test_dropout_and_its_sum_with_a_residual(size, dtype, device) -> None:
    rng = np.random.default_rng(size)
    x, r = drawn(rng, dtype, size), drawn(rng, dtype, size)
    mask = mask_of((size,))
    close(fused.dropout_add(device.asarray(x), dropout_key_on(device)), x * mask, dtype, "dropout", 1)
    close(
        fused.dropout_add(device.asarray(x), dropout_key_on(device), device.asarray(r)), r + x * mask, dtype, "sum", 1
    )
    everything = fused.dropout_add(device.asarray(x), dropout_key_on(device, 2, 65536), device.asarray(r))
    np.testing.assert_array_equal(everything.get(), r)


def test_dropout_of_more_elements_than_16_bits_count(device) -> None:
    shape, dtype = (170, 400), np.float16
    rng = np.random.default_rng(0)
    x, r = drawn(rng, dtype, *shape), drawn(rng, dtype, *shape)
    want, arrays = x * mask_of(shape), [device.asarray(a) for a in (x, *np.ones((2, 400), dtype), r)]
    close(fused.dropout_add(arrays[0], dropout_key_on(device)), want, dtype, "dropout", 1)
    close(fused.layer_norm(*arrays[:3], 1e-5, arrays[3], dropout_key_on(device))[1], r + want, dtype, "z")
    wide = [array.reshape(-1, 1700) for array in (arrays[0], arrays[3])]  # one block per row
    ones = device.ones(1700, dtype)
    z = fused.layer_norm(wide[0], ones, ones, 1e-5, wide[1], dropout_key_on(device))[1]
    close(z, (r + want).reshape(-1, 1700), dtype, "z of wide rows")


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
    drop = dropout_key_on(device)
    close(fused.bias_activation_dropout(*arrays, activation, drop), function(wide) * mask_of(shape), dtype, "y")
    dx, db = fused.bias_activation_dropout_backward(device.asarray(g), *arrays, activation, drop)
    wanted = g * mask_of(shape) * slope(wide)
    close(dx, wanted, dtype, "dx")
    close(db, dx.get().sum(axis=0, dtype=np.float64), dtype, "db", 16)


def test_an_infinite_gradient_does_not_reach_an_inactive_unit(device) -> None:
    g, x = (device.asarray(np.full((1, 2), value, np.float32)) for value in (np.inf, -1))
    dx, _ = fused.bias_activation_dropout_backward(g, x, None, "relu", NO_DROPOUT)
    assert dx.get().tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (5, 97), (4, 1013), (3, 2056)])
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

    args = (device.asarray(bias), device.asarray(target), -1, smoothing)
    on_device = device.asarray(logits)
    size = float(np.abs(z).max())  # the loss is a difference of logits
    close(fused.cross_entropy_rows(on_device, *args), loss, np.float32, "loss only", 8, size)
    np.testing.assert_array_equal(on_device.get(), logits)
    options = {"gradient": True, "factor": device.asarray(np.array([0.25], np.float32))}
    close(fused.cross_entropy_rows(on_device, *args, **options), loss, np.float32, "loss", 8, size)
    close(on_device, gradient, dtype, "gradient", 16)
    shifted = device.asarray((logits + bias).astype(dtype))
    found = fused.cross_entropy_rows(shifted, None, *args[1:], gradient=True, out=device.zeros(len(z), np.float32))
    ulps, least = (64, 128 * size) if dtype == np.float16 else (8, size)
    close(found, loss, np.float32, "without bias", ulps, least)
    close(shifted, 4 * gradient, dtype, "gradient without factor", 64)


@pytest.mark.parametrize("offset", [1e6, -1e6, 2.0**22])
def test_a_common_offset_of_the_logits_does_not_change_the_smoothed_loss(offset, device) -> None:
    """The logits are multiples of 1/2, so that float32 holds them exactly beside the offset."""
    logits = np.random.default_rng(0).integers(-20, 20, (3, 5000)).astype(np.float32) / 2
    target = np.array([0, 7, 4999])
    args = (None, device.asarray(target), -1, 0.1)
    found = fused.cross_entropy_rows(device.asarray(logits + np.float32(offset)), *args).get()
    wide = logits.astype(np.float64)
    own = 0.9 * wide[np.arange(3), target] + 0.1 * wide.mean(axis=1)
    np.testing.assert_allclose(found, np.log(np.exp(wide).sum(axis=1)) - own, rtol=1e-6)


def test_cross_entropy_of_far_apart_and_infinite_logits(device) -> None:
    # With 7000 classes, some threads read only -inf, several times. In the last row, the running maximum keeps growing.
    logits = np.zeros((4, 7000), np.float32)
    logits[0, :2], logits[1], logits[2, :2] = [1e4, -1e4], -np.inf, [-3e38, 3e38]
    logits[1, 5130], logits[3] = 2.0, np.linspace(0, 50, 7000)
    target, on_device = np.array([0, 5130, 1, 6990]), device.asarray(logits)
    loss = fused.cross_entropy_rows(on_device, None, device.asarray(target), -1, 0.0, gradient=True)
    wide = logits[3].astype(np.float64)
    want = np.log(np.exp(wide).sum()) - wide[6990]
    np.testing.assert_allclose(loss.get(), [0, 0, 0, want], rtol=1e-5)
    np.testing.assert_array_equal(on_device.get()[:3], 0)
    logits[0, 3], logits[1, 6999] = np.nan, np.inf
    loss = fused.cross_entropy_rows(device.asarray(logits), None, device.asarray(target), -1, 0.0)
    assert not np.isfinite(loss.get()[:2]).any(), "NaN or infinite logits give a loss that is not finite"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [0, 1, 33, 700])
def test_the_total_loss_and_its_gradients_factor(rows, dtype, device) -> None:
    rng = np.random.default_rng(rows)
    losses, target = drawn(rng, np.float32, rows), rng.integers(0, 3, rows)
    arrays = device.asarray(losses), device.asarray(target)
    total, count = fused.total_loss(*arrays, 1, dtype, mean=True)
    real = int((target != 1).sum())
    assert total.shape == ()
    np.testing.assert_allclose(count.get(), [max(real, 1)])
    if real:
        close(total, losses.sum(dtype=np.float64) / real, dtype, "mean", 4, 1)
    else:
        assert np.isnan(float(total.get()))
    total, none = fused.total_loss(*arrays, 1, dtype, mean=False)
    assert none is None
    close(total, losses.sum(dtype=np.float64), dtype, "sum", 32, 1)

    parts = drawn(rng, dtype, rows, 5), drawn(rng, np.float32, 13, 3), None if rows == 1 else drawn(rng, dtype, 9)
    given = [None if part is None else device.asarray(part) for part in parts]
    g = device.asarray(np.array(6.0, np.float32))
    for number in (2, 3):
        want = [None if part is None else part.astype(np.float64) * 6 / max(real, 1) for part in parts]
        copies = [None if part is None else part.copy() for part in given[:number]]
        for name, found, wanted in zip("xwb", fused.scale_gradients(g, count, copies, dtype), want, strict=False):
            assert (found is None) == (wanted is None)
            if wanted is not None:
                close(found, wanted, dtype, name, 4)
    assert fused.scale_gradients(g, None, given, dtype)[0] is given[0]
    close(given[0], parts[0].astype(np.float64) * 6, dtype, "in place, by g alone", 4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("count", "rows", "width"), [(1, 1, 1), (7, 3, 5), (97, 11, 33), (40, 500, 70), (0, 4, 4), (130, 9, 264)]
)
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
    """Ids occur 1 to 300 times each, shuffled. After sorting, some runs begin or end where a piece of 64 ids does."""
    rng, runs = np.random.default_rng(0), (1, 2, 61, 64, 65, 7, 8, 48, 128, 17, 300, 3, 64)
    ids = rng.permutation(np.repeat(np.arange(len(runs)), runs))
    for width in (37, 8):
        g, want = drawn(rng, np.float32, len(ids), width), np.zeros((len(runs) + 1, width))
        np.add.at(want, ids, g.astype(np.float64))
        for _ in range(2):  # each launch resets the tickets for the next
            found = fused.embedding_backward(device.asarray(g), device.asarray(ids), len(want))
            close(found, want, np.float32, "gradient", 8)


@pytest.mark.parametrize(("count", "rows"), [(1, 1), (31, 300), (129, 255), (1000, 256), (700, 70000), (5000, 40)])
def test_ids_are_sorted_and_equal_ones_stay_in_order(count, rows, device) -> None:
    ids = np.random.default_rng(count).integers(-2, rows + 2, count)
    keys = np.where((ids < 0) | (ids >= rows) | (ids == 3), rows, ids)
    found = fused.sorted_ids(device.asarray(ids), rows, 3).get()
    np.testing.assert_array_equal(found[0], np.sort(keys))
    np.testing.assert_array_equal(found[1], np.argsort(keys, kind="stable"))


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
    target, on_device = np.array([11, 2, -5, 2**40]), device.asarray(drawn(rng, np.float32, 4, 11))
    loss = fused.cross_entropy_rows(on_device, None, device.asarray(target), -1, 0.0, gradient=True).get()
    np.testing.assert_array_equal(np.isnan(loss), [True, False, True, True])
    np.testing.assert_array_equal(np.isnan(on_device.get()).all(axis=1), np.isnan(loss))


def test_sums_of_columns(device) -> None:
    for shape in [(1, 1), (1000, 3), (17, 97), (9, 304), (70, 1000)]:
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        for _ in range(2):  # each launch resets the tickets for the next
            close(fused.column_sums(device.asarray(x)), x.sum(axis=0, dtype=np.float64), np.float32, "sums", 32)


def test_a_sum_of_columns_is_the_same_whichever_block_comes_last(fake_cupy, monkeypatch) -> None:
    x, found = fake_cupy.asarray(drawn(np.random.default_rng(0), np.float32, 4200, 33)), []
    for seed in range(4):  # the order of threads and blocks
        monkeypatch.setattr(kernels, "seed", seed)
        found.append(fused.column_sums(x).get())
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_tickets_suffice_for_the_widest_and_for_most_blocks(fake_cupy) -> None:
    tickets = len(fused._tickets(fake_cupy.empty(1)))
    assert tickets > fused._BLOCKS // 16 + 1
    x = fake_cupy.asarray(np.ones((40, 256 * fused._BLOCKS + 5), np.float16))  # so wide that all rows are one chunk
    np.testing.assert_array_equal(fused.column_sums(x[:, : 256 * 3].copy()).get(), 40)
    np.testing.assert_array_equal(fused.column_sums(x).get(), 40)
    with mock.patch.object(fused, "_BLOCKS", 1):  # 2 pieces of ids x 5 tiles of 256 columns
        found = fused.embedding_backward(fake_cupy.ones((70, 1030), np.float32), fake_cupy.zeros(70, np.int64), 1)
    np.testing.assert_array_equal(found.get(), 70)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_may_begin_anywhere(dtype, device) -> None:
    """Kernels read 16 bytes at once from addresses that are multiples of 16. A view may begin at other addresses."""
    rng, ids = np.random.default_rng(0), device.asarray(np.array([3, 0, 3]))

    def results(first: int) -> list[Any]:
        def view(*shape: int) -> Any:
            size = int(np.prod(shape))
            return device.asarray(np.concatenate([np.zeros(first, dtype), drawn(rng, dtype, size)]))[first:].reshape(
                shape
            )

        rng.bit_generator.state = np.random.default_rng(0).bit_generator.state
        x, other, weight, bias = view(5, 40), view(5, 40), view(40), view(40)
        y, z, mean, rstd = fused.layer_norm(x, weight, bias, 1e-5, other)
        drop, targets = dropout_key_on(device), device.asarray(np.arange(5))
        return [
            y, z, *fused.layer_norm_backward(x, other, weight, mean, rstd), fused.column_sums(x),
            fused.dropout_add(x, drop, other), fused.bias_activation_dropout(x, bias, "relu", drop),
            fused.cross_entropy_rows(x, bias, targets, -1, 0.1), fused.embedding(x, ids),
            fused.embedding_backward(x[:3], ids, 5),
        ]  # fmt: skip

    for found, wanted in zip(results(1), results(0), strict=True):
        if wanted is not None:
            np.testing.assert_array_equal(found.get(), wanted.get())


@pytest.mark.parametrize("width", [96, 97])
def test_the_variance_of_rows_far_from_zero(width, device) -> None:
    """The variance is the mean of (x - mean)^2; mean(x^2) - mean^2 would have three correct digits less."""
    x = (1000 + np.random.default_rng(0).standard_normal((4, width))).astype(np.float32)
    one, zero = device.ones(width, np.float32), device.zeros(width, np.float32)
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(-1, keepdims=True)) / wide.std(-1, keepdims=True)
    np.testing.assert_allclose(fused.layer_norm(device.asarray(x), one, zero, 0.0)[0].get(), wanted, atol=1e-3)
