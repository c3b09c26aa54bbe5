"""Every argument of every op is given values of other kinds: the result is right, or the error names the op.

The ops and their parameters come from their signatures, so that a new op is tested without an entry here.
"""

import inspect
import re
import warnings
import zlib
from collections.abc import Callable, Iterator
from types import NoneType, UnionType
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.autograd import Generator, Tensor
from handloom.autograd.catalogue import CATALOGUE
from handloom.autograd.ops import OPS

#: Values that fit few parameters. A result is allowed only for the kinds in `ACCEPTED`.
OTHER: dict[str, Any] = {
    "text": "a", "None": None, "nan": float("nan"), "negative": -7, "zero": 0, "bool": True, "fraction": 1.5,
    "object": object(), "list": [1, 2], "texts": ["a", "b"], "uneven": [[1], [1, 2]], "dict": {}, "function": len,
    "tensor": Tensor(np.ones(3, np.float32)), "leaf": Tensor(np.ones((), np.float32), requires_grad=True),
    "huge": 10**30, "complex": 1j, "bytes": b"a",
}  # fmt: skip
NUMBERS = {"nan", "negative", "zero", "bool", "fraction", "list", "tensor", "leaf", "huge", "complex"}
ACCEPTED: dict[Any, set[str]] = {
    bool: {"zero", "bool"},  # 0 and 1
    int: {"negative", "zero", "huge"},
    float: {"nan", "negative", "zero", "fraction", "huge"},
    NoneType: {"None"},
    str: set(),
    tuple[int, ...]: {"list"},
    Generator: set(),
    Any: NUMBERS,
}
#: Parameters without a single annotation that tells what they accept.
ALSO = {"None": {"bias", "weight", "index", "axes"}, "uneven": {"tensors"}}


def other_forms(value: Any) -> dict[str, Any]:
    """Return the same value in other forms, with which the result must be the same."""
    if type(value) in (int, float, bool):
        numpys = {int: np.int64, float: np.float64, bool: np.bool_}[type(value)](value)
        return {"NumPy's": numpys, "0-d array": np.array(value), "0-d Tensor": Tensor(np.array(value))}
    if isinstance(value, tuple | list) and value and all(type(part) is int for part in value):
        return {"list": list(value), "tuple": tuple(value), "array": np.array(value), "Tensor": Tensor(np.array(value))}
    return {"Tensor": Tensor(value)} if isinstance(value, np.ndarray) else {}


def calls(name: str, seed: int, count: int) -> Iterator[tuple[dict[str, Any], Callable[[str, Any], Any]]]:
    """Yield the arguments of some calls of an op, and a function that repeats the call with one of them replaced."""
    function = OPS[name].function
    signature = inspect.signature(function)
    for sample in CATALOGUE[name].samples(np.random.default_rng(seed), np.float32, count=count):
        args, kwargs = list(sample.args), {key: value for key, value in sample.kwargs.items() if key != "seed"}
        if name in ("concatenate", "stack"):
            args = [args]
        if name == "linear_cross_entropy":
            args[2:] = [args[3] if len(args) > 3 else None, args[2]]
        if name == "attention" and len(args) > 3:
            kwargs["bias"] = args.pop()
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def call(key: str, value: Any, bound: inspect.BoundArguments = bound) -> Any:
            arguments = {**bound.arguments, **({"generator": Generator(3)} if "generator" in bound.arguments else {})}
            if key and signature.parameters[key].kind is inspect.Parameter.VAR_POSITIONAL:
                value = (value, *arguments[key][1:])
            again = inspect.BoundArguments(signature, {**arguments, **({key: value} if key else {})})  # type: ignore[arg-type]
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NumPy's about empty means and too few degrees of freedom
                return function(*again.args, **again.kwargs)

        yield bound.arguments, call


def refused_by_name(name: str, error: Exception) -> bool:
    says = re.sub("_", "", str(error)).lower()
    return type(error) in (TypeError, ValueError, IndexError) and "\n" not in says and name.replace("_", "") in says


@pytest.mark.parametrize("name", sorted(OPS))
def test_another_kind_is_right_or_refused_by_name(name: str) -> None:
    check_kinds(name, zlib.crc32(name.encode()), 4)


@pytest.mark.search
@given(name=st.sampled_from(sorted(OPS)), seed=st.integers(0, 2**32 - 1))
def test_other_kinds_in_more_calls(name: str, seed: int) -> None:
    check_kinds(name, seed, 1)


def check_kinds(name: str, seed: int, count: int) -> None:
    parameters = inspect.signature(OPS[name].function).parameters
    wrong: set[str] = set()
    for arguments, call in calls(name, seed, count):
        expected = call("", None)
        for key, parameter in parameters.items():
            annotation: Any = parameter.annotation
            kinds = get_args(annotation) if isinstance(annotation, UnionType) else [annotation]
            accepted = set[str]().union(*(ACCEPTED.get(kind, NUMBERS) for kind in kinds))
            accepted |= {kind for kind, keys in ALSO.items() if key in keys}
            accepted |= {"None"} if parameter.default is None else set()
            forms = {} if key == "index" else other_forms(arguments[key])  # a list of indices is no tuple of them
            others = {f"a {kind}": value for kind, value in OTHER.items() if kind != "huge" or annotation is not Any}
            for kind, value in {**forms, **others}.items():
                try:
                    result = call(key, value)
                except Exception as error:
                    if not refused_by_name(name, error):
                        wrong.add(f"{key} = {kind}: {type(error).__name__} {error}")
                else:
                    if kind in forms:
                        if not same(result, expected, exact=kind == "NumPy's"):
                            wrong.add(f"{key} = {kind} of {arguments[key]!r}: another result")
                    elif kind.removeprefix("a ") not in accepted and value is not arguments[key]:
                        wrong.add(f"{key} = {kind}: accepted")
    assert not wrong, "\n".join(sorted(wrong))


def same(result: Any, expected: Any, exact: bool) -> bool:
    """Return whether results agree; a 0-d array of float64 is not weak, so that its result may have another dtype."""
    pairs = zip(*(out if isinstance(out, tuple) else (out,) for out in (result, expected)), strict=True)
    return all(
        np.array_equal(a.data, b.data, equal_nan=True)
        if exact
        else a.shape == b.shape and np.allclose(a.data, b.data, rtol=1e-3, atol=1e-3, equal_nan=True)
        for a, b in pairs
    )
