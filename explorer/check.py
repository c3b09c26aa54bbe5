"""The view "Gradient check", which compares the gradient of one call of a training step with finite differences."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from ..autograd import Function, Generator, Tensor
from ..autograd.gradcheck import EntryCheck, GradcheckReport, gradcheck
from ..autograd.gradcheck.planting import function_at, planted
from ..autograd.ops.registry import implemented
from ..errors import InputError
from .asking import Ask
from .graph import operand
from .mutants import MUTANTS, Mutant
from .packing import packed, spread
from .step import StepCall
from .subject import Subject

ENTRIES = 24  # number of compared entries of each input, in three equal parts: see `some_entries`


def check(subject: Subject, ask: Ask) -> dict[str, Any]:
    """Return a call's analytic and numeric gradients for its inputs in the step, also with a mistake in its rule."""
    return begun(subject, ask)()


def begun(subject: Subject, ask: Ask) -> Callable[[], dict[str, Any]]:
    """Compute a call's gradients. Return a function that measures the numeric gradients and returns what `check` does.

    A planted mistake is in the rule only during `begun`, so that other views can be computed during the measurement.
    """
    step = subject.step(ask.text())
    call = step.calls[ask.whole("call", 0, len(step.calls) - 1)]
    possible = [number for number, mutant in enumerate(MUTANTS) if fits(mutant, type(call.seen.call))]
    number = ask.whole("plant", -1, len(MUTANTS) - 1, -1)
    if number >= 0 and number not in possible:
        raise InputError(f"This mistake can't be planted in {call.name}.")
    mutant = MUTANTS[number] if number >= 0 else None
    seed = ask.whole("seed", 0, 10**6, 0)
    error, used = "", gradients(call, seed)[1]
    if mutant:
        right = used
        with planted(mutant.where, mutant.old, mutant.new):
            error, used = gradients(call, seed)
        pairs = zip(used, right, strict=False)
        differing = [np.flatnonzero(~np.isclose(*pair, rtol=0, atol=0, equal_nan=True)) for pair in pairs]
    else:
        differing = [np.zeros(0, int)] * len(used)

    about: dict[str, Any] = {
        "number": call.number,
        "name": call.name,
        "module": ".".join(call.module),
        "ok": False,
        "error": error,
        "planted": mutant._asdict() if mutant else None,
        "mutants": [{"number": i, **MUTANTS[i]._asdict()} for i in possible],
        "inputs": [],
    }

    def measured() -> dict[str, Any]:
        if error:
            return about
        report = checked(call, seed, lambda index, gradient, rows: some_entries(gradient, rows, differing[index]))
        pairs = zip(report.checks, used, strict=True)
        checks = [replace(entries, analytic=own.ravel()[entries.positions]) for entries, own in pairs]
        return about | {
            "ok": all(entries.ok for entries in checks),
            "inputs": [
                {**_described(entries, call), "changed": len(changed)}
                for entries, changed in zip(checks, differing, strict=True)
            ],
        }

    return measured


def fits(mutant: Mutant, kind: type) -> bool:
    """Return whether a class of ops has the rule in which a mistake can be planted: it may replace that of its base."""
    rule, name = function_at(mutant.where), mutant.where.rpartition(".")[2]
    return any(base.__name__ in mutant.kinds for base in kind.__mro__) and getattr(kind, name, rule) in (rule, None)


def gradients(call: StepCall, seed: int) -> tuple[str, list[np.ndarray]]:
    """Return the error that the backward rule raised, or "", and the gradient of each input."""
    found: list[np.ndarray] = []

    def none(index: int, gradient: np.ndarray, rows: np.ndarray) -> np.ndarray:
        found.append(gradient)
        return np.zeros(0, int)

    return checked(call, seed, none).error or "", found


def checked(call: StepCall, seed: int, choose: Callable[[int, np.ndarray, np.ndarray], np.ndarray]) -> GradcheckReport:
    """Check a call's gradients in float64, with the same random numbers in each evaluation.

    `choose` maps the number of an input, its gradient, and the rows that the call selects to the entries to compare.
    """
    wanted = [i for i, source in enumerate(call.sources) if source is not None]
    fixed = [_wide(value) for value in call.seen.inputs]
    states = {name: value.get_state() for name, value in call.seen.settings.items() if isinstance(value, Generator)}

    def again() -> Function:
        fresh = call.seen.again()
        plain, name = implemented(type(fresh))
        if name == "in place":  # accepts only views of one array; the operands here are copies
            fresh.__class__ = plain
        for name, state in states.items():
            generator = Generator(0)
            generator.set_state(state)
            setattr(fresh, name, generator)
        return fresh

    def function(*tensors: Tensor) -> Any:
        operands = list(fixed)
        for i, tensor in zip(wanted, tensors, strict=True):
            operands[i] = tensor
        return again()(*operands)

    # The first `wanted` operand is named "input 0" in the report, and so on.
    ids = [x.reshape(-1) for x in fixed if isinstance(x, np.ndarray) and x.dtype.kind in "iu"]
    rows, index = np.unique(np.concatenate(ids)) if ids else np.zeros(0, int), count()
    inputs = [fixed[i] for i in wanted]
    return gradcheck(
        function, inputs, seed=seed, name=call.name, redraw=False, choose=lambda g: choose(next(index), g, rows)
    )


def some_entries(gradient: np.ndarray, rows: np.ndarray, differing: np.ndarray) -> np.ndarray:
    """Return flat indices of ENTRIES entries: the array's largest entries, the largest entry of each of `rows`, and
    others. Entries that a planted mistake changes come first: no mistake is missed because it was not compared.

    Args:
        rows: indices along the first axis whose entries a backward rule can treat differently, such as the targets of a
            loss.
        differing: flat indices of the entries that the planted mistake changes.
    """
    flat = np.abs(gradient.reshape(-1))
    width = flat.size // max(1, len(gradient)) if gradient.ndim else 1
    rows = rows[rows < flat.size // max(1, width)]
    own = [row * width + int(flat[row * width : (row + 1) * width].argmax()) for row in rows] if width else []
    third, free = ENTRIES // 3, np.ones(flat.size, bool)
    changed = [*differing[np.argsort(-flat[differing])[: third // 2]], *spread(differing, third)]
    for some in (changed, np.argsort(-flat)[:third], spread(own, third)):
        free[np.array(some, int)] = False
    for kind in (flat != 0, flat == 0):
        free[spread(np.flatnonzero(free & kind), ENTRIES - int(np.count_nonzero(~free)))] = False
    return np.flatnonzero(~free)


def _wide(value: Any) -> Any:
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


def _described(entries: EntryCheck, call: StepCall) -> dict[str, Any]:
    wanted = [i for i, source in enumerate(call.sources) if source is not None]
    index = wanted[int(entries.name.removeprefix("input "))]
    source = call.sources[index]
    positions = np.array(np.unravel_index(entries.positions, entries.shape)).T if entries.shape else entries.positions
    return {
        "name": source if isinstance(source, str) else f"{operand(call, index)}, from call {source}",
        "shape": list(entries.shape),
        "size": int(np.prod(entries.shape)),
        "ok": entries.ok,
        "hint": "" if entries.ok else entries.hint(),
        "error": entries.relative_error,
        "kinks": entries.kinks,
        "positions": np.reshape(positions, (len(entries.positions), -1)).tolist(),
        "analytic": packed(entries.analytic, np.float64),
        "numeric": packed(entries.numeric, np.float64),
        "excess": packed(entries.excess, np.float64),
    }
