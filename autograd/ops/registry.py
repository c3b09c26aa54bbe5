"""The registry of ops: each public function, its NumPy reference, and the forms that compute it.

A form is one implementation of an op. The *plain* form, a Function class or a function, comes first in the op's file:
it is written for readers and takes any array. Most ops have no other. The large ops of a training step also have quick
forms in `fast/` and `kernels/`, each with the condition under which it takes a call:

    @form(Linear, "cpu", on_cpu)
    class LinearOnCPU(Linear): ...

A public function checks and converts its arguments and calls `serve(Linear, operands)`, which runs the first form, in
the order of `ORDER`, whose condition holds. Only quick forms deal with threads, devices and kernels.

`with plain():` turns the quick forms off, HANDLOOM_PLAIN=1 in the environment doesn't even import them; `explain` says
which form serves a call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ..backend import array_module
from ..function import Function, run
from ..origin import no_grad
from ..quick import PLAIN
from ..tensor import array_of

F = TypeVar("F", bound=Callable[..., Any])
#: Why a form can't take a call, from its arrays and options; None if it can.
WhyNot = Callable[[list[Any], dict[str, Any]], str | None]


class Op(NamedTuple):
    """A public function and its reference: the same signature, on NumPy arrays, written for clarity, not for speed."""

    function: Callable[..., Any]
    reference: Callable[..., Any]


class Form(NamedTuple):
    """An implementation of an op: a Function class, constructed from options, or a function of operands and options."""

    name: str
    compute: Callable[..., Any]
    why_not: WhyNot


#: The names of forms, in the order in which they are tried. "standard", "blocked" and "fused" are attention's.
ORDER = ("in place", "fused", "blocked", "compiled", "cpu", "device", "standard")
OPS: dict[str, Op] = {}
#: The quick forms of each plain form that has some, in that order.
QUICK: dict[Callable[..., Any], list[Form]] = {}


def declare(reference: Callable[..., Any]) -> Callable[[F], F]:
    """Decorator: register a public op with its reference. The tests compare the two on inputs that they draw."""

    def enter(function: F) -> F:
        OPS[function.__name__] = Op(function, reference)
        return function

    return enter


def form(plain: Callable[..., Any], name: str, why_not: WhyNot) -> Callable[[F], F]:
    """Decorator: register a class or a function as the quick form `name` of the op whose plain form is `plain`."""

    def enter(compute: F) -> F:
        forms = QUICK.setdefault(plain, [])
        forms.append(Form(name, compute, why_not))
        forms.sort(key=lambda known: ORDER.index(known.name))
        for made, of in ((plain, "plain"), (compute, name)):
            if isinstance(made, type):
                known: Any = made
                known.plain_form, known.form = staticmethod(plain), of
        return compute

    return enter


def serve(plain: Callable[..., Any], operands: tuple[Any, ...], **options: Any) -> Any:
    """Run the first quick form that takes these operands (Tensors or arrays) and options, or else the plain one."""
    if _mode.asked:
        raise _Asked(plain, operands, options)
    return _run(_chosen(plain, operands, options), operands, options)


def _run(compute: Callable[..., Any], operands: tuple[Any, ...], options: dict[str, Any]) -> Any:
    if not isinstance(compute, type):
        return compute(*operands, **options)
    call = compute(**options)
    call._options = options
    return call(*operands)


def _chosen(plain: Callable[..., Any], operands: tuple[Any, ...], options: dict[str, Any]) -> Callable[..., Any]:
    if not _mode.plain and plain in QUICK:
        arrays = [array_of(operand) for operand in operands]
        for quick in QUICK[plain]:
            if quick.why_not(arrays, options) is None:
                return quick.compute
    return plain


def run_form(plain: Callable[..., Any], *operands: Any) -> Any:
    """`run` of the form that serves: for backward rules, of an op without options whose forms are all classes."""
    return run(_chosen(plain, operands, {})(), *operands)


def refused_by(plain: Callable[..., Any], name: str, operands: tuple[Any, ...], **options: Any) -> str | None:
    """Why the quick form `name` can't take these operands; None if it can."""
    for known in QUICK.get(plain, ()):
        if known.name == name:
            return known.why_not([array_of(operand) for operand in operands], options)
    return "HANDLOOM_PLAIN=1 leaves it out"


def on_cpu(arrays: list[Any], options: dict[str, Any]) -> str | None:
    """The condition of the forms for NumPy arrays."""
    return None if array_module(*arrays) is np else "the arrays are on a device"


def through_plain(call: Any, *inputs: Any) -> Any:
    """The `composed` of quick forms: the same call by the plain form, whose backward pass can be recorded.

    A quick form that draws a dropout mask returns it again from `dropout_mask()`, which then replaces the generator.
    """
    options = call._options
    if "generator" in options:
        options = {**options, "generator": call.dropout_mask()}
    with plain():
        return _run(call.plain_form, inputs, options)


class QuickForm(Function):
    """A quick form, whose attributes are the options of the op."""

    def __init__(self, **options: Any):
        vars(self).update(options)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


# -- plain forms only --------------------------------------------------------------------------------------------------


class _Mode(threading.local):
    plain = PLAIN
    asked = False  # set by `explain`: `serve` then raises _Asked instead of computing


_mode = _Mode()


class plain(ContextDecorator):  # noqa: N801  (reads as a statement: `with plain():`)
    """Context manager and decorator: in this thread every op is computed by its plain form.

    `plain(False)` allows the quick forms again. A backward pass uses the form of its forward pass.
    """

    def __init__(self, on: bool = True) -> None:
        self._on = on
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        self._previous.append(_mode.plain)
        _mode.plain = self._on

    def __exit__(self, *exception: object) -> None:
        _mode.plain = self._previous.pop()

    def _recreate_cm(self) -> plain:
        return type(self)(self._on)  # a decorated function may run in several threads at once


def is_plain() -> bool:
    """Whether this thread uses plain forms only."""
    return _mode.plain


# -- which form --------------------------------------------------------------------------------------------------------


class _Asked(Exception):  # noqa: N818  (not an error: carries the call from `serve` to `explain`)
    pass


def explain(op: str | Callable[..., Any], *inputs: Any, **options: Any) -> str:
    """Which form of an op would take this call, and why the others would not, a line for each. Nothing is computed.

    Args:
        op: a function of `handloom.autograd.ops`, or its name.
        inputs, options: the arguments of the call.

    Raises KeyError for an unknown name, and what the op itself raises for invalid arguments.
    """
    function = OPS[op].function if isinstance(op, str) else op
    _mode.asked = True
    try:
        with no_grad():
            function(*inputs, **options)
    except _Asked as asked:
        plainly, operands, options = asked.args
    else:
        return f"{function.__name__}\n  plain     serves: it is the only form, or there is nothing to compute"
    finally:
        _mode.asked = False
    arrays = [array_of(operand) for operand in operands]
    lines = [f"{function.__name__}({', '.join(f'{a.dtype}{list(a.shape)}' for a in arrays)})"]
    served = False
    for known in [*QUICK.get(plainly, ()), Form("plain", plainly, lambda arrays, options: None)]:
        reason = known.why_not(arrays, options)
        if _mode.plain and known.name != "plain":
            reason = "plain() or HANDLOOM_PLAIN=1 leaves it out"
        said = f"no: {reason}" if reason else "not needed, since a quicker form serves" if served else "serves"
        served = served or reason is None
        lines.append(f"  {known.name:9} {said}")
    return "\n".join(lines)
