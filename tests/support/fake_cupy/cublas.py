"""cuBLAS of the stand-in. It does what the C functions do with the pointers, sizes and strides that they get."""

import ctypes
from typing import Any

import numpy as np

from .capture import capturing, current

_TYPES = {0: np.dtype(np.float32), 2: np.dtype(np.float16)}
#: The calls, as (name, m, n, k, count, type of A, type of C), for row-major arrays A (m, k) and B (k, n).
calls: list[tuple[str, int, int, int, int, str, str]] = []


class FakeCublas:
    """The functions that `kernels.products` calls, with the arguments of the C library, and one handle."""

    stream, workspace = 0, 0

    def cublasCreate_v2(self, handle: Any) -> int:  # noqa: N802 (the library's name)
        handle._obj.value = 1
        return 0

    def cublasSetStream_v2(self, handle: int, stream: int) -> int:  # noqa: N802
        self.stream, self.workspace = stream, 0  # this resets the workspace to the library's own
        return 0

    def cublasSetWorkspace_v2(self, handle: int, pointer: int, size: int) -> int:  # noqa: N802
        self.workspace = pointer
        return 0

    def _run(self, products: Any) -> int:
        """Multiply, or record the products during a capture, in which the library must not allocate its own memory."""
        recording = capturing() or current().late
        if self.stream != current().ptr or (capturing() is not None and not self.workspace):
            return 14  # CUBLAS_STATUS_INTERNAL_ERROR
        if recording is None:
            return products()
        recording.launches.append(products)
        return 0

    def cublasGemmEx(  # noqa: N802
        self, handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, algo
    ) -> int:
        arrays = (a, a_type, lda, 0), (b, b_type, ldb, 0), (c, c_type, ldc, 0)
        return self._stacks("gemmEx", op_a, op_b, m, n, k, alpha, beta, arrays, 1, compute)

    def cublasGemmStridedBatchedEx(  # noqa: N802
        self, handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, stride_a, b, b_type, ldb, stride_b, beta, c, c_type,
        ldc, stride_c, count, compute, algo,
    ) -> int:  # fmt: skip
        arrays = (a, a_type, lda, stride_a), (b, b_type, ldb, stride_b), (c, c_type, ldc, stride_c)
        return self._stacks("gemmStridedBatchedEx", op_a, op_b, m, n, k, alpha, beta, arrays, count, compute)

    def _stacks(self, name, op_a, op_b, m, n, k, alpha, beta, arrays, count, compute) -> int:  # type: ignore[no-untyped-def]
        if max(m, n, k, count, *(leading for _, _, leading, _ in arrays)) >= 1 << 31:
            return 7  # CUBLAS_STATUS_INVALID_VALUE, or worse: in C these numbers have 32 bits
        if capturing() is None:
            calls.append((name, n, m, k, count, _TYPES[arrays[0][1]].name, _TYPES[arrays[2][1]].name))
        numbers = alpha._obj.value, beta._obj.value  # read through the pointers at the call
        return self._run(lambda: _products(op_a, op_b, m, n, k, *numbers, *arrays, count, compute))


def _products(op_a, op_b, m, n, k, alpha, beta, a, b, c, count, compute) -> int:  # type: ignore[no-untyped-def]
    if compute != 68 or a[1] != b[1]:
        return 15  # CUBLAS_STATUS_NOT_SUPPORTED
    rows = [(k, m) if op_a else (m, k), (n, k) if op_b else (k, n), (m, n)]
    if any(array[2] < size[0] for array, size in zip((a, b, c), rows, strict=True)):
        return 7  # CUBLAS_STATUS_INVALID_VALUE: the leading dimension is below the number of rows
    with np.errstate(all="ignore"):
        for i in range(count):
            left, right, out = (_matrix(*array, size, i) for array, size in zip((a, b, c), rows, strict=True))
            left, right = left.T if op_a else left, right.T if op_b else right
            total = alpha * (left.astype(np.float32) @ right.astype(np.float32))
            out[...] = total if beta == 0 else total + beta * out
    return 0


library = FakeCublas()


def _matrix(pointer: int, kind: int, leading: int, step: int, size: tuple[int, int], number: int) -> Any:
    """Return one column-major matrix of a stack, as a view."""
    dtype, (rows, columns) = _TYPES[kind], size
    length = (leading * (columns - 1) + rows) * dtype.itemsize
    memory = (ctypes.c_char * length).from_address(pointer + number * step * dtype.itemsize)
    strides = (dtype.itemsize, leading * dtype.itemsize)
    return np.ndarray((rows, columns), dtype, memory, strides=strides)
