"""Temporary mistakes in the engine's source, to test whether the checks find them."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any


def function_at(where: str) -> FunctionType:
    """Return the function at "module:function" or "module:Class.method", or an op's rule at "module:op.gradient"."""
    module, _, path = where.partition(":")
    found: Any = sys.modules[f"{__name__.split('.')[0]}.autograd.{module}"]
    for part in path.split("."):
        found = inspect.unwrap(vars(found)[part])  # below functools.cache, say
    if isinstance(found, property):
        found = found.fget
    assert isinstance(found, FunctionType), where
    return found


def source_of(function: Any) -> str:
    """Return the source of a function. For a lambda, return the whole statement that contains the lambda."""
    if function.__name__ != "<lambda>":
        return textwrap.dedent(inspect.getsource(function))
    lines, first = inspect.getsource(sys.modules[function.__module__]), function.__code__.co_firstlineno
    (statement,) = [node for node in ast.parse(lines).body if node.lineno <= first <= (node.end_lineno or 0)]
    return ast.get_source_segment(lines, statement) or ""


@contextmanager
def planted(where: str, old: str, new: str) -> Iterator[None]:
    """Replace `old` by `new` in the source of a function within the `with` block, in all threads. The replacement
    affects all references to the function. Raises ValueError unless `old` occurs once.
    """
    function = function_at(where)
    source = source_of(function)
    if source.count(old) != 1:
        raise ValueError(f"{where}: the text to replace, {old!r}, occurs {source.count(old)} times")
    tree = ast.parse(source.replace(old, new))
    definition = tree.body[0]
    if isinstance(definition, ast.Assign):  # the row of a table, whose first lambda is the gradient
        rule = next(node for node in ast.walk(definition) if isinstance(node, ast.Lambda))
        tree.body = [ast.Assign([ast.Name("planted", ast.Store())], rule)]
    else:
        assert isinstance(definition, ast.FunctionDef)
        definition.decorator_list, definition.name = [], "planted"
    namespace: dict[str, Any] = {}
    code = compile(ast.fix_missing_locations(tree), where, "exec", flags=0)
    exec(code, vars(sys.modules[function.__module__]), namespace)
    original = function.__code__
    function.__code__ = namespace["planted"].__code__
    try:
        yield
    finally:
        function.__code__ = original
