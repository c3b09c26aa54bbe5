"""The update on the device: Adam equal to the optimiser's, gradient clipping, the loss scale and skipped steps."""

from typing import Any

import numpy as np
import pytest

from handloom.autograd import Parameter
from handloom.autograd.kernels.update import PARTS, adam, add_parts, new_state, prepare_update, read_state
from handloom.train.optim.optimizers import Adam, clip_grad_norm

LR = 0.01
SETTINGS = {"betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.1}


def settings_of(device: Any, average: float = 1.0) -> Any:
    return device.asarray(np.array([LR, average], np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_parts_are_added_each_in_its_place(dtype, device) -> None:
    rng = np.random.default_rng(0)
    sizes = [1, 7, 300, 5, 0, *range(20, 20 + PARTS), 5000]  # more parts than a launch takes
    starts = np.cumsum([0, *(size + 3 for size in sizes)])
    flat = rng.standard_normal(starts[-1]).astype(dtype)
    wide = [None if size == 5 else rng.standard_normal(2 * size).astype(dtype) for size in sizes]
    parts = [None if part is None else part[::2] for part in wide]
    want = flat.copy()
    for start, part in zip(starts, parts, strict=False):
        if part is not None:
            want[start : start + part.size] += part
    places = device.asarray(np.stack([starts[:-1], sizes], axis=1).astype(np.int64))
    found = device.asarray(flat)
    arrays = [None if part is None else device.asarray(part)[::2] for part in wide]
    for first in range(0, len(arrays), PARTS):
        add_parts(found, places, first, arrays[first : first + PARTS])
    np.testing.assert_array_equal(found.get(), want)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("size", [1, 97, 5000])
def test_updates_are_those_of_the_optimiser_with_clipping(size, dtype, device) -> None:
    rng = np.random.default_rng(size)
    decayed = size // 2
    start = rng.standard_normal(size).astype(np.float32)
    parts = [Parameter(start[:decayed, None].copy()), Parameter(start[decayed:].copy())]
    parts = [part for part in parts if part.size]
    optimizer = Adam(parts, lr=LR, **SETTINGS)
    w, m, v = device.asarray(start), device.zeros(size, np.float32), device.zeros(size, np.float32)
    copy, state = device.zeros(size, dtype), new_state(device, loss_scale=8.0)
    settings = settings_of(device, average=2.0)
    for step in range(3):
        gradient = (rng.standard_normal(size) * 10.0 ** (step - 1)).astype(dtype)
        scaled = gradient * dtype(8 / 2)
        for part, own in zip(parts, np.split(gradient, [decayed])[-len(parts) :], strict=True):
            part.grad = own.astype(np.float32).reshape(part.shape)
        norm = clip_grad_norm(parts, 1.5)
        optimizer.step()
        prepare_update(device.asarray(scaled), state, settings, max_norm=1.5)
        adam(w, device.asarray(scaled), m, v, copy, state, settings, decayed=decayed, **SETTINGS)
        assert read_state(state)["norm"] == pytest.approx(norm, rel=1e-5)
        want = np.concatenate([part.data.ravel() for part in parts])
        np.testing.assert_allclose(w.get(), want, rtol=2e-5, atol=2e-6)
        np.testing.assert_array_equal(copy.get(), w.get().astype(dtype))
    assert read_state(state)["steps"] == 3


def test_overflow_skips_the_step_and_moves_the_scale(device) -> None:
    good, bad = np.full(300, 4.0, np.float16), np.full(300, 4.0, np.float16)
    bad[77] = np.inf
    worse = good.copy()
    worse[299] = np.nan
    state = new_state(device, loss_scale=4.0)
    w, m, v = device.zeros(300, np.float32), device.zeros(300, np.float32), device.zeros(300, np.float32)
    copy, settings = device.zeros(300, np.float16), settings_of(device)
    scales, steps, skipped, failed = [], [], [], []
    for gradient in (good, good, good, bad, worse, bad, bad, good, good):
        before = w.get()
        prepare_update(device.asarray(gradient), state, settings, interval=2, least=1.0)
        adam(w, device.asarray(gradient), m, v, copy, state, settings, **{**SETTINGS, "weight_decay": 0.0})
        found = read_state(state)
        assert (w.get() != before).any() == (gradient is good)
        scales.append(found["loss_scale"])
        steps.append(found["steps"])
        skipped.append(found["skipped"])
        failed.append(found["failed"])
    assert scales == [4, 8, 8, 4, 2, 1, 1, 1, 2]
    assert steps == [1, 2, 3, 3, 3, 3, 3, 4, 5]
    assert skipped == [0, 0, 0, 1, 2, 3, 4, 4, 4]
    assert failed == [0, 0, 0, 0, 0, 0, 1, 1, 1], "`failed` counts steps that overflowed at the minimum scale"
    assert np.isfinite(w.get()).all()
    assert np.isfinite(v.get()).all()


def test_no_clipping_without_a_bound(device) -> None:
    state = new_state(device)
    prepare_update(device.asarray(np.full(4, 100.0, np.float32)), state, settings_of(device))
    assert read_state(state)["multiplier"] == 1
    assert read_state(state)["norm"] == 200
