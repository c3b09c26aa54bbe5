"""Planting a mistake in the engine temporarily, to test whether the checks notice it."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any


def function_at(where: str) -> FunctionType:
    """The function at "module:function" or "module:Class.method" of the engine, or below a property."""
    module, _, path = where.partition(":")
    found: Any = sys.modules[f"{__name__.split('.')[0]}.autograd.{module}"]
    for part in path.split("."):
        found = vars(found)[part]
    if isinstance(found, property):
        found = found.fget
    assert isinstance(found, FunctionType), where
    return found


@contextmanager
def planted(where: str, old: str, new: str) -> Iterator[None]:
    """Within the `with` block the function runs with `old` replaced by `new` in its source, in all threads.

    All references to the function are affected. Raises ValueError unless `old` occurs once.
    """
    function = function_at(where)
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(old) != 1:
        raise ValueError(f"{where}: the text to replace, {old!r}, occurs {source.count(old)} times")
    tree = ast.parse(source.replace(old, new))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    namespace: dict[str, Any] = {}
    exec(compile(tree, where, "exec", flags=0), vars(sys.modules[function.__module__]), namespace)
    original = function.__code__
    function.__code__ = namespace[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = original
