"""The view "Gradient check", which compares the gradient of one call of a training step with finite differences."""

import inspect
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from ..autograd import Function, Generator, Tensor
from ..autograd.gradcheck import EntryCheck, GradcheckReport, gradcheck
from ..autograd.gradcheck.planting import planted
from ..errors import InputError
from .asking import Ask
from .mutants import MUTANTS
from .packing import packed, spread
from .step import StepCall
from .subject import Subject

ENTRIES = 24  # number of compared entries of each input, in three equal parts: see `some_entries`


def check(subject: Subject, ask: Ask) -> dict[str, Any]:
    """Return a call's analytic and numeric gradients for its inputs in the step, also with a mistake in its rule."""
    step = subject.step(ask.text())
    call = step.calls[ask.whole("call", 0, len(step.calls) - 1)]
    kind = type(call.seen.call).__name__
    possible = [number for number, mutant in enumerate(MUTANTS) if kind in mutant.kinds]
    number = ask.whole("plant", -1, len(MUTANTS) - 1, -1)
    if number >= 0 and number not in possible:
        raise InputError(f"This mistake can't be planted in {call.name}.")
    mutant = MUTANTS[number] if number >= 0 else None
    seed = ask.whole("seed", 0, 10**6, 0)
    with planted(mutant.where, mutant.old, mutant.new) if mutant else nullcontext():
        report = checked(call, seed)
    return {
        "number": call.number,
        "name": call.name,
        "module": ".".join(call.module),
        "ok": report.ok,
        "error": report.error,
        "planted": mutant._asdict() if mutant else None,
        "changes": mutant is None or not report.ok or not _same(report, checked(call, seed)),
        "mutants": [{"number": i, **MUTANTS[i]._asdict()} for i in possible],
        "inputs": [_described(entries, call) for entries in report.checks],
    }


def checked(call: StepCall, seed: int = 0) -> GradcheckReport:
    """Check a call's gradients in float64, with the same random numbers in each evaluation."""
    wanted = [i for i, source in enumerate(call.sources) if source is not None]
    fixed = [_wide(value) for value in call.seen.inputs]
    states = {name: value.get_state() for name, value in call.seen.settings.items() if isinstance(value, Generator)}

    def again() -> Function:
        fresh = call.seen.again()
        if fresh.implementation == "in place":  # accepts only views of one array; the operands here are copies
            fresh.__class__ = fresh.plain_implementation
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
    inputs = [fixed[i] for i in wanted]
    ids = [x.reshape(-1) for x in fixed if isinstance(x, np.ndarray) and x.dtype.kind in "iu"]
    choose = partial(some_entries, rows=np.unique(np.concatenate(ids)) if ids else np.zeros(0, int))
    return gradcheck(function, inputs, seed=seed, name=call.name, redraw=False, choose=choose)


def some_entries(gradient: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return flat indices of ENTRIES entries: the array's largest entries, the largest entry of each of `rows`, and
    others.

    Args:
        rows: indices along the first axis whose entries a backward rule can treat differently, such as the targets of a
            loss.
    """
    flat = np.abs(gradient.reshape(-1))
    width = flat.size // max(1, len(gradient)) if gradient.ndim else 1
    rows = rows[rows < flat.size // max(1, width)]
    own = [row * width + int(flat[row * width : (row + 1) * width].argmax()) for row in rows] if width else []
    found: list[int] = []
    nonzero, zero = np.flatnonzero(flat), np.flatnonzero(flat == 0)
    for some, room in ((np.argsort(-flat), ENTRIES // 3), (spread(own, ENTRIES // 3), ENTRIES // 3)):
        found += [int(i) for i in some[:room] if int(i) not in found]
    for rest in (nonzero, zero):
        found += [int(i) for i in spread(np.setdiff1d(rest, found), ENTRIES - len(found))]
    return np.sort(np.array(found, np.int64))


def _same(report: GradcheckReport, other: GradcheckReport) -> bool:
    """Return whether two checks have the same gradients, so that the planted mistake has no effect for these inputs."""
    pairs = zip(report.checks, other.checks, strict=True)
    return all(np.array_equal(a.analytic, b.analytic, equal_nan=True) for a, b in pairs)


def _wide(value: Any) -> Any:
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


def _described(entries: EntryCheck, call: StepCall) -> dict[str, Any]:
    wanted = [i for i, source in enumerate(call.sources) if source is not None]
    index = wanted[int(entries.name.removeprefix("input "))]
    source = call.sources[index]
    positions = np.array(np.unravel_index(entries.positions, entries.shape)).T if entries.shape else entries.positions
    return {
        "name": source if isinstance(source, str) else f"{_operand(call, index)}, from call {source}",
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


def _operand(call: StepCall, index: int) -> str:
    """Return the name of an operand in the op's signature, such as "query", or "parts 2" for an element of a list."""
    kind = type(call.seen.call)
    plain = kind.plain_implementation or kind  # a quick implementation may take its operands as `*operands`
    names = list(inspect.signature(getattr(plain, "forward", plain)).parameters.values())[isinstance(plain, type) :]
    name = names[min(index, len(names) - 1)]
    return f"{name.name} {index + 1}" if name.kind is name.VAR_POSITIONAL else name.name
