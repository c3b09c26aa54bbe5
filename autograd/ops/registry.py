"""The registry of ops: each public function, its NumPy reference, and its implementations.

The *plain* implementation of an op is a Function class or a function at the beginning of the op's file. It is written
for readers and supports any array. Most ops have no other implementation. The large ops of a training step also have
quick implementations in `fast/` and `kernels/`. Each of them has a condition, which tells the calls that it supports:

    @implements(Linear, "cpu", on_cpu)
    class LinearOnCPU(Linear): ...

A public function checks and converts its arguments and calls `dispatch(Linear, operands)`. `dispatch` runs the first
implementation, in the order of `ORDER`, whose condition holds. Only quick implementations contain code for threads,
devices and kernels. `with plain():` disables the quick implementations; with HANDLOOM_PLAIN=1 in the environment they
are not even imported. `explain` shows the implementation that is selected for a call.
"""

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ...kinds import checked, checked_op, one_of
from ..backend import array_module
from ..engine import grad
from ..function import Function, run
from ..operands import described
from ..origin import Switch, no_grad
from ..quick import PLAIN
from ..tensor import array_of

F = TypeVar("F", bound=Callable[..., Any])
#: Function of a call's arrays and options: returns why an implementation doesn't support it, or None if it does.
Condition = Callable[[list[Any], dict[str, Any]], str | None]


class Op(NamedTuple):
    """A public function and its reference, a clear implementation for NumPy arrays with the same signature."""

    function: Callable[..., Any]
    reference: Callable[..., Any]


class Implementation(NamedTuple):
    """An implementation of an op: a Function class, constructed from options, or a function of operands and options."""

    name: str
    compute: Callable[..., Any]
    unsupported_reason: Condition


#: The names of implementations, in the order in which they are tried. Attention has "standard", "blocked" and "fused".
ORDER = ("in place", "fused", "blocked", "compiled", "cpu", "device", "standard")
OPS: dict[str, Op] = {}
#: For each plain implementation, its quick ones in that order.
QUICK: dict[Callable[..., Any], list[Implementation]] = {}


def declare(reference: Callable[..., Any], composed: bool = False) -> Callable[[F], F]:
    """Return a decorator that registers a public op with its reference, with which tests compare it.

    Options are checked by their annotations (`kinds.py`). `composed` is true for an op without options that calls
    other ops: its errors then get its own name.
    """

    def enter(function: F) -> F:
        function = checked_op(function, always=composed)
        OPS[function.__name__] = Op(function, reference)
        return function

    return enter


def implements(plain: Callable[..., Any], name: str, condition: Condition) -> Callable[[F], F]:
    """Return a decorator that registers a quick implementation, called `name`, of the op that `plain` implements."""

    def enter(compute: F) -> F:
        registered = QUICK.setdefault(plain, [])
        registered.append(Implementation(name, compute, condition))
        registered.sort(key=lambda known: ORDER.index(known.name))
        return compute

    return enter


def dispatch(plain: Callable[..., Any], operands: tuple[Any, ...], **options: Any) -> Any:
    """Run the first quick implementation that supports these operands and options, or else the plain implementation."""
    if _asked.get():
        raise _Asked(plain, operands, options)
    return _run(_select(plain, operands, options), operands, options)


