"""Tests the tests of the engine: wrong rules are planted one by one, and each must be caught.

    python -m tests.support.mutants

A mutant replaces a piece of one function's source, in memory. It is caught if the checks that the test suite runs on
every op (`op_checks.check_all`) or a named test fail. Controls are rewrites that change nothing: they must pass for
many seeds. Prints a table, `caught N of N`, and exits with 1 if a mutant escaped or a control raised an alarm.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from handloom.autograd.catalogue import CATALOGUE, Draw
from handloom.autograd.gradcheck import planting
from tests.support.op_checks import LAYOUTS, check_all

SEEDS = 50  # as many as the test suite draws evenly
CONTROL_SEEDS = 40
DTYPES = (np.float64, np.float64, np.float32, np.float16)


@dataclass(frozen=True)
class Mutant:
    """`old` becomes `new` in the source of `where` ("module:function" or "module:Class.method" of the engine).

    `check` is the op whose specification is drawn, or a test function without arguments.
    """

    family: str
    check: str | Callable[[], None]
    where: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.family:13} {self.where:45} {self.old.strip()!r} -> {self.new.strip()!r}"


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Within the `with` block the function runs the changed source."""
    with planting.planted(mutant.where, mutant.old, mutant.new):
        yield


def examine(check: str | Callable[[], None], seeds: int) -> None:
    """Run a check for `seeds` seeds. Raises whatever it raises; warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if callable(check):
            check()
            return
        for seed in range(seeds):
            source = Draw.seeded(np.random.default_rng(seed), DTYPES[seed % len(DTYPES)])
            check_all(CATALOGUE[check], source, LAYOUTS[seed % len(LAYOUTS)])


def failure(mutant: Mutant, seeds: int) -> Exception | None:
    """The error by which the checks notice a planted mutant; None if they don't."""
    with planted(mutant):
        try:
            examine(mutant.check, seeds)
        except Exception as error:  # whatever it is, the mutant has been noticed
            return error
    return None


def main() -> int:
    import tests.conftest  # noqa: F401  (hypothesis as in the tests: no deadline, the same examples each time)
    from tests.support.mutant_list import CONTROLS, MUTANTS, OF_FORMS

    mutants = (*MUTANTS, *OF_FORMS)
    for check in {str(m.check): m.check for m in (*mutants, *CONTROLS)}.values():
        examine(check, SEEDS)  # unplanted, everything passes
    caught = 0
    for mutant in tqdm(mutants, desc="mutants", disable=None):
        noticed = failure(mutant, SEEDS)
        caught += noticed is not None
        said = "ESCAPED" if noticed is None else f"caught by {type(noticed).__name__}"
        tqdm.write(f"{said:25} {mutant}", file=sys.stdout)
    alarms = [(control, error) for control in CONTROLS if (error := failure(control, CONTROL_SEEDS)) is not None]
    for control, error in alarms:
        print(f"FALSE ALARM {control}: {error}")
    print(f"caught {caught} of {len(mutants)}")
    print(f"{len(alarms)} false alarms from {len(CONTROLS)} controls in {CONTROL_SEEDS} seeds each")
    return int(caught < len(mutants) or bool(alarms))


if __name__ == "__main__":
    raise SystemExit(main())
