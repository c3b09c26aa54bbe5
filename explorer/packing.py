"""Convert arrays and numbers to the page's format, JSON without NaN and with arrays in base64."""

import base64
import json
import math
from typing import Any

import numpy as np


def packed(array: Any, dtype: Any = np.float32) -> dict[str, Any]:
    """Return an array's shape, and its numbers (little-endian, in base64), for JSON.

    Args:
        dtype: float32, or float64 if more than seven digits are needed.
    """
    array = np.ascontiguousarray(array, np.dtype(dtype).newbyteorder("<"))
    return {
        "shape": list(array.shape),
        "type": f"float{8 * array.itemsize}",
        "data": base64.b64encode(array.tobytes()).decode("ascii"),
    }


def to_json(value: Any) -> bytes:
    """Return JSON in UTF-8. NaN and infinities become the strings "NaN", "Infinity" and "-Infinity"."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def spread(values: Any, most: int) -> np.ndarray:
    """Return at most `most` evenly spaced elements of `values`, including the first and the last."""
    values = np.asarray(values, np.int64)
    return values[np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(int)]
