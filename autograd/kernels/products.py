"""Products of float16 and float32 matrices, or stacks of matrices, by direct calls of cuBLAS with float32 sums.

CuPy's own products have three limits. CuPy multiplies a stack of float16 matrices in float32, which needs copies and is
slow. CuPy can't add a product to an array of another dtype. CuPy refuses every product while a stream is captured. This
module calls `cublasGemmEx` and `cublasGemmStridedBatchedEx` on CuPy's current stream, from the cuBLAS library that CuPy
has loaded. The handle and the workspace belong to handloom, because a captured product needs its workspace at a fixed
address. Sums are float32.
"""

import ctypes
import itertools
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array, array_module, import_cupy, is_array
from ..ops import linalg
from ..quick import replaces
from ..tensor import Tensor

# The values of cudaDataType, cublasOperation_t, cublasComputeType_t and cublasGemmAlgo_t.
_TYPES = {np.dtype(np.float32): 0, np.dtype(np.float16): 2}
_AS_IT_IS, _TRANSPOSED = 0, 1
_COMPUTE_32F, _DEFAULT = 68, -1
_FARTHEST = 2**31 - 1  # elements from one row to the next: a C int
#: Bytes of cuBLAS's workspace: NVIDIA's recommendation for Hopper.
WORKSPACE = 32 << 20


