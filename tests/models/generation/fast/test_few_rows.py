"""Test products of few rows on threads that wait in compiled code (Numba), whichever thread computes a part."""

import copy
import os
import subprocess
import sys
import threading
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.autograd.fast import compiled, parallel
from handloom.models.generation.affine import Affine
from handloom.models.generation.fast import affine, few_rows, team
from handloom.models.generation.fast.affine import pack
from handloom.models.generation.fast.few_rows import ROWS, WIDTH, multiply
from tests.support.decoding import needs_numba
from tests.support.work import in_threads

pytestmark = pytest.mark.usefixtures("restored_threads")


class Layer:
    """Weights in blocks, with a bias, and an input."""

    def __init__(self, rows: int, inner: int, columns: int, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.weight, self.bias, self.x = (
            rng.normal(size=size).astype(np.float32) for size in ((inner, columns), columns, (rows, inner))
        )
        self.blocks = np.zeros((-(-columns // WIDTH), inner, WIDTH), np.float32)
        for number, block in enumerate(self.blocks):
            part = self.weight[:, number * WIDTH : (number + 1) * WIDTH]
            block[:, : part.shape[1]] = part

    def product(self, relu: bool = False, gap: int = 0) -> np.ndarray:
        """Return the product by `multiply`, whose rows have gaps between them; check that the gaps do not change."""
        y = np.full((len(self.x), self.weight.shape[1] + gap), 7, np.float32)
        multiply(self.x, self.blocks, self.bias, y[:, : len(self.bias)], relu)
        assert (y[:, len(self.bias) :] == 7).all()
        return y[:, : len(self.bias)]

    def check(self, relu: bool = False, gap: int = 0) -> None:
        expected = self.x.astype(np.float64) @ self.weight + self.bias
        expected = np.maximum(expected, 0) if relu else expected
        np.testing.assert_allclose(self.product(relu, gap), expected, rtol=1e-4, atol=1e-4)


@needs_numba
@given(
    rows=st.integers(1, 2 * ROWS + 1),
    inner=st.sampled_from([1, 7, 64]),
    columns=st.sampled_from([1, WIDTH - 1, WIDTH, WIDTH + 1, 1500]),
    relu=st.booleans(),
    gap=st.sampled_from([0, 3]),
    threads=st.integers(1, 3),
    seed=st.integers(0, 100),
)
def test_products_are_right(rows, inner, columns, relu, gap, threads, seed) -> None:
    parallel.set_num_threads(threads)
    Layer(rows, inner, columns, seed).check(relu, gap)


@needs_numba
def test_the_bits_of_a_row_do_not_depend_on_other_rows() -> None:
    layer = Layer(2 * ROWS + 1, 24, 3 * WIDTH + 5)
    together = layer.product()
    for first in range(0, len(layer.x), 3):
        alone = copy.copy(layer)
        alone.x = layer.x[first : first + 3]
        np.testing.assert_array_equal(alone.product(), together[first : first + 3])


@needs_numba
def test_threads_change_no_bit() -> None:
    layer, results = Layer(5, 64, 5000), []
    for threads in (1, 2, 3, 1):
        parallel.set_num_threads(threads)
        results += [layer.product() for _ in range(20)]
    assert len({result.tobytes() for result in results}) == 1


@needs_numba
def test_no_product_takes_parts_of_another() -> None:
    """Many small products follow one another, so that helper threads arrive late or between two products."""
    parallel.set_num_threads(3)
    layers = [Layer(1 + seed % 4, 8 + 8 * (seed % 3), 1 + 37 * seed, seed) for seed in range(30)]
    expected = [layer.product().tobytes() for layer in layers]
    for number in np.random.default_rng(0).integers(0, len(layers), 5000):
        assert layers[number].product().tobytes() == expected[number]


@needs_numba
def test_several_threads_of_a_program_multiply_at_once() -> None:
    parallel.set_num_threads(2)
    layers = [Layer(3, 64, 1000, seed) for seed in range(4)]
    expected = [layer.product() for layer in layers]
    wrong: list[int] = []

    def use(number: int) -> None:
        for _ in range(200):
            if not np.array_equal(layers[number].product(), expected[number]):
                wrong.append(number)

    in_threads(*(partial(use, number) for number in range(len(layers))))
    assert not wrong


PROGRAM = """
import os
import numpy as np
from handloom.autograd.fast import parallel
from handloom.models.generation.fast.few_rows import WIDTH, multiply

parallel.set_num_threads(2)
x, blocks, bias = np.ones((3, 64), np.float32), np.ones((40, 64, WIDTH), np.float32), np.ones(40 * WIDTH, np.float32)

def product():
    y = np.empty((3, 40 * WIDTH), np.float32)
    multiply(x, blocks, bias, y)
    return (y == 65).all()

assert product()
if hasattr(os, "fork"):
    child = os.fork()
    if not child:
        os._exit(0 if product() else 1)
    assert os.waitpid(child, 0)[1] == 0
assert product()
print("done")
"""


@needs_numba
def test_forked_children_multiply_and_programs_end() -> None:
    Layer(3, 64, 100).check()  # compile and cache first, so that the program's time does not depend on the compiler
    environment = {**os.environ, "PYTHONWARNINGS": "ignore::DeprecationWarning"}  # about forking a process with threads
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=3600)
    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")


@needs_numba
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_layers_use_it(relu: bool, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affine, "MIN_WEIGHTS", 0)
    plain = Layer(5, 64, 300)
    layer = Affine(plain.weight.T, plain.bias if bias else None)
    before = layer(plain.x, relu=relu)
    pack([layer])
    assert layer.blocks is not None
    buffer = np.empty((5, 300), np.float32)
    for rows in (5, 3, 1):
        found = layer(plain.x[:rows], buffer, relu=relu)
        assert np.shares_memory(found, buffer)
        np.testing.assert_allclose(found, before[:rows], rtol=1e-4, atol=1e-4)
    # `multiply` receives addresses, so arrays of other dtypes and widths must not reach it.
    np.testing.assert_array_equal(layer(plain.x.astype(np.float64), relu=relu), layer(plain.x, relu=relu))
    with pytest.raises(ValueError, match=r"matmul|reshape"):
        layer(np.ones((5, 68), np.float32))


def test_others_are_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affine, "MIN_WEIGHTS", 0)
    fits = Affine(np.ones((8, 8), np.float32), None)
    assert not affine.in_loops([fits, Affine(np.ones((8, 8)), None)])  # float64
    monkeypatch.setattr(affine, "MIN_WEIGHTS", 65)
    assert not affine.in_loops([fits])
    monkeypatch.setattr(affine, "MIN_WEIGHTS", 64)
    assert affine.in_loops([fits]) == (compiled.missing() is None and few_rows.usable())
    monkeypatch.setattr(compiled, "missing", lambda: "not installed")
    assert not affine.in_loops([fits])


@needs_numba
def test_without_more_threads_the_caller_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "_team", None)
    monkeypatch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
    parallel.set_num_threads(2)
    Layer(4, 64, 2000).check()
    assert team._team is not None
    assert not team._team.helpers


@needs_numba
def test_nan_stays() -> None:
    layer = Layer(2, 8, 5)
    layer.x[1, 2] = np.nan
    found = layer.product(relu=True)
    assert np.isnan(found[1]).all()
    assert not np.isnan(found[0]).any()
