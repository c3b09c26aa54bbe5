"""Setting and adding elements at indices that select an element twice, and at masks."""

import numpy as np

from handloom.autograd import Tensor, gradcheck, ops
from handloom.autograd.ops.indexing import _selects_once


def test_one_number_may_be_set_twice() -> None:
    x = Tensor(np.arange(6.0).reshape(2, 3))
    x[[0, 0]] = 5.0
    x[[1, 1], [2, -1]] = Tensor(np.array([[7.0]]))
    assert x.data.tolist() == [[5, 5, 5], [3, 4, 7]]
    for shape in ((), (1,), (1, 1)):  # the gradient of the number counts each element once
        assert gradcheck(lambda x, v: ops.setitem(x, [0, 0], v), [np.ones((2, 3)), np.full(shape, 2.0)])


def test_masks_select_no_element_twice() -> None:
    mask = np.array([[True, False], [True, True]])
    for index in (mask, [True, False], (mask[0], 1), (..., mask[0]), (None, mask), (slice(None), [True, False])):
        assert _selects_once(index)
    for index in ([0, 1], np.array([0]), (mask[0], [0, 0]), (slice(None), np.array([1, 1]))):
        assert not _selects_once(index)
    x, values = np.ones((2, 2)), np.array([1.0, 2.0, 3.0])
    assert gradcheck(lambda x, v: ops.setitem(x, mask, v), [x, values])
    assert gradcheck(lambda x, v: ops.scatter_add(x, mask, v), [x, values])
    assert gradcheck(lambda x: x[mask], [x])
