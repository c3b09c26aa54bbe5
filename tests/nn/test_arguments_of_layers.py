"""Every option of every layer and initialiser is given values of other kinds: they are right, or refused by name."""

import inspect
from collections.abc import Callable
from types import UnionType
from typing import Any, get_args

import numpy as np
import pytest

from handloom import nn
from handloom.autograd import Parameter
from tests.autograd.ops.test_argument_kinds import ACCEPTED, OTHER

CHECKED = {kind for kind in ACCEPTED if kind is not Any}
#: Arguments without a default, by name or else by annotation.
GIVEN = {"num_heads": 2, "normalized_shape": 4, "input_size": 4, int: 4, float: 0.5}
#: Strings that are checked only when the layer is called.
LATER = {("GELU", "approximate"), ("MultiHeadAttention", "method")}


def kinds_of(annotation: Any) -> set[Any]:
    return set(get_args(annotation) if isinstance(annotation, UnionType) else [annotation])


def wrong_outcomes(
    name: str, function: Callable[..., Any], parameters: dict[str, inspect.Parameter], given: Any
) -> Any:
    for key, parameter in parameters.items():
        kinds = kinds_of(parameter.annotation)
        if not kinds <= CHECKED:
            continue
        accepted = set[str]().union(*(ACCEPTED[kind] for kind in kinds))
        for kind, value in OTHER.items():
            if kind == "huge":  # would be made
                continue
            try:
                function(**{**given(), key: value})
            except Exception as error:
                if type(error) not in (TypeError, ValueError, IndexError) or name not in str(error):
                    yield f"{key} = {kind}: {type(error).__name__} {error}"
            else:
                if kind not in accepted and (name, key) not in LATER:
                    yield f"{key} = {kind}: accepted"


def layers() -> dict[str, Any]:
    found = {name: getattr(nn, name) for name in nn.__all__}
    modules = {n: c for n, c in found.items() if isinstance(c, type) and issubclass(c, nn.Module)}
    return {name: kind for name, kind in modules.items() if kind.__init__ is not object.__init__}


@pytest.mark.parametrize("name", layers())
def test_an_option_of_a_layer_is_right_or_refused_by_name(name: str) -> None:
    kind = layers()[name]
    parameters = dict(list(inspect.signature(kind.__init__).parameters.items())[1:])
    named = {key: p for key, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    given = {k: GIVEN.get(k, GIVEN.get(p.annotation)) for k, p in named.items() if p.default is p.empty}
    if None in given.values():  # modules, which tests/nn/test_module.py gives
        given = None if any(kinds_of(p.annotation) <= CHECKED for p in named.values()) else {}
    assert given is not None, f"GIVEN needs a value for each argument of {name}"
    assert list(wrong_outcomes(name, kind, named, lambda: given)) == []


@pytest.mark.parametrize("name", [name for name in vars(nn.init) if name[-1] == "_" and name[0] != "_"])
def test_an_option_of_an_initialiser_is_right_or_refused_by_name(name: str) -> None:
    function = getattr(nn.init, name)
    parameters = dict(inspect.signature(function).parameters)
    required = {k: 0.5 for k, p in parameters.items() if p.default is p.empty and k != "tensor"}
    given = lambda: {"tensor": Parameter(np.ones((4, 4), np.float32)), **required}  # noqa: E731
    assert list(wrong_outcomes(name, function, parameters, given)) == []
