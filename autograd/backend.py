"""NumPy or CuPy: an array's namespace and device, transfers between devices, and the BLAS library that NumPy uses.

An op calls `xp = array_module(x)` on its first line and contains no other code for devices. For a Tensor,
`array_module` returns handloom's ops, which have NumPy's names. A backward rule that uses only functions common to
NumPy, CuPy and handloom therefore works for arrays, and also for Tensors if the gradient is differentiated again.
"""

import contextlib
import ctypes
import dataclasses
import importlib
import threading
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from .quick import replaceable

# A NumPy array, a CuPy array, or a Tensor (in a backward rule that is being recorded).
Array = Any

# The namespace of each type of operand, and its priority: NumPy 0, CuPy 1, handloom's ops 2.
_NAMESPACES: dict[type, tuple[int, ModuleType]] = {np.ndarray: (0, np)}


class DeviceError(RuntimeError):
    """An error raised when a requested device can't be used. The message gives the reason and a remedy."""


def register_namespace(kind: type, namespace: ModuleType) -> None:
    """Make `array_module` return `namespace` for values of type `kind`."""
    _NAMESPACES[kind] = 2, namespace


def array_module(*operands: Any) -> Any:
    """Return the namespace whose functions accept `operands`: numpy, cupy, or handloom's ops if an operand is a Tensor.
    Every namespace accepts Python scalars. If all operands are Python scalars, the namespace is numpy.
    """
    highest, found = 0, np
    for operand in operands:
        priority, namespace = _NAMESPACES.get(type(operand)) or _find_namespace(type(operand))
        if priority > highest:
            highest, found = priority, namespace
    return found


def _find_namespace(kind: type) -> tuple[int, ModuleType]:
    """Return what `_NAMESPACES` has for a type that is not yet there, and enter the type."""
    namespace = next((_NAMESPACES[base] for base in kind.__mro__ if base in _NAMESPACES), (0, np))
    if any(base.__module__.partition(".")[0] in ("cupy", "cupyx") for base in kind.__mro__):
        namespace = 1, importlib.import_module("cupy")
    _NAMESPACES[kind] = namespace
    return namespace


def is_array(value: Any) -> bool:
    """Return True for a NumPy or CuPy array (not for a NumPy scalar)."""
    return isinstance(value, np.ndarray) or (
        not isinstance(value, np.generic) and type(value).__module__.partition(".")[0] == "cupy"
    )


def as_array(values: Any, name: str) -> np.ndarray:
    """Return numpy.asarray(values). Raises, with `name`, TypeError for what is not numeric, and ValueError for nested
    lists of different lengths.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        if "inhomogeneous" not in str(error):  # too many axes, or the error of an object's own __array__
            raise
        raise ValueError(f"{name}: nested lists have different lengths: pad the shorter lists") from None
    if array.dtype.kind not in "fiubc":
        raise TypeError(f"{name}: {values!r:.60} is not numeric")
    return array


def native(array: Array) -> Array:
    """Return `array` in this machine's byte order, with subclasses converted to numpy.ndarray.

    Subclasses of NumPy's array can redefine operations such as `*` or `sum`.

    Raises TypeError for a masked array, because operations would ignore the mask.
    """
    if isinstance(array, np.ndarray) and type(array) is not np.ndarray:
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError("a masked array would lose its mask: fill it with .filled(0), and pass the mask to where()")
        array = np.asarray(array)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def device_of(array: Array) -> str:
    """Return "cpu" for a NumPy array, "cuda:N" for a CuPy array on device N."""
    device = array.device  # of a NumPy array the text "cpu"
    return device if isinstance(device, str) else f"cuda:{device.id}"


def address_of(array: Array) -> int:
    """Return the address of the first element of `array` in its device's memory."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def to_device(array: Array, device: str) -> Array:
    """Copy `array` to `device` ("cpu", "cuda" or "cuda:N"). Return `array` itself if it is already on `device`."""
    check_device(device)
    if device == "cpu":
        return array if isinstance(array, np.ndarray) else array.get()
    cupy = import_cupy()
    with cupy.cuda.Device(int(device.partition(":")[2] or 0)):
        return cupy.asarray(array)


def use_device(device: str) -> None:
    """Make `device` this thread's current device: its kernels run there, even if their arrays are on another GPU."""
    check_device(device)
    if device != "cpu":
        import_cupy().cuda.Device(int(device.partition(":")[2] or 0)).use()


def check_device(device: str) -> None:
    """Raise DeviceError, with a remedy, if `device` ("cpu", "cuda" or "cuda:N") can't be used on this machine. The
    first check of a GPU compiles and runs a kernel.
    """
    if device == "cpu":
        return
    kind, colon, number = str(device).partition(":")
    if kind != "cuda" or (colon and not number.isdecimal()):
        raise DeviceError(f"unknown device {device!r}: use 'cpu', 'cuda' or 'cuda:N'")
    cupy = import_cupy()
    count = cupy.cuda.runtime.getDeviceCount()
    if int(number or 0) >= count:
        raise DeviceError(f"there is no device {device!r}: this machine has {count}, numbered from cuda:0")
    _try_kernel(cupy, int(number or 0))


