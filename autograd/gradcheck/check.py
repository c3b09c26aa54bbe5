"""gradcheck: compares the backward pass with the derivative of the forward pass.

The outputs of the function are multiplied by a random output gradient v and summed, so that the whole vector-Jacobian
product is checked. (A plain sum of the outputs would hide mistakes that cancel in the sum.)
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...kinds import checked
from ..backend import is_array, to_device
from ..engine import grad
from ..origin import enable_grad, graph_of, is_grad_enabled, no_grad
from ..random import default_generator
from ..tensor import Tensor
from .differences import Estimate, central_difference, complex_step
from .report import EntryCheck, GradcheckReport

# How often entries at a kink are moved.
REDRAWS = 4

_NOT_CONNECTED = (
    "gradcheck: the graph of the result contains none of the inputs. gradcheck passes copies of the inputs to the "
    "function, so use its arguments inside it; to check the parameters of a module, pass the module"
)


@checked
def gradcheck(
    fn: Callable[..., Any],
    inputs: Any,
    *,
    method: str = "central",
    seed: int = 0,
    max_entries: int = 50,
    rtol: float = 1e-7,
    name: str | None = None,
    redraw: bool = True,
    choose: Callable[[np.ndarray], np.ndarray] | None = None,
) -> GradcheckReport:
    """Compare the gradient of `fn(*inputs)` with a numeric derivative, in float64.

    Args:
        fn: a function of Tensors, or a module. It returns a Tensor, or a tuple, list or dict of Tensors. If it is a
            module, its parameters are checked too; they are float64 during the check. Random draws from the default
            generator are the same in every evaluation.
        inputs: one input or a sequence of inputs. Floating arrays, and Tensors that require a gradient, are checked.
            Other inputs are passed to `fn` unchanged. No input is modified.
        method: "central" uses differences of sixth order, works for any function and skips kinks. "complex" is exact up
            to rounding, but requires an analytic function whose ops accept complex arrays.
        seed: random seed of the output gradient and of the entries that are compared in a large input.
        max_entries: maximum number of entries to compare per input; they are drawn at random.
        rtol: the relative difference that is allowed in addition to rounding.
        name: the name in the report; by default the function's name.
        choose: a function that maps an input's gradient to the flat indices of the entries to compare. By default they
            are random.
        redraw: whether to move entries that are at a kink, instead of skipping them.

    Returns a report, which is true if all gradients are right. The printed report names the wrong input, entry and
    values, and gives a hint.
    Raises ValueError if `fn` gives different results for equal inputs, or if there is no gradient to check: no input or
    parameter requires one, or the graph of the result contains none of them.
    """
    if method not in ("central", "complex"):
        raise ValueError(f"gradcheck: method {method!r} is neither 'central' nor 'complex'")
    if not isinstance(inputs, Sequence):
        inputs = [inputs]
    report = GradcheckReport(name or _name_of(fn), method, seed)
    with _in_float64(fn) as parameters:
        check = _Check(fn, inputs, parameters, np.random.default_rng(seed), rtol, redraw)
        try:
            check.prepare()
            report.checks = [check.entries(index, method, max_entries, choose) for index in range(len(check.leaves))]
        except _BackwardRaisedError as error:
            report.error = str(error)
    if report and not check.connected:
        raise ValueError(_NOT_CONNECTED)
    return report


@checked
def gradgradcheck(fn: Callable[..., Any], inputs: Any, **options: Any) -> GradcheckReport:
    """Check second derivatives by applying `gradcheck` to the gradient that `grad(..., create_graph=True)` returns.

    The gradient is with respect to the inputs and, if `fn` is a module, its parameters. The output gradient is checked
    as a further input, because the gradient depends on it. Raises ValueError as `gradcheck` does.
    """
    inputs = list(inputs) if isinstance(inputs, Sequence) else [inputs]
    wanted = [index for index, value in enumerate(inputs) if _is_checked(value)]
    rng = np.random.default_rng(options.get("seed", 0))
    leaves = list(map(_as_leaf, inputs))
    with _in_float64(fn) as parameters, enable_grad(), _replayed():
        results = _floating(fn(*leaves))
        checked = [*(leaves[index] for index in wanted), *parameters.values()]
        if any(out.requires_grad for out in results) and not _graph_contains(results, checked):
            raise ValueError(_NOT_CONNECTED)
    cotangents = [rng.normal(size=out.shape) for out in results]

    def gradient(*operands: Any) -> list[Tensor]:
        recorded = is_grad_enabled()
        arguments, output_gradients = operands[: len(inputs)], operands[len(inputs) :]
        with enable_grad():
            results = zip(_floating(fn(*arguments)), output_gradients, strict=True)
            pairs = [(out, v) for out, v in results if out.requires_grad]
            targets = [*(arguments[index] for index in wanted), *parameters.values()]
            if not pairs:
                return [Tensor(np.zeros(target.shape)) for target in targets]
            outputs, vs = zip(*pairs, strict=True)
            return grad(outputs, targets, vs, create_graph=recorded)

    if parameters:
        gradient.named_parameters = fn.named_parameters  # type: ignore[attr-defined]
    options.setdefault("name", f"the gradient of {_name_of(fn)}")
    return gradcheck(gradient, [*inputs, *cotangents], **options)


class _BackwardRaisedError(Exception):
    """An error raised when the backward rule under test fails. The report gives the reason."""


class _Check:
    """A function, its inputs as float64 leaves, and the random output gradient."""

    def __init__(
        self, fn: Any, inputs: Sequence[Any], parameters: dict[str, Tensor], rng: Any, rtol: float, redraw: bool = True
    ):
        self.fn, self.rng, self.rtol, self.redraw = fn, rng, rtol, redraw
        self.arguments = [_as_leaf(value) for value in inputs]
        self.leaves = {
            f"input {index}": argument
            for index, (value, argument) in enumerate(zip(inputs, self.arguments, strict=True))
            if _is_checked(value)
        }
        self.leaves.update(parameters)
        if not self.leaves:
            raise ValueError(
                "gradcheck: the inputs contain no floating array and no Tensor that requires a gradient, and fn has "
                "no parameter"
            )

    def prepare(self) -> None:
        """Draw the output gradients. Raise ValueError if two calls with equal inputs give different results."""
        first, second = self.values(), self.values()
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True)):
            raise ValueError(
                "gradcheck: the function gives different results for the same inputs. Random numbers must come from "
                "the default generator, whose draws gradcheck repeats, or from one that is seeded inside the function"
            )
        self.v = [self.rng.normal(size=value.shape) for value in first]
        self.update()

    def update(self) -> None:
        """Compute the function's values and gradients for the current inputs."""
        self.base = self.values()
        # A number below 1/100 has the rounding error of the values from which it was computed.
        errors = [
            np.finfo(b.dtype).eps * v * np.maximum(np.abs(b), 1e-2) for v, b in zip(self.v, self.base, strict=True)
        ]
        self.rounding = 4 * float(np.sqrt(sum(np.sum(error**2) for error in errors)))
        self.gradients = self.backward()

    def outputs(self) -> list[Tensor]:
        with _replayed():
            return _floating(self.fn(*self.arguments))

    def values(self) -> list[np.ndarray]:
        with no_grad(), np.errstate(all="ignore"):
            return [np.array(to_device(out.data, "cpu")) for out in self.outputs()]

    def backward(self) -> list[np.ndarray]:
        """Return the analytic gradient of every leaf."""
        leaves = list(self.leaves.values())
        with enable_grad(), np.errstate(all="ignore"):
            pairs = [(out, v) for out, v in zip(self.outputs(), self.v, strict=True) if out.requires_grad]
            self.connected = not pairs or _graph_contains([out for out, _ in pairs], leaves)
            if not pairs:
                return [np.zeros(leaf.shape) for leaf in leaves]
            try:
                found = grad([out for out, _ in pairs], leaves, [to_device(v, out.device) for out, v in pairs])
            except Exception as error:
                text = f"the backward pass raised {type(error).__name__}: {error}"
                raise _BackwardRaisedError(" ".join([text, *getattr(error, "__notes__", ())])) from error
        return [np.array(to_device(gradient.data, "cpu")) for gradient in found]

    def entries(
        self, index: int, method: str, max_entries: int, choose: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> EntryCheck:
        """Compare the analytic and the numeric gradient in entries of one leaf."""
        name, leaf = list(self.leaves.items())[index]
        size = leaf.data.size
        if choose is not None:
            positions = choose(self.gradients[index])
        elif size <= max_entries:
            positions = np.arange(size)
        else:
            positions = np.sort(self.rng.choice(size, max_entries, replace=False))
        analytic, numeric, noise = self.gradients[index].ravel()[positions], *np.full((2, positions.size), np.nan)
        missing = np.arange(positions.size)
        for _ in range(REDRAWS):
            for i in missing:
                estimate = self.numeric(leaf, positions[i], method)
                analytic[i], numeric[i], noise[i] = self.gradients[index].ravel()[positions[i]], *estimate
            missing = np.flatnonzero(np.isnan(numeric))
            if missing.size == 0 or not self.redraw:
                break
            self.move(leaf, positions[missing])
        finite = [array[np.isfinite(array)] for array in (analytic, numeric)]
        scale = max((float(np.abs(array).max()) for array in finite if array.size), default=0.0)
        with np.errstate(invalid="ignore"):
            allowed = self.rtol * np.maximum(np.abs(analytic), np.abs(numeric)) + 1e-9 * (1e-3 + scale) + 20 * noise
        return EntryCheck(name, leaf.shape, positions, analytic, numeric, allowed)

    def move(self, leaf: Tensor, positions: np.ndarray) -> None:
        """Move the entries at `positions` of a leaf away from a kink."""
        steps = self.rng.uniform(0.05, 0.3, positions.size) * self.rng.choice([-1, 1], positions.size)
        moved = np.array(to_device(leaf.data, "cpu"), order="C")
        flat = moved.reshape(-1)
        flat[positions] += steps * (1 + abs(flat[positions]))
        leaf.data = to_device(moved, leaf.device)
        self.update()

    def numeric(self, leaf: Tensor, position: int, method: str) -> Estimate:
        """Return the numeric derivative of v . fn with respect to one entry of a leaf."""
        original = leaf.data
        entry = float(original.reshape(-1)[position])

        def contracted(step: complex, base: Sequence[Any]) -> Any:
            leaf.data = original.astype(np.result_type(original.dtype, type(step)), order="C")
            leaf.data.reshape(-1)[position] = entry + step
            # Differences are taken for each output: outputs that don't depend on the entry cancel exactly.
            return sum(
                ((value - b) * v).sum() for value, b, v in zip(self.values(), base, self.v, strict=True) if value.size
            )

        try:
            if method == "complex":
                return complex_step(lambda step: contracted(step, [0.0] * len(self.base)))
            return central_difference(lambda step: contracted(step, self.base), max(abs(entry), 0.1), self.rounding)
        finally:
            leaf.data = original


def _name_of(fn: Any) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def _is_checked(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.requires_grad
    return (is_array(value) or isinstance(value, np.generic)) and value.dtype.kind == "f"


def _as_leaf(value: Any) -> Any:
    if not _is_checked(value):
        return value
    data = value.data if isinstance(value, Tensor) else value
    return Tensor(data.astype(np.float64), requires_grad=True)


def _floating(output: Any) -> list[Tensor]:
    """Return a list of the floating (or, during a complex step, complex) Tensors in a function's result."""
    if isinstance(output, Tensor):
        return [output] if output.dtype.kind in "fc" else []
    if isinstance(output, dict):
        output = list(output.values())
    return [tensor for part in output or () if part is not None for tensor in _floating(part)]


def _graph_contains(outputs: Sequence[Tensor], leaves: Sequence[Tensor]) -> bool:
    """Return whether one of `leaves` is in the graph of `outputs`, whatever its gradient is."""
    wanted = {leaf.origin for leaf in leaves}
    return any(origin in wanted for origin in graph_of(outputs))


@contextmanager
def _replayed() -> Iterator[None]:
    """Restore the default generator after the block, so that every evaluation draws the same numbers."""
    state = default_generator.get_state()
    try:
        yield
    finally:
        default_generator.set_state(state)


@contextmanager
def _in_float64(fn: Any) -> Iterator[dict[str, Tensor]]:
    """Convert a module's parameters to float64 within the block. Yield those that require a gradient, by name."""
    if not hasattr(fn, "named_parameters"):
        yield {}
        return
    parameters = dict(fn.named_parameters())
    originals = [(parameter, parameter.data, parameter._origin) for parameter in parameters.values()]
    for parameter, data, _ in originals:
        parameter.data, parameter._origin = data.astype(np.float64), None
    try:
        yield {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
    finally:
        for parameter, data, origin in originals:
            parameter.data, parameter._origin = data, origin