@cache
def load_cublas() -> Any:
    """Load and return the cuBLAS library that CuPy uses, or return None if it can't be found."""
    cuda = import_cupy().cuda
    cuda.device.get_cublas_handle()  # CuPy loads the library
    version = cuda.runtime.runtimeGetVersion() // 1000
    for name in (f"libcublas.so.{version}", f"cublas64_{version}.dll"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        c_int, c_pointer, c_long = ctypes.c_int, ctypes.c_void_p, ctypes.c_longlong
        matrix: list[Any] = [c_pointer, c_int, c_int]
        stack: list[Any] = [*matrix, c_long]
        begin: list[Any] = [c_pointer, c_int, c_int, c_int, c_int, c_int, c_pointer]
        library.cublasCreate_v2.argtypes = [c_pointer]
        library.cublasSetStream_v2.argtypes = [c_pointer, c_pointer]
        library.cublasSetWorkspace_v2.argtypes = [c_pointer, c_pointer, ctypes.c_size_t]
        library.cublasGemmEx.argtypes = [*begin, *matrix, *matrix, c_pointer, *matrix, c_int, c_int]
        library.cublasGemmStridedBatchedEx.argtypes = [
            *begin, *stack, *stack, c_pointer, *stack, c_int, c_int, c_int,
        ]  # fmt: skip
        return library
    return None


class _Handle:
    """A cuBLAS handle of one device, with its workspace. Products must not run on two streams at once."""

    def __init__(self, cupy: Any, library: Any):
        handle = ctypes.c_void_p()
        _check("cublasCreate", library.cublasCreate_v2(ctypes.byref(handle)))
        self.library, self.value, self.stream = library, handle.value, -1
        self.workspace = cupy.empty(WORKSPACE, np.uint8)

    def on(self, stream: int) -> int | None:
        """Make the handle use `stream`, and return the handle."""
        if stream != self.stream:
            _check("cublasSetStream", self.library.cublasSetStream_v2(self.value, stream))
            # Setting the stream has reset the workspace.
            pointer = self.workspace.data.ptr
            _check("cublasSetWorkspace", self.library.cublasSetWorkspace_v2(self.value, pointer, WORKSPACE))
            self.stream = stream
        return self.value


@cache
def _handle(cupy: Any, library: Any, device: int) -> _Handle:
    return _Handle(cupy, library)


_on_cpu: Any = linalg.product.now  # type: ignore[attr-defined]  # of `fast`


@replaces(linalg.product)
def product(x: Array, y: Array, out: Array | None = None, *, add: bool = False) -> Array:
    """Return x @ y for matrices or stacks of matrices. If `out`, which must be in row-major order, is given, write into
    it.

    If `add` is true, the product is added to `out`. On a device, float16 and float32 products call cuBLAS directly,
    which rounds the sum once. All other products are computed as on a CPU.
    """
    if isinstance(x, Tensor):
        return x @ y
    if isinstance(x, np.ndarray) or not _multiplies(x, y):
        return array_module(x, y).add(out, x @ y, out=out) if add else _on_cpu(x, y, out)
    shape = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    sizes = (*shape, x.shape[-2], y.shape[-1])
    if out is None:
        out = array_module(x).empty(sizes, x.dtype)
    _multiply(_stack(x, shape), _stack(y, shape), out.reshape(-1, *sizes[-2:]), 1.0 if add else 0.0)
    return out


def _multiplies(x: Array, y: Array) -> bool:
    """Return whether cuBLAS supports these arrays."""
    on_device = is_array(x) and is_array(y) and not isinstance(y, np.ndarray)
    alike = on_device and x.dtype == y.dtype and x.dtype in _TYPES and min(x.ndim, y.ndim) > 1
    return alike and x.shape[-1] == y.shape[-2] and 0 not in (*x.shape, *y.shape) and load_cublas() is not None


def add_product(total: Array, x: Array, y: Array) -> None:
    """Compute total += x @ y for matrices x and y, which can be float16. `total` is a row-major float32 matrix."""
    if isinstance(x, np.ndarray) or 0 in (*total.shape, x.shape[1]) or load_cublas() is None:
        total += x @ y
        return
    _multiply(_stack(x, ()), _stack(y, ()), total[None], 1.0)


class _Stack(NamedTuple):
    """A stack of matrices (count, rows, columns) in the form that cuBLAS needs: whether the matrices are transposed,
    and the numbers of elements from one row, and from one matrix, to the next. `array` refers to the copy that some
    memory layouts require.
    """

    array: Array
    turned: bool
    row: int
    step: int


def _stack(x: Array, shape: tuple[int, ...]) -> _Stack:
    """Broadcast x to a stack of `shape`, without a copy if successive matrices are at equal distances in memory."""
    rows, columns = x.shape[-2:]
    strides, missing = [stride // x.itemsize for stride in x.strides], len(shape) - (x.ndim - 2)
    step = _one_step(shape, [0] * missing + strides[:-2], (1,) * missing + x.shape[:-2])
    by_rows = (columns == 1 or strides[-1] == 1) and (rows == 1 or columns <= strides[-2] <= _FARTHEST)
    by_columns = (rows == 1 or strides[-2] == 1) and (columns == 1 or rows <= strides[-1] <= _FARTHEST)
    if step is None or not (by_rows or by_columns):
        x = array_module(x).ascontiguousarray(array_module(x).broadcast_to(x, (*shape, rows, columns)))
        return _Stack(x, False, columns, rows * columns)
    if by_rows:
        return _Stack(x, False, columns if rows == 1 else strides[-2], step)
    return _Stack(x, True, rows if columns == 1 else strides[-1], step)


def _one_step(shape: tuple[int, ...], strides: list[int], own: tuple[int, ...]) -> int | None:
    """Return the number of elements from one matrix to the next, if it is constant (0: a repeated matrix), or None."""
    steps = [0 if mine == 1 else stride for stride, mine in zip(strides, own, strict=True)]
    axes = [(size, step) for size, step in zip(shape, steps, strict=True) if size > 1]
    for (_, outer), (size, inner) in itertools.pairwise(axes):
        if outer != inner * size:
            return None
    return axes[-1][1] if axes else 0


def _multiply(x: _Stack, y: _Stack, out: Array, old: float) -> None:
    """Compute out = x @ y + old * out. For cuBLAS, which is column-major, each array is transposed: out^T = y^T x^T."""
    library, cupy = load_cublas(), import_cupy()
    count, m, n = out.shape
    stacks: list[tuple[Any, ...]] = [(z.array.data.ptr, _TYPES[z.array.dtype], z.row, z.step) for z in (y, x)]
    stacks.append((out.data.ptr, _TYPES[out.dtype], n, m * n))
    alpha, beta = ctypes.byref(ctypes.c_float(1.0)), ctypes.byref(ctypes.c_float(old))
    operations = [_TRANSPOSED if z.turned else _AS_IT_IS for z in (y, x)]
    handle = _handle(cupy, library, out.device.id).on(cupy.cuda.get_current_stream().ptr)
    begin = (handle, *operations, n, m, x.array.shape[-1], alpha)
    if count == 1:
        b, a, c = (stack[:3] for stack in stacks)
        _check("cublasGemmEx", library.cublasGemmEx(*begin, *b, *a, beta, *c, _COMPUTE_32F, _DEFAULT))
        return
    b, a, c = stacks
    status = library.cublasGemmStridedBatchedEx(*begin, *b, *a, beta, *c, count, _COMPUTE_32F, _DEFAULT)
    _check("cublasGemmStridedBatchedEx", status)


def _check(name: str, status: int) -> None:
    if status:
        raise RuntimeError(f"{name} failed with status {status} (cublasStatus_t)")
