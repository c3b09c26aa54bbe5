"""The array of the stand-in. It contains a NumPy array and does not expose it by accident."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from .capture import capturing, perform, refuse
from .signatures import METHODS

_FLAGS = ("c_contiguous", "f_contiguous", "owndata", "fnc", "forc")
MODES = {"take": {"mode": "wrap"}}
_SCALARS = (bool, int, float, complex, np.generic)
_state = threading.local()


#: Names of what CuPy itself would have launched: functions that compute or copy. Views and `empty` are not included.
operations: list[str] = []
FREE = {"empty", "empty_like", "result_type", "shape", "broadcast_to", "may_share_memory"}


def launched(name: str, result: Any) -> None:
    """Record a call, unless its result is a view, because views compute nothing."""
    parts = result if isinstance(result, (list, tuple)) and result else [result]
    view = all(isinstance(part, np.ndarray) and part.base is not None for part in parts) and "matmul" not in name
    if capturing() is None and name not in FREE and not view:
        operations.append(name)


class DeviceSynchronized(RuntimeError):  # noqa: N818 (CuPy's name)
    """The host would have waited for the device where `allow_synchronize(False)` forbids it."""


@contextmanager
def allow_synchronize(allow: bool) -> Iterator[None]:
    """Forbid (or allow) all calls in this thread that make the host wait for the device."""
    before = getattr(_state, "allowed", True)
    _state.allowed = allow
    try:
        yield
    finally:
        _state.allowed = before


def synchronize(what: str) -> None:
    """Raise DeviceSynchronized if waiting is forbidden. Every operation that needs a value on the host calls this."""
    refuse(what)
    if not getattr(_state, "allowed", True):
        raise DeviceSynchronized(f"{what} waits for the device")


def unwrap(value: Any, what: str = "CuPy") -> Any:
    """Return the NumPy value of a device array, also in lists and tuples. TypeError for a NumPy array, as in CuPy."""
    if isinstance(value, ndarray):
        if (recording := capturing()) is not None:
            recording.use(value if value._base is None else value._base)
        return value._host
    if isinstance(value, np.ndarray):
        raise TypeError(f"{what}: a NumPy array of shape {value.shape} among device arrays: unsupported type")
    if isinstance(value, (list, tuple)):
        return type(value)(unwrap(item, what) for item in value)
    if isinstance(value, dict):
        return {name: unwrap(item, what) for name, item in value.items()}
    return value


def wrap(value: Any, *sources: Any) -> Any:
    """Return a result as device arrays; scalars become 0-d arrays. A view's base is the array that owns its memory."""
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(wrap(item, *sources) for item in value)
    if isinstance(value, tuple):  # a named tuple from NumPy
        return tuple(wrap(item, *sources) for item in value)
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    host = np.asarray(value)
    result = ndarray._make(host)
    if host.base is not None:
        for source in sources:
            # For NumPy, arrays without elements share no memory.
            if isinstance(source, ndarray) and (np.may_share_memory(source._host, host) or not host.size):
                result._base = source if source._base is None else source._base
                result.device = source.device
                break
    return result


class _Pointer:
    """`array.data`: the address of the array on the device."""

    def __init__(self, host: np.ndarray):
        self.ptr = host.ctypes.data


class Device:
    """`cupy.cuda.Device(0)`. `current` contains the device numbers of the active contexts, the innermost last."""

    attributes = {"MaxSharedMemoryPerBlockOptin": 227 * 1024}  # noqa: RUF012 (as of an H100)
    compute_capability = "90"
    current = [0]  # noqa: RUF012 (of all)

    def __init__(self, id: int | None = None):
        self.id = self.current[-1] if id is None else id

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def __enter__(self) -> Device:
        self.current.append(self.id)
        return self

    def __exit__(self, *_: object) -> None:
        self.current.pop()

    def use(self) -> Device:
        self.current[-1] = self.id
        return self

    def synchronize(self) -> None:
        synchronize("Device.synchronize()")


