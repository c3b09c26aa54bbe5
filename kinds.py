"""Checks of arguments by their annotations: numbers, flags, names, objects and lists of them, or refused by name.

`@checked` marks functions and classes whose arguments a caller could confuse: a fraction for a count, a text for a list
of texts, a model for its state. It also accepts PyTorch's names of parameters, such as `dim` for `axis`.
"""

import functools
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from .errors import short

F = TypeVar("F", bound=Callable[..., Any])

#: PyTorch's names of parameters.
ALIASES = {"dim": "axis", "keepdim": "keepdims", "correction": "ddof", "unbiased": "ddof"}
#: Python types that need no further look, for each annotation of a number, a flag or a name.
_QUICK: dict[Any, tuple[type, ...]] = {
    int: (int,), float: (float, int), bool: (bool,), str: (str,), NoneType: (NoneType,), tuple[int, ...]: (tuple,),
}  # fmt: skip
_WORDS = {int: "a whole number", float: "a number", bool: "True or False", str: "a string", NoneType: "None",
          Path: "a path"}  # fmt: skip
#: Functions that return a value as one of the kind, or None: `autograd/arguments.py` adds the kinds of arrays.
CONVERT: dict[Any, Callable[[Any], Any]] = {Path: lambda value: value if isinstance(value, os.PathLike) else None}
_LISTS = (Sequence, Iterable, Collection, list)
_MISFIT = object()


def checked(function: F, explains: bool = False, always: bool = False) -> F:
    """Decorator of a function, or of a class for its `__init__` and public methods: check the arguments by their
    annotations.

    0-d arrays and NumPy's scalars become Python's numbers, and iterators that are given as sequences become lists. An
    annotation that isn't a Python type, a collection of them, or `Annotated` with a rule (`rule.hold(value)`) allows
    everything. Raises TypeError that names the function and the argument for a value of another kind, and ValueError
    for a number that the rule does not allow. If it `explains`, other errors get the function's name. A function
    without such arguments is returned as it is, unless `always`.
    """
    if isinstance(function, type):
        for name, value in list(vars(function).items()):
            if inspect.isfunction(value) and (name == "__init__" or name[0] != "_") and name != "forward":
                setattr(function, name, checked(value, explains))
            elif isinstance(value, classmethod) and name[0] != "_":
                setattr(function, name, classmethod(checked(value.__func__, explains)))
        return function
    signature = inspect.signature(function)
    if not any(isinstance(p.annotation, str) for p in signature.parameters.values()):
        return _checked(function, {key: p.annotation for key, p in signature.parameters.items()}, explains, always)

    def hint(annotation: Any) -> Any:
        try:
            return eval(annotation, function.__globals__) if isinstance(annotation, str) else annotation
        except NameError:  # a type that is imported for type checkers only
            return Any

    @functools.cache
    def resolved() -> Any:  # at the first call, when all modules are imported
        hints = {key: hint(p.annotation) for key, p in signature.parameters.items()}
        return _checked(function, hints, explains, always=True)

    return cast(F, functools.wraps(function)(lambda *args, **kwargs: resolved()(*args, **kwargs)))


#: For ops and layers, whose errors name them.
checked_op = functools.partial(checked, explains=True)


