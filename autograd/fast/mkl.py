"""Matrix products by Intel's MKL, if it is installed (the extra `mkl`) and NumPy uses OpenBLAS.

A training step spends most of its time in the products of its linear layers. With MKL instead of OpenBLAS, a step takes
6 to 11 % less time on an Intel Xeon (docs/log.md). MKL runs on one thread per call, since the ops divide their work
themselves. In MKL's mode "strict conditional numerical reproducibility", the bits of a result depend neither on the
alignment of the operands nor on the division of rows or columns among calls. NumPy still computes small products,
products with a single row or column, the many small products of attention, and products of other dtypes than float32
and float64. Generation calls MKL from compiled code for products of 8-bit integers
(`models/generation/fast/screening.py`).

HANDLOOM_MKL=0 disables MKL.
"""

import ctypes
import functools
import platform
import threading
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import blas_of_numpy
from ..quick import blocks, switched_on

#: A product with fewer multiplications is left to NumPy: MKL's kernels gain less than the call's 5 microseconds.
MIN_MULTIPLICATIONS = 1 << 20

# Values of CBLAS_LAYOUT, CBLAS_TRANSPOSE and CBLAS_OFFSET in mkl.h, and of mkl_set_interface_layer,
# mkl_set_threading_layer and mkl_cbwr_set.
ROW_MAJOR, NO_TRANS, TRANS, FIX_OFFSET = 101, 111, 112, 173
_INTS_OF_32_BITS, _SEQUENTIAL, _AVX2, _STRICT = 0, 1, 10, 0x10000
_FARTHEST = 2**31 - 1  # numbers from one row to the next: a C int
_LETTERS = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}  # of the functions' names

_allowed = switched_on("HANDLOOM_MKL", True, "NumPy's products only", "MKL's too")


def _file() -> Path | None:
    """Return the path of the library installed by the package `mkl`."""
    from importlib import metadata  # slow to import, and needed once

    try:
        files = metadata.files("mkl") or []
    except metadata.PackageNotFoundError:
        return None
    found = [Path(str(file.locate())) for file in files if file.name.startswith(("libmkl_rt.", "mkl_rt."))]
    return next((path for path in found if {".so", ".dll", ".dylib"} & set(path.suffixes)), None)


_loading = threading.Lock()


def _load() -> tuple[Any, str | None]:
    """Load MKL. Return the library and None, or None and the reason why MKL is not available."""
    with _loading:  # an op may ask first, on several threads at once, and MKL takes its settings once only
        return _loaded()


@functools.cache
def _loaded() -> tuple[Any, str | None]:
    if not _allowed:
        return None, "HANDLOOM_MKL=0 leaves it out"
    if "openblas" not in blas_of_numpy().name.lower():  # if NumPy uses MKL, its settings are the user's
        return None, f"NumPy multiplies with {blas_of_numpy().name}"
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return None, f"MKL is not made for {platform.machine()}"
    path = _file()
    if path is None:
        return None, "MKL is not installed: pip install mkl"
    try:
        library = ctypes.CDLL(str(path))
        # Both return the setting in force: the setting of the first caller of MKL, else this one; the environment has
        # no effect.
        found = library.MKL_Set_Interface_Layer(_INTS_OF_32_BITS), library.MKL_Set_Threading_Layer(_SEQUENTIAL)
        if found != (_INTS_OF_32_BITS, _SEQUENTIAL):
            return None, "MKL is already in use in this process, with other integers or threads"
        branch = library.MKL_CBWR_Get_Auto_Branch()
        if branch < _AVX2 or library.MKL_CBWR_Set(branch | _STRICT) != 0:  # possibly on processors of other makers
            return None, "MKL has no mode with reproducible bits for this processor"
        for letter, real in (("s", ctypes.c_float), ("d", ctypes.c_double)):
            gemm, integer, array = getattr(library, f"cblas_{letter}gemm"), ctypes.c_int, ctypes.c_void_p
            gemm.argtypes = [*[integer] * 6, real, array, integer, array, integer, real, array, integer]
            gemm.restype = None
    except (OSError, AttributeError) as error:
        return None, f"MKL can't be used: {error}"
    return library, None


