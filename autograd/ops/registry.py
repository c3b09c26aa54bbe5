"""The catalogue of ops: each public function with the slow NumPy text it must agree with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Op(NamedTuple):
    """A public op and its reference: the same signature, on NumPy arrays, written for clarity and not for speed."""

    function: Callable[..., Any]
    reference: Callable[..., Any]


OPS: dict[str, Op] = {}


def declare(reference: Callable[..., Any]) -> Callable[[F], F]:
    """Enter a function into the catalogue with its reference. The tests draw inputs for every entry."""

    def enter(function: F) -> F:
        OPS[function.__name__] = Op(function, reference)
        return function

    return enter