def _method(name: str, parameters: tuple[str, ...]) -> Any:
    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        check_keywords(f"ndarray.{name}", parameters, args, kwargs)
        out = kwargs.get("out")
        hosts, options = [unwrap(arg) for arg in args], unwrap(kwargs) | MODES.get(name, {})
        if name == "fill":
            perform(lambda: self._host.fill(*hosts), [], self._host)
            launched(name, None)
            return None
        into = out._host if isinstance(out, ndarray) else None
        result = perform(lambda: getattr(self._host, name)(*hosts, **options), [self._host], into)
        launched(name, result)
        if name == "argsort" or (name == "repeat" and any(isinstance(arg, ndarray) for arg in args)):
            synchronize(name)
        return out if isinstance(out, ndarray) else wrap(result, self)

    method.__name__ = name
    return method


def check_keywords(name: str, parameters: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise TypeError for an argument that CuPy's function of this name does not have."""
    for keyword in kwargs:
        if keyword not in parameters:
            raise TypeError(f"{name}() got an unexpected keyword argument {keyword!r} (NumPy has it, CuPy has not)")
    if len(args) > len(parameters):
        raise TypeError(f"{name}() takes at most {len(parameters)} arguments ({len(args)} given)")


class ndarray:  # noqa: N801 (CuPy's name)
    """An array "on the device". The functions of the namespace create it."""

    __module__ = "cupy"
    __slots__ = ("__weakref__", "_base", "_host", "device")
    _host: np.ndarray
    _base: Any

    @classmethod
    def _make(cls, host: np.ndarray) -> ndarray:
        self = object.__new__(cls)
        self._host = host
        self._base = None
        self.device = Device()
        return self

    shape = property(lambda self: self._host.shape, lambda self, shape: setattr(self._host, "shape", shape))
    dtype = property(lambda self: self._host.dtype)
    ndim = property(lambda self: self._host.ndim)
    size = property(lambda self: self._host.size)
    strides = property(lambda self: self._host.strides)
    itemsize = property(lambda self: self._host.itemsize)
    nbytes = property(lambda self: self._host.nbytes)
    flags = property(lambda self: SimpleNamespace(**{name: getattr(self._host.flags, name) for name in _FLAGS}))
    T = property(lambda self: wrap(self._host.T, self))
    base = property(lambda self: self._base)
    data = property(lambda self: _Pointer(self._host))

    # -- copies to the host, which waits ---------------------------------------------------------------------------

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> np.ndarray:
        if blocking:
            synchronize("get()")
        if out is not None:
            out[...] = self._host
            return out
        return self._host.copy(order=order)  # type: ignore[call-overload]

    def item(self) -> Any:
        synchronize("item()")
        return self._host.item()

    def tolist(self) -> Any:
        synchronize("tolist()")
        return self._host.tolist()

    def __bool__(self) -> bool:
        synchronize("bool()")
        return bool(self._host)

    def __int__(self) -> int:
        synchronize("int()")
        return int(self._host)

    def __float__(self) -> float:
        synchronize("float()")
        return float(self._host)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")

    def __repr__(self) -> str:
        synchronize("repr()")
        return repr(self._host)

    # -- indexing --------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        if any(isinstance(i, ndarray) and i.dtype == bool for i in _parts(index)):
            synchronize("reading by a boolean mask")
        host_index = unwrap(index, "index")
        if any(isinstance(i, list) for i in _parts(index)):
            refuse("an index from the host")
        return wrap(perform(lambda: np.asarray(self._host[wrapped(host_index, self.shape)]), [self._host]), self)

    def __setitem__(self, index: Any, value: Any) -> None:
        masked = any(isinstance(i, ndarray) and i.dtype == bool for i in _parts(index))
        if masked and isinstance(value, ndarray) and value.ndim:
            synchronize("writing an array by a boolean mask")
        if isinstance(value, np.ndarray) and value.ndim:
            raise TypeError(f"a NumPy array of shape {value.shape} can't be assigned to a device array")
        launched("setitem", None)
        host_index, given = unwrap(index, "index"), value if isinstance(value, np.ndarray) else unwrap(value)
        perform(lambda: self._host.__setitem__(wrapped(host_index, self.shape), given), [], self._host)

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    # -- shape -----------------------------------------------------------------------------------------------------

    def reshape(self, *shape: Any, order: str = "C", copy: Any = None) -> ndarray:
        return wrap(perform(lambda: self._host.reshape(*shape, order=order), [self._host]), self)  # type: ignore[call-overload]

    def transpose(self, *axes: Any) -> ndarray:
        return wrap(self._host.transpose(*axes), self)

    # -- NumPy's functions on device arrays ------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__":
            raise TypeError(f"{ufunc.__name__}.{method} of NumPy does not work on device arrays")
        if "out" in kwargs:
            kwargs["out"] = kwargs["out"][0]
        return call_ufunc(ufunc, *inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from . import cupy

        if not hasattr(cupy, function.__name__):
            return NotImplemented
        return getattr(cupy, function.__name__)(*args, **kwargs)

    __hash__ = None  # type: ignore[assignment]


def _parts(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def wrapped(index: Any, shape: tuple[int, ...]) -> Any:
    """Return the index as CuPy reads it: out-of-range integers in an array wrap around."""
    parts = [np.asarray(part) if isinstance(part, list) and part else part for part in _parts(index)]
    taken = [x.ndim if getattr(x, "dtype", "") == "?" else int(x is not None and x is not ...) for x in parts]
    for place, part in enumerate(parts):
        if isinstance(part, np.ndarray) and part.dtype.kind in "iu":
            axis = len(shape) - sum(taken[place:]) if any(x is ... for x in parts[:place]) else sum(taken[:place])
            parts[place] = part % max(shape[axis], 1)
    return tuple(parts) if any(isinstance(part, np.ndarray) for part in parts) else index


def shapes(operands: Any) -> str:
    """Return the dtype and the dimensions of a product's operands, as in "matmul float16 2 2"."""
    return " ".join(["", operands[0].dtype.name, *(str(operand.ndim) for operand in operands)])


def refuse_products(name: str) -> None:
    if capturing() is not None:
        raise NotImplementedError(f"{name}: calling cuBLAS API during stream capture is currently unsupported")


def call_ufunc(ufunc: Any, *inputs: Any, out: Any = None, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Call a ufunc on device arrays and scalars, with the keywords of CuPy's ufuncs."""
    if out is not None and not isinstance(out, ndarray):
        raise TypeError(f"{ufunc.__name__}: out must be a device array, not {type(out)}")
    keywords: dict[str, Any] = {"casting": casting}
    if dtype is not None:
        keywords["dtype"] = dtype
    if out is not None:
        keywords["out"] = out._host
    if ufunc is np.matmul:
        refuse_products(ufunc.__name__)
    if any(not isinstance(x, (ndarray, *_SCALARS)) for x in inputs):
        raise TypeError(f"{ufunc.__name__}: unsupported type among {[type(x) for x in inputs]}")
    hosts = [unwrap(x, ufunc.__name__) for x in inputs]
    with np.errstate(all="ignore"):  # a device gives no warnings
        result = perform(lambda: ufunc(*hosts, **keywords), [], keywords.get("out"))
    launched(ufunc.__name__ + ("" if ufunc is not np.matmul else shapes(inputs)), None)
    return out if out is not None else wrap(result)


def _operator(ufunc: Any, reflected: bool = False, in_place: bool = False) -> Any:
    def operator(self: ndarray, other: Any) -> Any:
        if not isinstance(other, (ndarray, np.ndarray, *_SCALARS)):
            return NotImplemented
        return call_ufunc(ufunc, *((other, self) if reflected else (self, other)), out=self if in_place else None)

    return operator


_OPERATORS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "lshift": np.left_shift, "rshift": np.right_shift,
}  # fmt: skip
for _name, _ufunc in _OPERATORS.items():
    setattr(ndarray, f"__{_name}__", _operator(_ufunc))
    setattr(ndarray, f"__r{_name}__", _operator(_ufunc, reflected=True))
    setattr(ndarray, f"__i{_name}__", _operator(_ufunc, in_place=True))
ndarray.__matmul__ = _operator(np.matmul)  # type: ignore[attr-defined]
ndarray.__rmatmul__ = _operator(np.matmul, reflected=True)  # type: ignore[attr-defined]
_COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater}
for _name, _ufunc in {**_COMPARISONS, "ge": np.greater_equal}.items():
    setattr(ndarray, f"__{_name}__", _operator(_ufunc))
for _name, _ufunc in {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}.items():
    setattr(ndarray, f"__{_name}__", lambda self, _ufunc=_ufunc: call_ufunc(_ufunc, self))
for _name, _parameters in METHODS.items():
    setattr(ndarray, _name, _method(_name, _parameters))