def missing() -> str | None:
    """Return the reason why MKL is not available, or None if it is available."""
    return _load()[1]


@functools.cache
def _gemm(dtype: Any) -> Any:
    """Return MKL's function for products of matrices of this dtype, or None if MKL has no such function."""
    library, _ = _load()
    return getattr(library, f"cblas_{_LETTERS[dtype]}gemm") if library and dtype in _LETTERS else None


@functools.cache
def address(name: str) -> int:
    """Return the address of the MKL function `name`, for compiled code, or 0 if MKL is not available."""
    library, _ = _load()
    return 0 if library is None else ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray, add: bool = False) -> None:
    """Compute out = a @ b for matrices a (m, k) and b (k, n). `out` (m, n) must share no memory with a or b. If `add`
    is true, the product is added to `out` instead.
    """
    gemm = _gemm(out.dtype)
    if (
        gemm is None
        or a.size * b.shape[1] < MIN_MULTIPLICATIONS
        or not _multiplied(gemm, a, b, out, 1.0 if add else 0.0)
    ):
        if not add:
            np.matmul(a, b, out=out)
            return
        for rows in blocks(0, len(a), out.shape[1] // 4):  # NumPy has no product that adds: it needs another array
            out[rows] += a[rows] @ b


@functools.cache
def multiplies_bytes() -> bool:
    """Return whether MKL has a product of 8-bit integers that is exact even for the largest values. On processors
    without instructions for 8-bit products, MKL adds pairs of products in 16 bits, which can overflow.
    """
    gemm = getattr(_load()[0], "cblas_gemm_s8u8s32", None)
    if gemm is None:
        return False
    a, b = np.array([[255] * 64, [0] * 64], np.uint8), np.array([[127] * 64, [-127] * 64], np.int8)
    out, nothing = np.empty((2, 2), np.int32), np.zeros(1, np.int32)
    at_a, at_b, at, at_nothing = (array.ctypes.data for array in (a, b, out, nothing))
    integer, real, array = ctypes.c_int, ctypes.c_float, ctypes.c_void_p
    operand = array, integer, ctypes.c_byte
    gemm.argtypes, gemm.restype = [*[integer] * 7, real, *operand, *operand, real, array, integer, array], None
    gemm(ROW_MAJOR, NO_TRANS, TRANS, FIX_OFFSET, 2, 2, 64, 1.0, at_a, 64, 0, at_b, 64, 0, 0.0, at, 2, at_nothing)
    return np.array_equal(out, a.astype(np.int32) @ b.T.astype(np.int32))


def _multiplied(gemm: Any, a: np.ndarray, b: np.ndarray, out: np.ndarray, old: float) -> bool:
    """Compute out = a @ b + old * out by MKL. Return False, without computing, for unsupported matrices."""
    (m, k), n, size = a.shape, b.shape[1], out.itemsize
    if min(m, n, k) < 2 or not a.dtype == b.dtype == out.dtype:
        return False
    (trans_a, lda), (trans_b, ldb), (trans, ldc) = (_layout(x, size) for x in (a, b, out))
    if not (trans_a and trans_b and trans == NO_TRANS):
        return False
    at_a, at_b, at = a.ctypes.data, b.ctypes.data, out.ctypes.data
    gemm(ROW_MAJOR, trans_a, trans_b, m, n, k, 1.0, at_a, lda, at_b, ldb, old, at, ldc)
    return True


def _layout(x: np.ndarray, size: int) -> tuple[int, int]:
    """Return MKL's code for x's layout, 0 if it has none, and the distance of its rows (or columns) in elements."""
    (rows, columns), (down, right) = x.shape, x.strides
    for trans, along, across, length in ((NO_TRANS, right, down, columns), (TRANS, down, right, rows)):
        if along == size and length * size <= across <= _FARTHEST * size and across % size == 0:
            return trans, across // size
    return 0, 0
