"""A stand-in for CuPy on machines without a GPU: the parts of the module `cupy` that handloom uses, based on NumPy.

Its array contains a NumPy array, but has no implicit conversion to NumPy arrays and can't be mixed with them. As in
CuPy, reductions return 0-d arrays, functions accept only the parameters of CuPy's functions, RawKernels run in the
CUDA emulator, and with `cupyx.allow_synchronize(False)` every call that makes the host wait for the device raises an
error. Unlike CuPy, it refuses NumPy arrays as indices, because CuPy copies them to the device each time.

    def test_something(fake_cupy):               # the fixture in tests/conftest.py
        x = Tensor(fake_cupy.arange(3.0))
"""

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from handloom.autograd import backend
from handloom.autograd.kernels import attention, fused, loading, products

from . import capture, cublas, kernels
from .array import (
    FREE,
    MODES,
    Device,
    DeviceSynchronized,
    allow_synchronize,
    call_ufunc,
    check_keywords,
    launched,
    ndarray,
    operations,
    refuse_products,
    shapes,
    synchronize,
    unwrap,
    wrap,
    wrapped,
)
from .signatures import CONSTANTS, DTYPES, FUNCTIONS, UFUNCS

_WAITS = {"unique", "nonzero", "flatnonzero", "asnumpy", "allclose", "bincount"}
_PRODUCTS = {"matmul", "dot", "einsum", "tensordot", "inner", "vdot", "outer"}  # cuBLAS
_WAITS |= {"sort", "argsort", "lexsort", "argpartition", "partition"}  # Thrust's algorithms wait at their end


def _function(name: str) -> Any:
    parameters = FUNCTIONS[name]
    free = "args" in parameters or "kwargs" in parameters or "arys" in parameters or "arrays_and_dtypes" in parameters

    def function(*args: Any, **kwargs: Any) -> Any:
        if not free:
            check_keywords(name, parameters, args, kwargs)
        if parameters[0] in ("a", "condition") and "close" not in name and not isinstance(args[0], ndarray):
            raise AttributeError(f"{name}: {type(args[0])} is no device array")
        if name in _WAITS or (name == "where" and len(args) == 1):
            synchronize(name)
        out = kwargs.get("out")
        if out is not None and not isinstance(out, ndarray):
            raise TypeError(f"{name}: out must be a device array, not {type(out)}")
        if name in _PRODUCTS:
            refuse_products(name)
        if name in ("concatenate", "stack") and len(args[0]) > 8:
            capture.refuse(f"{name} of more than 8 arrays, whose addresses CuPy copies from the host,")
        hosts, options = [unwrap(arg, name) for arg in args], unwrap(kwargs, name) | MODES.get(name, {})
        sources = [x._host for x in (*_arrays(args), *_arrays(tuple(kwargs.values()))) if isinstance(x, ndarray)]
        with np.errstate(all="ignore"):
            result = capture.perform(
                lambda: getattr(np, name)(*hosts, **options), sources, None if out is None else out._host,
                launches=name not in FREE,
            )  # fmt: skip
        if name in ("empty", "empty_like"):  # unwritten memory contains NaN, or -1
            result.reshape(-1).view(np.uint8).fill(0xFF)
        launched(name + (shapes(args) if name == "matmul" else ""), result)
        if isinstance(result, bool) or out is not None:
            return out if out is not None else wrap(np.asarray(result))
        return wrap(result, *_arrays(args), *_arrays(tuple(kwargs.values())))

    function.__name__ = name
    return function


def _arrays(values: tuple[Any, ...]) -> list[Any]:
    return [x for v in values for x in (_arrays(tuple(v)) if isinstance(v, (list, tuple)) else [v])]


def _ufunc(name: str) -> Any:
    def ufunc(*inputs: Any, **keywords: Any) -> Any:
        return call_ufunc(getattr(np, name), *inputs, **keywords)

    def at(a: ndarray, indices: Any, b: Any) -> None:
        launched(f"{name}.at", None)
        host_index, given = unwrap(indices), unwrap(b)
        capture.perform(lambda: getattr(np, name).at(a._host, wrapped(host_index, a.shape), given), [], a._host)

    ufunc.__name__, ufunc.at = name, at  # type: ignore[attr-defined]
    return ufunc


def _array(obj: Any, dtype: Any = None, copy: bool = True, order: str = "K", **others: Any) -> ndarray:
    """Copy an array from the host or the device. The result shares no memory with a NumPy array."""
    host = obj._host if isinstance(obj, ndarray) else obj
    if not isinstance(obj, ndarray):
        capture.refuse("a copy from the host")
    if isinstance(host, (list, tuple)):
        host = [x._host if isinstance(x, ndarray) else x for x in host]
    launched("array", None)
    return wrap(capture.perform(lambda: np.array(host, dtype=dtype, order="C" if order == "K" else order), []))  # type: ignore[call-overload]


