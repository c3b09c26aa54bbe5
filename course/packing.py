"""Converts the results of a learner's answer to JSON for the process that judges them, and back."""

import base64
import io
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .comparing import brief


@dataclass(frozen=True)
class Raised:
    """An exception: the name of its class, its text, and the message for the learner, which is not compared."""

    kind: str
    text: str
    message: str = field(default="", compare=False)


def packed(value: Any) -> Any:
    """Return `value` in a form for JSON. Only numbers, texts, arrays and collections are kept; others are described."""
    if value is None or isinstance(value, (bool, str, float)) or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biufU":
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufcU":
        stream = io.BytesIO()
        np.save(stream, value, allow_pickle=False)
        return {"array": base64.b64encode(stream.getvalue()).decode("ascii")}
    for kind in (list, tuple):
        if isinstance(value, kind):
            return {kind.__name__: [packed(one) for one in value]}
    if isinstance(value, dict):
        return {"dict": [[packed(key), packed(one)] for key, one in value.items()]}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    return {"other": [type(value).__name__, brief(value)]}


def unpacked(value: Any) -> Any:
    """Return the original value from the result of `packed`. Raises ValueError, TypeError or KeyError for others."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        return np.load(io.BytesIO(base64.b64decode(content)), allow_pickle=False)
    if kind == "bytes":
        return base64.b64decode(content)
    if kind == "dict":
        return {unpacked(key): unpacked(one) for key, one in content}
    if kind == "other":
        name, text = content
        return type(name, (), {"__repr__": lambda self: text})()
    return {"list": list, "tuple": tuple}[kind](unpacked(one) for one in content)