def _checked(function: F, hints: Mapping[str, Any], explains: bool, always: bool) -> F:
    parameters = inspect.signature(function).parameters
    usual_kind = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    kinds = {key: _parts(hints[key]) for key, p in parameters.items() if p.kind in usual_kind and key in hints}
    # Ops check numbers, flags and names only: what they do with arrays and lists tells more, and costs nothing here.
    is_checked = _is_known if always or not explains else lambda kind: kind in _QUICK or kind in CONVERT
    kinds = {key: parts for key, parts in kinds.items() if parts and all(map(is_checked, parts))}
    if not kinds and not always:
        return function
    quick: dict[str, Any] = {key: {t for kind in parts for t in _quick(kind)} for key, parts in kinds.items()}
    quick |= {alias: () for alias, key in ALIASES.items() if key in parameters and alias not in parameters}
    order = [key for key, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    first = next((place for place, key in enumerate(order) if key in kinds), len(order))
    by_type = all(_quick(kind) for parts in kinds.values() for kind in parts)
    usual: set[tuple[type, ...]] = set()  # types of positional options that needed no conversion

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        convert = len(args) > first and tuple(map(type, args[first:])) not in usual
        for key, value in kwargs.items():
            if key in quick and type(value) not in quick[key]:
                convert = True
        if convert:
            args, kwargs = converted(named(args), args, dict(kwargs))
        if not explains:
            return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            explained = _explained(named(args), error, list(zip(order, args, strict=False)))
            if explained is None:
                raise
            raise explained from error

    def named(args: Any) -> str:
        if order[:1] not in (["self"], ["cls"]):
            return function.__name__
        owner = args[0] if isinstance(args[0], type) else type(args[0])
        return owner.__name__ + ("" if function.__name__ == "__init__" else f".{function.__name__}")

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
            return value if right else argument(f"{name}: {key}", value, kinds[key])

        fitted = [fit(key, value) for key, value in zip([*order, *[""] * len(args)], args, strict=False)]
        if by_type and all(new is old for new, old in zip(fitted, args, strict=True)):
            usual.add(tuple(map(type, args[first:])))
        return fitted, {key: fit(key, value) for key, value in kwargs.items()}

    return cast(F, call)


def _explained(name: str, error: Exception, operands: list[tuple[str, Any]]) -> Exception | None:
    """Return an error that names the function and a wrong operand, or None if `error` names the function already."""
    text = str(error).replace("tuple index out of range", "an operand has too few axes")
    if name.replace("_", "").lower() in text.replace("_", "").lower() and text == str(error):
        return None
    if isinstance(error, AttributeError):
        wrong = [f"{key} is {_shown(value)}" for key, value in operands if not hasattr(value, "shape")]
        return TypeError(f"{name}: an argument is of a wrong kind: {', '.join(wrong)}") if wrong else None
    kind = next((kind for kind in (ValueError, TypeError, IndexError) if isinstance(error, kind)), ValueError)
    return kind(f"{name}: {text}")


def argument(name: str, value: Any, kind: Any) -> Any:
    """Return an argument as a value that the annotation `kind`, or the parts of a union, allows: see `checked`."""
    kinds = kind if isinstance(kind, tuple) else _parts(kind)
    if getattr(value, "requires_grad", False) is True and any(one in _QUICK and one is not NoneType for one in kinds):
        raise TypeError(f"{name}: a Tensor that requires a gradient would get none here: pass its .detach()")
    for one in kinds:
        if (found := _fitted(one, value)) is not _MISFIT:
            return found
    plain = value.item() if getattr(value, "shape", None) == () else value
    origins = {get_origin(one) for one in kinds}
    ruled = Literal in origins or any(
        kind in origins and isinstance(plain, types) for kind, types in ((Annotated, int | float), (tuple, tuple))
    )
    shown = _shown(value)
    if isinstance(value, list | tuple):
        of = next(filter(None, map(_item_kinds, kinds)), (Any,))
        wrong = next((n for n, one in enumerate(value) if of != (Any,) and not _fits(of, one)), None)
        shown = shown if wrong is None else f"one with {short(value[wrong])} at index {wrong}"
    error = ValueError if ruled and not isinstance(plain, bool) else TypeError
    raise error(f"{name} is {shown}, but it must be {_either(kinds)}")


def _shown(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype}{list(value.shape)}" if value.shape else repr(value.item())
    if isinstance(value, type):
        return f"the class {value.__name__}"
    plain = isinstance(value, str | bytes | int | float | complex | list | tuple | dict | None)
    return short(value) if plain else type(value).__name__


def one_of(name: str, value: Any, words: Collection[str]) -> Any:
    """Return an argument that is one of these words. Raises ValueError, with `name`, for another."""
    if value not in words:
        raise ValueError(f"{name} must be one of {', '.join(words)}, not {value!r:.60}")
    return value


def _parts(kind: Any) -> tuple[Any, ...]:
    """Return the parts of a union, or the annotation alone."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (NoneType if kind is None else kind,)


def _is_known(kind: Any) -> bool:
    """Return whether `_fitted` can decide about values."""
    origin = get_origin(kind)
    if origin is Annotated:
        return get_args(kind)[0] in _QUICK and hasattr(get_args(kind)[1], "hold")
    if origin is tuple:
        return kind in _QUICK or all(_is_known(part) for part in get_args(kind) if part is not ...)
    if origin in (Literal, Callable, Mapping, dict, *_LISTS):
        return True
    is_class = isinstance(kind, type) and kind not in (Any, inspect.Parameter.empty)
    return kind in _QUICK or (is_class and not getattr(kind, "_is_protocol", False))


def _quick(kind: Any) -> tuple[type, ...]:
    """Return the types whose values the annotation allows without a further look."""
    if get_origin(kind) in _LISTS and not _item_kinds(kind):
        return (list, tuple)
    return _QUICK.get(kind) or ((kind,) if isinstance(kind, type) else ())


@functools.cache
def _item_kinds(kind: Any) -> tuple[Any, ...]:
    """Return the kinds of a list's items that are checked, or () for numbers and unknown kinds."""
    kinds = _parts(get_args(kind)[0]) if get_origin(kind) in _LISTS and get_args(kind) else ()
    checks = all(one is str or (one not in _QUICK and one is not object and _is_known(one)) for one in kinds)
    return kinds if checks else ()


def _fits(kinds: tuple[Any, ...], value: Any) -> bool:
    return any(_fitted(one, value) is not _MISFIT for one in kinds)


def _fitted(kind: Any, value: Any) -> Any:
    """Return the value as `kind` allows it, or _MISFIT."""
    origin, inner = get_origin(kind), get_args(kind)
    if type(value) in _quick(kind):
        return value
    if origin is Annotated:
        value = _fitted(inner[0], value.detach() if hasattr(value, "detach") else value)
        return value if value is not _MISFIT and inner[1].hold(value) else _MISFIT
    if kind in CONVERT:
        return _MISFIT if (found := CONVERT[kind](value)) is None else found
    if kind in (int, float, bool):
        if getattr(value, "shape", None) == ():  # a NumPy scalar, a 0-d array or Tensor
            letters = {bool: "b", int: "iu", float: "iuf"}[kind]
            return kind(value) if value.dtype.kind in letters else _MISFIT
        if kind is bool:
            return bool(value) if type(value) is int and value in (0, 1) else _MISFIT
        return kind(value) if isinstance(value, int | kind) and not isinstance(value, bool) else _MISFIT
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return _MISFIT
        each = inner[:1] * len(value) if inner[-1] is ... else inner
        found = tuple(map(_fitted, each, value))
        return _MISFIT if len(each) != len(value) or any(one is _MISFIT for one in found) else found
    if origin in _LISTS:
        single = isinstance(value, str | bytes | Mapping) or getattr(value, "shape", None) == ()
        if single or not hasattr(value, "__iter__"):
            return _MISFIT
        value = list(value) if isinstance(value, Iterator) and origin is not Iterable else value
        of = _item_kinds(kind)
        items = {type(item): item for item in value} if of and isinstance(value, list | tuple) else {}  # one of each
        return value if all(_fits(of, item) for item in items.values()) else _MISFIT
    if origin is Literal:
        right = any(value == word and type(value) is type(word) for word in inner)
    elif origin is Callable or kind is Callable:
        right = callable(value)
    else:
        right = isinstance(value, origin or kind)
    return value if right else _MISFIT


def _described(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return f"{_WORDS[inner[0]]} {inner[1]}"
    if origin is Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if origin is Callable:
        return "a function"
    if origin in (Mapping, dict):
        return "a dict"
    if origin in (tuple, *_LISTS):
        words = dict.fromkeys(_plural(_either(_parts(part))) for part in inner if part not in (Any, ...))
        return f"a {'tuple' if origin is tuple else 'list'}" + (f" of {' and '.join(words)}" if words else "")
    if kind in _WORDS:
        return _WORDS[kind]
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"


def _either(kinds: Sequence[Any]) -> str:
    *others, last = map(_described, kinds)
    return f"{', '.join(others)} or {last}" if others else last


def _plural(words: str) -> str:
    return re.sub("(?= of | from |$)", "s", words.removeprefix("a ").removeprefix("an "), count=1)
