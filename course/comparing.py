"""Compares a learner's result with the right one and describes the difference in words."""

from typing import Any

import numpy as np


def difference(yours: Any, right: Any, rtol: float) -> str | None:
    """Describe how `yours` differs from `right`, such as "got 1, expected 2.", or return None if they are equal.

    Arrays and numbers may differ by `rtol` times the largest number, and NaN equals NaN. Arrays of booleans need
    booleans. All other values must be equal (`==`).
    """
    yours, right = (value.item() if isinstance(value, np.generic) else value for value in (yours, right))
    if isinstance(right, (np.ndarray, float)):
        return _of_arrays(yours, np.asarray(right), rtol)
    try:
        equal = bool(yours == right) and (isinstance(yours, bool) == isinstance(right, bool))
    except Exception:  # an array has no single truth value; a learner's class may raise anything
        equal = False
    if equal:
        return None
    if isinstance(right, (list, tuple)) and isinstance(yours, (list, tuple)) and not _short(right):
        return _of_lists(yours, right)
    return f"got {brief(yours)}, expected {brief(right)}."


def _of_arrays(yours: Any, right: np.ndarray, rtol: float) -> str | None:
    if yours is None:
        return "got None: is a `return` missing?"
    try:
        array = np.asarray(yours)
        numbers = array if right.dtype.kind == "b" else array.astype(right.dtype)
    except Exception:  # converting an object of a learner's class may raise anything
        one = yours.flat[0] if isinstance(yours, np.ndarray) and yours.size else yours
        return f"got the type {type(one).__name__}, expected numbers."
    if array.shape != right.shape:
        turned = " It is transposed." if array.ndim > 1 and array.shape == right.shape[::-1] else ""
        return f"got {_numbers(array.shape)}, expected {_numbers(right.shape)}.{turned}"
    if right.dtype.kind == "b" and array.dtype.kind != "b":
        return f"got {array.dtype} numbers, expected True and False."
    allowed = 0.0
    if right.dtype.kind in "biu":
        wrong = array != right
    else:
        finite = np.abs(right[np.isfinite(right)])
        allowed = rtol * float(finite.max(initial=1e-6))
        wrong = ~np.isclose(numbers, right, rtol=0.0, atol=allowed, equal_nan=True)
    if not wrong.any():
        return None
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f" at {list(where)}" if where else ""
    count = f" ({int(wrong.sum())} of {wrong.size} numbers differ)" if wrong.size > 1 else ""
    got, expected = (brief(one[where]) for one in (array, right))
    if got == expected:  # they differ in later digits
        got, expected = str(array[where]), str(right[where])
    text = f"got {got}{place}, expected {expected}{count}."
    return f"{text} {pattern}" if (pattern := _pattern(numbers, right, allowed)) else text


def _pattern(yours: np.ndarray, right: np.ndarray, allowed: float) -> str:
    """Describe a pattern in the wrong numbers, such as reversed signs; return "" if no pattern is found."""

    def same(x: np.ndarray, y: np.ndarray) -> bool:
        return bool((np.abs(x - y) <= allowed).all())

    if right.size < 2 or right.dtype.kind not in "iuf" or not np.isfinite(right).all():
        return ""
    yours, right = yours.astype(float), right.astype(float)
    if np.isnan(yours).any():
        return "NaN comes from 0 / 0, from infinity minus infinity, or from the logarithm of a negative number."
    if not np.isfinite(yours).all() or not right.any():
        return ""
    if same(yours, -right):
        return "All signs are reversed."
    factor = float((yours * right).sum() / (right * right).sum())
    if factor and same(yours, factor * right):
        return f"All numbers are {factor:.6g} times the right ones."
    if same(yours - yours.flat[0], right - right.flat[0]):
        return f"All numbers are too {'large' if yours.flat[0] > right.flat[0] else 'small'} by the same amount."
    if same(np.sort(yours, axis=None), np.sort(right, axis=None)):
        return "The numbers are right, but they are in the wrong places: check the order of the axes, or an index."
    return ""


def _numbers(shape: tuple[int, ...]) -> str:
    return f"the shape {shape}" if shape else "a single number"


def _of_lists(yours: Any, right: Any) -> str:
    for number, (one, other) in enumerate(zip(yours, right, strict=False)):
        if one != other:
            return f"got {brief(one)} at [{number}], expected {brief(other)}."
    return f"got {len(yours)} items, expected {len(right)}."


def _short(value: Any) -> bool:
    return len(repr(value)) <= 100


def brief(value: Any) -> str:
    """Return a value as text of at most 100 characters."""
    if isinstance(value, (float, np.floating)):
        return f"{value:.9g}"
    if isinstance(value, np.ndarray) and value.size > 4:
        return f"an array of the shape {value.shape}"
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 100 else f"{text[:97]}..."