def _run(compute: Callable[..., Any], operands: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return compute(**options)(*operands) if isinstance(compute, type) else compute(*operands, **options)


def _select(plain: Callable[..., Any], operands: tuple[Any, ...], options: dict[str, Any]) -> Callable[..., Any]:
    if not _plain.get() and plain in QUICK:
        arrays = [array_of(operand) for operand in operands]
        for quick in QUICK[plain]:
            if quick.unsupported_reason(arrays, options) is None:
                return quick.compute
    return plain


def run_dispatched(plain: Callable[..., Any], *operands: Any) -> Any:
    """In a backward rule, select an implementation (a class) of an op without options, and call it by `run`."""
    return run(_select(plain, operands, {})(), *operands)


def unsupported_reason(plain: Callable[..., Any], name: str, operands: tuple[Any, ...], **options: Any) -> str | None:
    """Return the reason why the quick implementation `name` doesn't support these operands, or None if it does."""
    for known in QUICK.get(plain, ()):
        if known.name == name:
            return known.unsupported_reason([array_of(operand) for operand in operands], options)
    return "HANDLOOM_PLAIN=1 leaves it out"


def on_cpu(arrays: list[Any], options: dict[str, Any]) -> str | None:
    """Return None if all arrays are NumPy arrays, else the reason why the call is not supported."""
    return None if array_module(*arrays) is np else "the arrays are on a device"


def all_of(*conditions: Condition) -> Condition:
    """Return the condition that all these conditions hold; its reason is the first reason found."""

    def reason(arrays: list[Any], options: dict[str, Any]) -> str | None:
        for condition in conditions:
            if why := condition(arrays, options):
                return why
        return None

    return reason


class Alias(Function):
    """The identity as an op. A backward pass can stop at its result, a new tensor with the same values."""

    def forward(self, x):
        return x[...]

    def backward(self, g):
        return g


class QuickImplementation(Function):
    """A quick implementation of `plain`, called `name`. The attributes of an object are the options of the op. It saves
    all its inputs, and its `backward` supports only arrays.
    """

    def __init__(self, **options: Any):
        self._options = options
        vars(self).update(options)

    def composed(self, *inputs: Any) -> Any:
        """Compute the call by the plain implementation, whose backward pass can be recorded. If this implementation
        drew a dropout mask, the plain one gets the mask (`dropout_mask()`) instead of the generator.
        """
        options = self._options
        if "generator" in options:
            options = {**options, "generator": self.dropout_mask()}
        with plain():
            return _run(implemented(type(self))[0], inputs, options)

    def recorded_backward(self, *gradients: Any) -> Any:
        if self.composed is None:  # in a class whose `backward` supports Tensors too
            return self.backward(*gradients)
        # The pass stops at aliases, which are newer than every input. An input may be computed from another input, or
        # be the same tensor, and each gets only the gradient through its own argument.
        tensors = [Alias()(tensor) for tensor in self.saved]
        wanted = [tensor for tensor, needed in zip(tensors, self.needs, strict=True) if needed]
        made = self.composed(*tensors)
        outputs = zip(made if isinstance(made, tuple) else (made,), gradients, strict=True)
        used = [(output, gradient) for output, gradient in outputs if gradient is not None and output.requires_grad]
        found = iter(grad([output for output, _ in used], wanted, [g for _, g in used], create_graph=True))
        return tuple(next(found) if needed else None for needed in self.needs)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def implemented(kind: type) -> tuple[Any, str]:
    """Return a class's plain implementation, which can be itself, and its own name; "" if there is only one."""
    for base in kind.__mro__:
        for function, known in QUICK.items():
            for quick in known:
                if base is quick.compute:
                    return function, quick.name
    return kind, "plain" if kind in QUICK else ""


# -- plain implementations only ----------------------------------------------------------------------------------------


_plain: ContextVar[bool] = ContextVar("plain", default=PLAIN)
#: Set by `explain`: `dispatch` then raises _Asked instead of computing.
_asked: ContextVar[bool] = ContextVar("asked", default=False)


class plain(Switch):  # noqa: N801  (reads as a statement: `with plain():`)
    """Context manager and decorator: compute every op in this thread by its plain implementation. `plain(False)` allows
    the quick implementations again. A backward pass uses the implementation of its forward pass.
    """

    def __init__(self, on: bool = True) -> None:
        super().__init__(_plain, on)


def is_plain() -> bool:
    """Return whether this thread uses plain implementations only."""
    return _plain.get()


# -- which implementation ----------------------------------------------------------------------------------------------


class _Asked(Exception):  # noqa: N818  (not an error: carries the call from `dispatch` to `explain`)
    pass


@checked
def explain(op: str | Callable[..., Any], *inputs: Any, **options: Any) -> str:
    """Return a text: the implementation that a call of an op selects, and why the others are not selected. Nothing is
    computed.

    Args:
        op: a function of `handloom.autograd.ops`, or its name.
        inputs, options: the arguments of the call.

    Raises ValueError for an unknown name, and the op's errors for invalid arguments.
    """
    function = OPS[one_of("explain: op", op, OPS)].function if isinstance(op, str) else op
    try:
        with no_grad(), Switch(_asked, True):
            function(*inputs, **options)
    except _Asked as asked:
        plainly, operands, options = asked.args
    else:
        return f"{function.__name__}\n  plain     selected: the only implementation, or there is nothing to compute"
    arrays = [array_of(operand) for operand in operands]
    lines = [f"{function.__name__}({described(arrays)})"]
    selected = False
    for known in [*QUICK.get(plainly, ()), Implementation("plain", plainly, lambda arrays, options: None)]:
        reason = known.unsupported_reason(arrays, options)
        if _plain.get() and known.name != "plain":
            reason = "plain() or HANDLOOM_PLAIN=1 leaves it out"
        said = f"no: {reason}" if reason else "not needed: a quicker one is selected" if selected else "selected"
        selected = selected or reason is None
        lines.append(f"  {known.name:9} {said}")
    return "\n".join(lines)
