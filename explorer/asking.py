"""Validate the type and the bounds of each value in the page's requests."""

import math
from collections.abc import Collection
from typing import Any

from ..errors import InputError, short

LONGEST_TEXT = 4000  # characters
MAX_HEADS_OFF = 256  # heads


class Ask:
    """The JSON object of a request, whose methods raise InputError for an invalid value."""

    def __init__(self, body: Any):
        if not isinstance(body, dict):
            raise InputError("A request must be a JSON object.")
        self.body = body

    def text(self, name: str = "text", longest: int = LONGEST_TEXT) -> str:
        """Return a string of at most `longest` characters; it may be empty."""
        value = self.body.get(name, "")
        if not isinstance(value, str):
            raise InputError(f"{name} must be a string.")
        if len(value) > longest:
            raise InputError(f"The text has {len(value):,} characters; at most {longest:,} are allowed. Shorten it.")
        return value

    def whole(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """Return a whole number from `low` to `high`."""
        value = self.body.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InputError(f"{name} must be a whole number from {low} to {high}, not {short(value)}.")
        return value

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """Return a number from `low` to `high`."""
        value: Any = self.body.get(name, default)
        wrong = isinstance(value, bool) or not isinstance(value, (int, float))
        if wrong or not math.isfinite(value) or not low <= value <= high:
            raise InputError(f"{name} must be a number from {low} to {high}, not {short(value)}.")
        return float(value)

    def choice(self, name: str, allowed: Collection[str], default: str | None = None) -> str:
        """Return one of the words in `allowed`."""
        value = self.body.get(name, default)
        if not isinstance(value, str) or value not in allowed:
            raise InputError(f"{name} must be one of {', '.join(allowed) or 'nothing yet'}, not {short(value)}.")
        return value

    def names(self, name: str, most: int) -> list[str]:
        """Return a list of at most `most` strings."""
        value = self.body.get(name, [])
        if not isinstance(value, list) or len(value) > most or not all(isinstance(one, str) for one in value):
            raise InputError(f"{name} must be a list of at most {most} strings.")
        return value

    def heads_off(self) -> list[str]:
        """Return the heads that are switched off, such as "encoder.layers.0.self_attn/1"."""
        return self.names("off", MAX_HEADS_OFF)