def import_cupy() -> Any:
    """Return the module cupy. Raises DeviceError, with a remedy, if CuPy or a usable GPU is missing."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise DeviceError(
            "device 'cuda' needs CuPy, which is not installed: pip install 'cupy-cuda13x[ctk]' (CUDA 13) or "
            "'cupy-cuda12x[ctk]'; without a GPU use device 'cpu'"
        ) from error
    try:
        available = cupy.cuda.is_available()
    except Exception:  # CuPy 13, where there is no driver or an old one
        available = False
    if not available:
        runtime = cupy.cuda.runtime
        driver, built = runtime.driverGetVersion() // 1000, runtime.runtimeGetVersion() // 1000
        if 0 < driver < built:
            raise DeviceError(
                f"device 'cuda': CuPy is built for CUDA {built}, but the driver supports only CUDA {driver}: install a "
                f"newer driver, or pip uninstall cupy-cuda{built}x and pip install 'cupy-cuda12x[ctk]'"
            )
        raise DeviceError("device 'cuda': CuPy finds no usable NVIDIA GPU (see nvidia-smi); use device 'cpu'")
    return cupy


def compute_capability(cupy: Any, device: int) -> int:
    """Return the compute capability of a GPU times ten, such as 75 for 7.5, which determines its instructions."""
    return int(cupy.cuda.Device(device).compute_capability)


# Every kernel needs the compiler, CUDA's headers, and a driver that accepts the result. Products need cuBLAS.
_TRIAL = """
#include <cuda_fp16.h>
extern "C" __global__ void trial(__half* x) { x[0] = __float2half_rn(1.0f); }
"""


@cache
def _try_kernel(cupy: Any, device: int) -> None:
    """Load cuBLAS, then compile and launch a kernel. Raises DeviceError, with cause and remedy, if a step fails."""
    try:
        with cupy.cuda.Device(device):
            cupy.cuda.device.get_cublas_handle()
            cupy.RawModule(code=_TRIAL).get_function("trial")((1,), (1,), (cupy.empty(1, np.float16),))
    except Exception as error:  # CuPy, the compiler and the driver have their own exceptions
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        capability, cuda = compute_capability(cupy, device), cupy.cuda.runtime.runtimeGetVersion() // 1000
        if cuda >= 13 and capability < 75:
            cure = (
                f"CUDA {cuda} needs compute capability 7.5 or later, and this GPU has {capability / 10}: "
                f"pip uninstall cupy-cuda{cuda}x and pip install 'cupy-cuda12x[ctk]'"
            )
        else:
            cure = f"CUDA's compiler, headers and libraries come with pip install 'cupy-cuda{cuda}x[ctk]>=14'"
        raise DeviceError(f"device 'cuda:{device}' can't be used ({reason}): {cure}") from error


# -- CUDA graphs -------------------------------------------------------------------------------------------------------


class GraphError(RuntimeError):
    """An error raised when a computation can't be captured as a CUDA graph. The message gives the reason."""


@replaceable
def cuda_graphs() -> Any:
    """Return a `Graphs`, which launches a computation of fixed shapes as one CUDA graph (`kernels/graphs.py`)."""
    raise GraphError("CUDA graphs are disabled by HANDLOOM_PLAIN=1")


class _Capture(threading.local):
    held: list[Array] | None = None  # the arrays that the graph being captured needs in addition to its own


_capture = _Capture()


@contextlib.contextmanager
def capturing(held: list[Array]) -> Iterator[None]:
    """Capture the block as a graph in this thread. `constant` appends arrays that the graph must keep to `held`."""
    _capture.held = held
    try:
        yield
    finally:
        _capture.held = None


def is_capturing() -> bool:
    """Return True while this thread captures a graph or runs the trial before the capture, with the same kernels."""
    return _capture.held is not None


def constant(xp: Any, array: Any) -> Array:
    """Return `array`, whose values must be constant or depend only on shapes, on the device of `xp`."""
    if _capture.held is None or not isinstance(array, np.ndarray):
        return xp.asarray(array)
    with xp.cuda.Stream.null:  # this stream is not captured, so the copy is made now
        made = xp.asarray(array)
    _capture.held.append(made)
    return made


# -- NumPy's linear algebra library ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Blas:
    """The linear algebra library under NumPy: its name, version, kernels and number of threads (0: unknown)."""

    name: str
    kernel: str
    threads: int


@cache
def blas_of_numpy() -> Blas:
    """Describe NumPy's linear algebra library, from NumPy's build record and, if NumPy uses OpenBLAS, from OpenBLAS."""
    config: Any = np.show_config(mode="dicts")
    built = config.get("Build Dependencies", {}).get("blas", {})
    name = f"{built.get('name', 'unknown')} {built.get('version', '')}".strip()
    kernel = openblas_function("get_corename", ctypes.c_char_p)
    threads = openblas_function("get_num_threads")
    return Blas(name, kernel().decode() if kernel else "unknown", threads() if threads else 0)


def openblas_function(name: str, result: Any = ctypes.c_int) -> Any:
    """Return the function `name` ("get_num_threads") of the OpenBLAS that NumPy uses, or None if it does not exist."""
    try:
        library = ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]  # finds the symbols of what it is linked with
    except (AttributeError, OSError):
        return None
    for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
        function = getattr(library, f"{prefix}openblas_{name}{suffix}", None)
        if function is not None:
            function.restype = result
            return function
    return None
