"""Checks of arguments by their annotations: numbers, flags, names and axes are the right kind, or refused by name.

`@checked` marks functions whose annotated options a caller could confuse: a fraction for a count, a text for a flag,
a Tensor for a number. It also accepts PyTorch's names of parameters, such as `dim` for `axis`.
"""

import functools
import inspect
from collections.abc import Callable, Collection
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args

import numpy as np

from .backend import as_array, is_array, native
from .random import Generator
from .tensor import Tensor, array_of, constant_array

F = TypeVar("F", bound=Callable[..., Any])

#: PyTorch's names of parameters.
ALIASES = {"dim": "axis", "keepdim": "keepdims", "correction": "ddof", "unbiased": "ddof"}
#: Python types that need no further look, for each annotation that is checked; parts of a union are joined.
_QUICK: dict[Any, tuple[type, ...]] = {
    int: (int,), float: (float, int), bool: (bool,), str: (str,), NoneType: (NoneType,), Generator: (Generator,),
    tuple[int, ...]: (tuple,),
}  # fmt: skip
_WORDS = {int: "an integer", float: "a number", bool: "True or False", str: "a string", NoneType: "None",
          Generator: "a Generator", tuple[int, ...]: "a tuple of integers"}  # fmt: skip


def checked(function: F, always: bool = False) -> F:
    """Decorator: check the arguments whose annotation consists of types in `_QUICK`, and convert 0-d arrays and NumPy's
    scalars to Python's numbers. Raises TypeError that names the function and the argument for values of other kinds.
    Other errors get the function's name. A function without such arguments is returned as it is, unless `always`.
    """
    signature = inspect.signature(function)
    parameters = signature.parameters
    kinds = {key: get_args(p.annotation) if isinstance(p.annotation, UnionType) else (p.annotation,)
             for key, p in parameters.items()}  # fmt: skip
    kinds = {key: parts for key, parts in kinds.items() if all(kind in _QUICK for kind in parts)}
    if not kinds and not always:
        return function
    quick: dict[str, Any] = {key: {t for kind in parts for t in _QUICK[kind]} for key, parts in kinds.items()}
    quick |= {alias: () for alias, key in ALIASES.items() if key in parameters and alias not in parameters}
    order = [key for key, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    first = next((place for place, key in enumerate(order) if key in kinds), len(order))
    usual: set[tuple[type, ...]] = set()  # types of positional options that needed no conversion

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        convert = len(args) > first and tuple(map(type, args[first:])) not in usual
        for key, value in kwargs.items():
            if key in quick and type(value) not in quick[key]:
                convert = True
        if convert:
            args, kwargs = converted(named(args), args, dict(kwargs))
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            explained = _explained(named(args), error, list(zip(order, args, strict=False)))
            if explained is None:
                raise
            raise explained from error

    def named(args: Any) -> str:
        return type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__

    def converted(name: str, args: Any, kwargs: Any) -> Any:
        for alias, key in ALIASES.items():
            if alias in kwargs and alias in quick and alias not in kinds:
                value, place = kwargs.pop(alias), order.index(key)
                given = args[place] if place < len(args) else kwargs.get(key)
                if alias == "unbiased":
                    raise TypeError(f"{name}: write ddof=1 for PyTorch's unbiased=True (its default), ddof=0 for False")
                if given is not None and given is not parameters[key].default:
                    raise TypeError(f"{name}: {alias} is PyTorch's name of {key}; use only one of the two names")
                if place < len(args):
                    args = (*args[:place], value, *args[place + 1 :])
                else:
                    kwargs[key] = value

        def fit(key: str, value: Any) -> Any:
            right = key not in kinds or type(value) in quick[key]
            return value if right else _converted(f"{name}: {key}", value, kinds[key])

        fitted = [fit(key, value) for key, value in zip([*order, *[""] * len(args)], args, strict=False)]
        if all(new is old for new, old in zip(fitted, args, strict=True)):
            usual.add(tuple(map(type, args[first:])))
        return fitted, {key: fit(key, value) for key, value in kwargs.items()}

    checked_call: Any = call
    return checked_call


def _explained(name: str, error: Exception, operands: list[tuple[str, Any]]) -> Exception | None:
    """Return an error that names the function and a wrong operand, or None if `error` names the function already."""
    if name.replace("_", "").lower() in str(error).replace("_", "").lower():
        return None
    if isinstance(error, AttributeError):
        plain = (str, bytes, int, float, complex, list, tuple, dict, NoneType)
        wrong = [f"{key} is {value!r:.60}" for key, value in operands if isinstance(value, plain)]
        return TypeError(f"{name}: an argument is of a wrong kind: {', '.join(wrong)}") if wrong else None
    kind = next((kind for kind in (ValueError, TypeError, IndexError) if isinstance(error, kind)), ValueError)
    return kind(f"{name}: {error}")


def integers(name: str, values: Any) -> Any:
    """Return indices, counts or sizes as an array, which is of integers if it is empty. Raises TypeError for others."""
    values = array_of(values)
    if not is_array(values):
        values = as_array(values, name)
        values = values if values.size else values.astype(int)
    if values.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, not {values.dtype}")
    return native(values)


def sizes(name: str, values: Any) -> tuple[int, ...]:
    """Return a shape, or axes, as a tuple. Raises TypeError, with `name`, for what is not integers."""
    return values if type(values) is tuple else tuple(np.atleast_1d(integers(name, values)).tolist())


def one_of(name: str, value: Any, words: Collection[str]) -> Any:
    """Return an argument that is one of these words. Raises ValueError, with `name`, for another."""
    if value not in words:
        raise ValueError(f"{name} must be one of {', '.join(words)}, not {value!r:.60}")
    return value


def flag(name: str, value: Any) -> bool:
    """Return an argument that is True or False. Raises TypeError, with `name`, for others."""
    return value if type(value) is bool else _converted(name, value, (bool,))


def _converted(name: str, value: Any, kinds: tuple[Any, ...]) -> Any:
    """Return an argument as Python's number, string, ... of one of these kinds. Raises TypeError for another value."""
    if Generator in kinds and hasattr(value, "keep_mask"):
        return value
    if int in kinds and isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if getattr(value, "shape", None) == ():  # a NumPy scalar, a 0-d array or Tensor
        kind = constant_array(value, name).dtype.kind
        for wanted, letters in ((bool, "b"), (int, "iu"), (float, "iuf")):
            if wanted in kinds and kind in letters:
                return wanted(value)
    if bool in kinds and type(value) is int and value in (0, 1):
        return bool(value)
    if tuple[int, ...] in kinds and isinstance(value, list | np.ndarray | Tensor):
        return sizes(name, value)
    words = " or ".join(_WORDS[kind] for kind in kinds)
    shown = f"{value.dtype}{list(value.shape)}" if hasattr(value, "shape") else f"{value!r:.60}"
    raise TypeError(f"{name} must be {words}, not {shown}")
