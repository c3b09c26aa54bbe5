"""Matrix products by MKL. A stand-in checks the arguments of the calls; MKL itself is tested if it is installed."""

import contextlib
import ctypes
import threading
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.autograd import Tensor
from handloom.autograd.backend import Blas
from handloom.autograd.fast import mkl
from handloom.autograd.gradcheck import gradcheck
from handloom.autograd.ops import linear, linear_cross_entropy


class StandIn:
    """MKL's functions, computed by NumPy. `calls` lists the sizes (m, k, n) of the products."""

    def __init__(self, branch: int = 14, layers: tuple[int, int] = (0, 1)) -> None:
        self.calls: list[tuple[int, int, int]] = []
        self.settings: list[int] = []
        self.MKL_CBWR_Set = self._set_mode
        self.MKL_Set_Interface_Layer, self.MKL_Set_Threading_Layer = (lambda wanted, at=at: at for at in layers)
        self.MKL_CBWR_Get_Auto_Branch = lambda: branch
        self.cblas_sgemm, self.cblas_dgemm = self._gemm(ctypes.c_float), self._gemm(ctypes.c_double)

    def _set_mode(self, mode: int) -> int:
        self.settings.append(mode)
        return -8 if len(self.settings) > 1 else 0  # MKL accepts a mode only once

    def _gemm(self, real: Any) -> Any:
        def matrix(at: int, rows: int, columns: int, step: int, turn: int) -> np.ndarray:
            rows, columns = (rows, columns) if turn == 111 else (columns, rows)
            assert 1 <= columns <= step, "the leading dimension is too small"
            numbers = np.ctypeslib.as_array((real * ((rows - 1) * step + columns)).from_address(at))
            found = np.lib.stride_tricks.as_strided(
                numbers, (rows, columns), (step * numbers.itemsize, numbers.itemsize)
            )
            return found if turn == 111 else found.T

        def gemm(layout, trans_a, trans_b, m, n, k, scale, a, lda, b, ldb, old, out, step) -> None:  # type: ignore[no-untyped-def]
            assert (layout, scale) == (101, 1.0)
            self.calls.append((m, k, n))
            product = matrix(a, m, k, lda, trans_a) @ matrix(b, k, n, ldb, trans_b)
            result = matrix(out, m, n, step, 111)
            result[...] = product if old == 0 else product + old * result

        return gemm