def _asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False) -> ndarray:
    if isinstance(a, ndarray) and (dtype is None or np.dtype(dtype) == a.dtype) and not copy:
        return a
    return _array(a, dtype=dtype)


def _ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    if not isinstance(a, ndarray) or not a.flags.c_contiguous or (dtype is not None and np.dtype(dtype) != a.dtype):
        a = _array(a, dtype=dtype)
    return a if a.ndim else a.reshape(1)  # as CuPy does


def _build() -> tuple[types.ModuleType, types.ModuleType]:
    cupy, cupyx = types.ModuleType("cupy"), types.ModuleType("cupyx")
    for name in FUNCTIONS:
        setattr(cupy, name, _function(name))
    for name in UFUNCS:
        setattr(cupy, name, _ufunc(name))
    for name in (*CONSTANTS, *DTYPES, "bool_", "dtype", "generic"):
        setattr(cupy, name, getattr(np, name))
    names: dict[str, Any] = {
        "array": _array,
        "asarray": _asarray,
        "ascontiguousarray": _ascontiguousarray,
        "asnumpy": lambda a, **_: a.get() if isinstance(a, ndarray) else np.asarray(a),
        "ndarray": ndarray,
        "may_share_memory": lambda a, b: np.may_share_memory(a._host, b._host),
        "shape": lambda a: a.shape,
        "ndim": lambda a: a.ndim,
        "size": lambda a: a.size,
        "result_type": lambda *args: np.result_type(*(a._host if isinstance(a, ndarray) else a for a in args)),
        "RawModule": kernels.RawModule,
        "RawKernel": kernels.RawKernel,
        "cuda": types.SimpleNamespace(
            Device=Device,
            is_available=lambda: True,
            runtime=types.SimpleNamespace(
                getDeviceCount=lambda: 1,
                getDevice=lambda: Device.current[-1],
                getDeviceProperties=lambda device: {"name": b"stand-in", "totalGlobalMem": 16 * 10**9},
                runtimeGetVersion=lambda: 13000,
                driverGetVersion=lambda: 13000,
            ),
            device=types.SimpleNamespace(get_cublas_handle=lambda: 1),
            get_current_stream=capture.current,
            Stream=capture.Stream,
            MemoryPool=capture.MemoryPool,
            using_allocator=capture.using_allocator,
        ),
        "get_default_memory_pool": lambda: capture.default_pool,
        "__version__": "0 (stand-in)",
    }
    for name, value in names.items():
        setattr(cupy, name, value)
    cupyx.allow_synchronize = allow_synchronize  # type: ignore[attr-defined]
    cupyx.DeviceSynchronized = DeviceSynchronized  # type: ignore[attr-defined]
    return cupy, cupyx


cupy, cupyx = _build()


@contextlib.contextmanager
def installed() -> Iterator[types.ModuleType]:
    """Make `import cupy` find the stand-in within the `with` block."""
    before = {name: sys.modules.get(name) for name in ("cupy", "cupyx")}
    sys.modules.update(cupy=cupy, cupyx=cupyx)
    real, products.load_cublas = products.load_cublas, lambda: cublas.library
    try:
        backend.check_device("cuda")  # launches that try the device don't count
        kernels.launches.clear()
        operations.clear()
        cublas.calls.clear()
        yield cupy
    finally:
        products.load_cublas = real
        Device.current[:] = [0]
        for cached in (products._handle, fused._tickets_of):
            cached.cache_clear()
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def forget_kernels() -> None:
    """Clear the caches of loaded kernels, so that they are loaded anew."""
    for cached in (backend._try_kernel, attention._device_kernels, loading._load, loading._load_kernel):
        cached.cache_clear()


@contextlib.contextmanager
def another_gpu(
    capability: str = "90", broken: Exception | None = None, shared_memory: int = 227 * 1024
) -> Iterator[None]:
    """Give the stand-in's GPU another compute capability or less shared memory per block. With `broken`, its compiler
    fails with this error for any source.
    """

    def refusal(source: str) -> Exception | None:
        if int(capability) < 80 and "cp.async" in source:
            return RuntimeError("ptxas: Feature 'cp.async' requires .target sm_80 or higher")
        return broken

    before, Device.compute_capability, kernels.refusal = Device.compute_capability, capability, refusal
    attributes, Device.attributes = Device.attributes, {"MaxSharedMemoryPerBlockOptin": shared_memory}
    forget_kernels()
    try:
        yield
    finally:
        Device.compute_capability, kernels.refusal, Device.attributes = before, kernels.takes_all, attributes
        forget_kernels()
