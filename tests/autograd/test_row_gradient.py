"""Row gradients of tables give the same results as arrays in every use."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.autograd import Tensor, detect_anomaly, grad, ops
from handloom.autograd.row_gradient import RowGradient, sum_rows
from handloom.train.optim.optimizers import SGD, Adam, clip_grad_norm

ids_of_7_rows = st.lists(st.integers(0, 6), max_size=12).map(lambda ids: np.array(ids, dtype=np.int64))


def table(rows: int = 7, features: int = 3) -> Tensor:
    return Tensor(np.random.default_rng(1).standard_normal((rows, features)), requires_grad=True)


def scattered(ids: np.ndarray, rows: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    out = np.zeros(shape)
    for i, row in zip(ids, rows, strict=True):
        out[i] += row
    return out


def uses(tensor: Tensor, ids: np.ndarray, padding_id: int | None = None) -> tuple[Tensor, np.ndarray]:
    """Return a scalar that depends on some rows, and its gradient."""
    factors = np.random.default_rng(2).standard_normal((len(ids), tensor.shape[1]))
    expected = scattered(ids, factors, tensor.shape)
    if padding_id is not None:
        expected[padding_id] = 0
    return (ops.embedding(ids, tensor, padding_id) * factors).sum(), expected


@given(ids_of_7_rows, ids_of_7_rows)
def test_sums_pieces_and_arrays(first, second):
    rng = np.random.default_rng(3)
    shape = (7, 3)
    g = rng.standard_normal((len(first), 3)), rng.standard_normal((len(second), 3))
    one, two = sum_rows(first, g[0], shape), sum_rows(second, g[1], shape)
    arrays = scattered(first, g[0], shape), scattered(second, g[1], shape)
    np.testing.assert_allclose(one.dense(), arrays[0], atol=1e-12)
    np.testing.assert_allclose(one.plus(two, True).dense(), arrays[0] + arrays[1], atol=1e-12)
    for start in range(7):
        for stop in range(start + 1, 10):
            np.testing.assert_array_equal(one[start:stop].dense(), one.dense()[start:stop])
    assert np.all(np.diff(one.ids) > 0)


@given(ids_of_7_rows, ids_of_7_rows, st.sampled_from([None, 2]), st.sampled_from(["rows", "both", "array first"]))
def test_what_backward_leaves(first, second, padding_id, kind):
    tensor = table()
    loss, expected = uses(tensor, first, padding_id)
    if kind != "rows":
        other = (tensor * tensor).sum()
        loss = other + loss if kind == "both" else loss + other
        expected = expected + 2 * tensor.data
    loss.backward()
    assert isinstance(tensor.grad_or_rows, RowGradient) == (kind == "rows")
    again, more = uses(tensor, second.astype(np.uint64))
    again.backward()  # adds to the existing gradient
    np.testing.assert_allclose(tensor.grad, expected + more, atol=1e-12)
    assert isinstance(tensor.grad_or_rows, np.ndarray)  # once read as an array, the gradient stays an array
    loss, third = uses(tensor, first)
    held = tensor.grad
    loss.backward()
    np.testing.assert_allclose(held, expected + more + third, atol=1e-12)  # accumulated in place, as for any other leaf


def test_a_table_that_was_computed_gets_an_array():
    tensor = table()
    loss, expected = uses(tensor * 2.0, np.array([1, 1, 5]))
    loss.backward()
    np.testing.assert_allclose(tensor.grad, 2 * expected)


def test_grad_hooks_and_anomaly_detection_see_arrays():
    tensor = table()
    loss, expected = uses(tensor, np.array([1, 1, 5]))
    found = grad(loss, tensor)
    np.testing.assert_allclose(found.data, expected)
    seen = []
    remove = tensor.register_hook(lambda g: seen.append(g) or g * 3.0)
    with detect_anomaly():
        loss, _ = uses(tensor, np.array([1, 1, 5]))
        loss.backward()
    remove()
    assert isinstance(seen[0], np.ndarray)
    np.testing.assert_allclose(tensor.grad, 3 * expected)


@pytest.mark.parametrize("make", [lambda p: Adam(p, 0.1), lambda p: SGD(p, 0.1, momentum=0.9, nesterov=True)])
@pytest.mark.parametrize("features", [3, 40])
def test_optimizers_and_clipping_take_rows_as_they_would_an_array(make, features):
    rows = 4000  # with 40 features, an optimizer updates several blocks
    by_rows, by_array = table(rows, features), table(rows, features)
    pair = [(tensor, make([tensor])) for tensor in (by_rows, by_array)]
    for step in range(3):
        ids = np.random.default_rng(step).integers(0, rows, 50)
        norms = []
        for tensor, optimizer in pair:
            optimizer.zero_grad()
            loss, _ = uses(tensor, ids)
            loss.backward()
            if tensor is by_array:
                assert isinstance(tensor.grad, np.ndarray)
            norms.append(clip_grad_norm([tensor], 0.5))
            optimizer.step()
        assert norms[0] == pytest.approx(norms[1], rel=1e-12)
        np.testing.assert_allclose(by_rows.data, by_array.data, rtol=1e-12)