def forget() -> None:
    for known in (mkl._loaded, mkl._gemm, mkl.address, mkl.multiplies_bytes):
        known.cache_clear()


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make handloom look for MKL again, in this test and after it."""
    monkeypatch.setattr(mkl, "_allowed", True)
    monkeypatch.setattr(mkl, "blas_of_numpy", lambda: Blas("scipy-openblas 0.3.31", "SkylakeX", 2))
    forget()
    yield
    monkeypatch.undo()
    forget()


@pytest.fixture
def stand_in(unknown: None, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    library = StandIn()
    monkeypatch.setattr(mkl, "_file", lambda: Path("libmkl_rt.so.3"))
    monkeypatch.setattr(mkl, "ctypes", types.SimpleNamespace(**{**vars(ctypes), "CDLL": lambda path: library}))
    monkeypatch.setattr(mkl, "MIN_MULTIPLICATIONS", 0)
    assert mkl.missing() is None
    return library


def operands(m: int, k: int, n: int, dtype: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.standard_normal((m, k)).astype(dtype), generator.standard_normal((k, n)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_matrices_by_rows_and_transposed_and_parts_of_them(
    stand_in: StandIn, dtype: type, add: bool, trans_a: bool, trans_b: bool
) -> None:
    a, b = operands(5, 7, 4, dtype)
    wide_a, wide_b = np.zeros((9, 9), dtype), np.zeros((9, 9), dtype)
    wide_a[1:6, 2:9], wide_b[1:8, 3:7] = a, b
    if trans_a:
        a = np.ascontiguousarray(a.T).T
    if trans_b:
        wide_b = np.ascontiguousarray(wide_b.T).T
    expected = a @ b + (1 if add else 0)
    for left, right in ((a, b), (wide_a[1:6, 2:9], wide_b[1:8, 3:7])):
        out = np.ones((6, 8), dtype)
        mkl.multiply(left, right, out[1:, 2:6], add=add)
        np.testing.assert_allclose(out[1:, 2:6], expected, rtol=1e-5)
        out[1:, 2:6] = 1
        assert (out == 1).all()  # nothing outside the result was written
    assert stand_in.calls == [(5, 7, 4)] * 2


#: Functions that turn a (6, 8), b (8, 4) and the output array into operands that MKL does not support.
NO_MATRICES: dict[str, Any] = {
    "one row": lambda a, b, out: (a[:1], b, out[:1]),
    "one column": lambda a, b, out: (a, b[:, :1], out[:, :1]),
    "one inner": lambda a, b, out: (a[:, :1], b[:1], out),
    "every other": lambda a, b, out: (a[:, ::2], b[::2], out),
    "repeated": lambda a, b, out: (np.broadcast_to(a[:1], a.shape), b, out),
    "backwards": lambda a, b, out: (a[::-1], b, out),
    "rows that overlap": lambda a, b, out: (np.lib.stride_tricks.sliding_window_view(a.reshape(-1)[:13], 8), b, out),
    "by columns": lambda a, b, out: (a, b, np.asfortranarray(out)),
    "mixed": lambda a, b, out: (a, b.astype(np.float64), out.astype(np.float64)),
    "half": lambda *arrays: (x.astype(np.float16) for x in arrays),
}


@pytest.mark.parametrize("case", NO_MATRICES)
def test_what_is_no_matrix_to_mkl_is_left_to_numpy(stand_in: StandIn, case: str) -> None:
    a, b, out = NO_MATRICES[case](*operands(6, 8, 4), np.ones((6, 4), np.float32))
    expected = a.astype(float) @ b.astype(float)
    mkl.multiply(a, b, out)
    np.testing.assert_allclose(out, expected, rtol=1e-2, atol=1e-2)
    mkl.multiply(a, b, out, add=True)
    np.testing.assert_allclose(out, 2 * expected, rtol=1e-2, atol=1e-2)
    assert not stand_in.calls


@pytest.mark.parametrize("most", [None, 2**31 - 1, 2**15 - 1])
def test_products_of_bytes_are_trusted_only_if_they_are_right(stand_in: StandIn, most: int | None) -> None:
    def gemm(layout, trans_a, trans_b, offset, m, n, k, scale, a, lda, ao, b, ldb, bo, old, out, ldc, nothing) -> None:  # type: ignore[no-untyped-def]
        """Clip sums of two products at `most`, which is 2^15 - 1 on processors without 8-bit instructions."""
        assert (layout, trans_a, trans_b, offset, scale, ao, bo, old) == (101, 111, 112, 173, 1.0, 0, 0, 0.0)
        x = np.ctypeslib.as_array((ctypes.c_uint8 * (m * k)).from_address(a)).reshape(m, 1, k // 2, 2).astype(int)
        w = np.ctypeslib.as_array((ctypes.c_int8 * (n * k)).from_address(b)).reshape(n, k // 2, 2).astype(int)
        result = np.ctypeslib.as_array((ctypes.c_int32 * (m * n)).from_address(out)).reshape(m, n)
        result[...] = np.clip((x * w).sum(axis=-1), -most - 1, most).sum(axis=-1)  # type: ignore[operator]

    if most is not None:
        stand_in.cblas_gemm_s8u8s32 = gemm  # type: ignore[attr-defined]
    assert mkl.multiplies_bytes() == (most == 2**31 - 1)


def test_a_small_product_is_left_to_numpy(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = operands(10, 10, 10)
    for least in (1000, 1001):
        monkeypatch.setattr(mkl, "MIN_MULTIPLICATIONS", least)
        mkl.multiply(a, b, np.empty((10, 10), np.float32))
    assert len(stand_in.calls) == 1


def test_the_gradients_of_a_linear_layer_and_of_its_loss(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handloom.autograd.fast.linear.MIN_MULTIPLICATIONS", 0)
    generator = np.random.default_rng(0)
    inputs = [Tensor(generator.standard_normal(shape), requires_grad=True) for shape in ((6, 5), (9, 5), (9,))]
    assert gradcheck(linear, inputs)
    target = np.array([0, 3, 8, 2, 2, 7])
    # With blocks of two rows, each block after the first adds to the gradient of the weight.
    assert gradcheck(lambda *arrays: linear_cross_entropy(*arrays, target, block_rows=2), inputs)
    assert {(6, 5, 9), (6, 9, 5), (9, 6, 5), (2, 5, 9)} <= set(stand_in.calls)


def test_it_is_set_up_once_whichever_threads_ask_first(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    stand_in.settings.clear()
    both, find = threading.Barrier(2), mkl._file

    def slowly() -> Path | None:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.2)  # until the other thread is here, too
        return find()

    monkeypatch.setattr(mkl, "_file", slowly)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda number: mkl.missing(), range(2))) == [None, None]
    assert len(stand_in.settings) == 1


@pytest.mark.usefixtures("unknown")
def test_why_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mkl, "_file", lambda: tmp_path / "libmkl_rt.so.3")
    assert "MKL can't be used" in str(mkl.missing())  # the file does not exist
    forget()
    monkeypatch.setattr(mkl, "ctypes", types.SimpleNamespace(**{**vars(ctypes), "CDLL": lambda path: object()}))
    assert "MKL can't be used" in str(mkl.missing())  # a library without these functions
    forget()
    others = StandIn(branch=3)  # "compatible": SSE2
    monkeypatch.setattr(mkl, "ctypes", types.SimpleNamespace(**{**vars(ctypes), "CDLL": lambda path: others}))
    assert mkl.missing() == "MKL has no mode with reproducible bits for this processor"
    forget()
    for layers in ((1, 1), (0, 0)):  # 64-bit integers, which cause a crash; MKL's own threads
        others = StandIn(layers=layers)
        assert "already in use" in str(mkl.missing())
        forget()
    monkeypatch.setattr(mkl, "_file", lambda: None)
    assert mkl.missing() == "MKL is not installed: pip install mkl"
    forget()
    monkeypatch.setattr(mkl, "blas_of_numpy", lambda: Blas("mkl 2026.2", "unknown", 0))
    assert mkl.missing() == "NumPy multiplies with mkl 2026.2"
    forget()
    monkeypatch.setattr(mkl, "_allowed", False)
    assert mkl.missing() == "HANDLOOM_MKL=0 leaves it out"
    a, b = operands(3, 4, 5)
    out = np.empty((3, 5), np.float32)
    mkl.multiply(a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-6)


@pytest.mark.skipif(mkl.missing() is not None, reason=f"products by MKL: {mkl.missing()}")
@given(
    sizes=st.tuples(*[st.sampled_from(sizes) for sizes in ([2, 31, 64, 200], [2, 64, 1030], [2, 31, 64, 200])]),
    turned=st.tuples(st.booleans(), st.booleans()),
    cut=st.floats(0.1, 0.9),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_the_bits_do_not_depend_on_how_a_product_is_divided(sizes, turned, cut, dtype) -> None:  # type: ignore[no-untyped-def]
    m, k, n = sizes
    a, b = operands(m, k, n, dtype)
    a, b = (np.asfortranarray(x) if turn else x for x, turn in zip((a, b), turned, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mkl, "MIN_MULTIPLICATIONS", 0)
        whole = np.empty((m, n), dtype)
        mkl.multiply(a, b, whole)
        np.testing.assert_allclose(whole, a @ b, rtol=1e-3 if dtype == np.float32 else 1e-9, atol=1e-4)
        row, column = int(m * cut), int(n * cut)
        parts = np.empty((m, n), dtype)
        for rows in (slice(row), slice(row, m)):
            if len(a[rows]) > 1:  # NumPy multiplies a single row
                mkl.multiply(a[rows], b, parts[rows])
                np.testing.assert_array_equal(parts[rows], whole[rows])
        for columns in (slice(column), slice(column, n)):
            if len(whole[0, columns]) > 1:
                mkl.multiply(a, b[:, columns], parts[:, columns])
                np.testing.assert_array_equal(parts[:, columns], whole[:, columns])
