"""Tests the tests of the engine and the kernels: bugs are planted one at a time, and the tests must catch each bug.

    python -m tests.support.mutants [part of a place or of a kind ...]          # wrong rules of the engine
    python -m tests.support.mutants kernels [part of a place or of a kind ...]  # bugs in CUDA C++ and at launches

A mutant replaces a part of the source of a function (in memory) or of a kernel. A mutant is caught if the checks of its
op (`op_checks.check_all`) or its named test fail. Kernels run on the emulator, in two orders of threads and in checked
mode. Controls are changes without effect; the checks must pass with them for many seeds. The exit code is 1 if a mutant
escapes or a control fails.
"""

import functools
import inspect
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from handloom.autograd.catalogue import CATALOGUE, Draw
from handloom.autograd.fast import linear
from handloom.autograd.gradcheck import planting
from handloom.autograd.kernels import loading
from tests.support.cuda_emulator import compiler_missing
from tests.support.fake_cupy import forget_kernels, installed, kernels
from tests.support.op_checks import LAYOUTS, check_all

SEEDS = 50  # as many as test_op_with_even_choices draws by default
CONTROL_SEEDS = 40
DTYPES = (np.float64, np.float64, np.float32, np.float16)
MODES = ((0, False), (1, False), (2, True))  # modes of the emulator: seed, checked


@dataclass(frozen=True)
class Mutant:
    """A bug: `old` becomes `new` in the source of `where`. `where` is "module:function" or "module:Class.method" of the
    package, or a file of CUDA C++.

    `check` is the name of an op, whose specification is drawn, or a test function without arguments.
    """

    kind: str
    check: str | Callable[[], None]
    where: str
    old: str
    new: str

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:60] for text in (self.old, self.new))
        return f"{self.kind:22} {self.where:45} {old!r} -> {new!r}"


def kernel_mutant(kind: str, where: str, old: str, new: str, check: Callable[[Any], None]) -> Mutant:
    """Return a bug on a device. `check`, a test that takes the device's namespace, must notice it in one of MODES."""
    return Mutant(kind, in_every_mode(check), where, old, new)


@functools.cache
def in_every_mode(check: Callable[[Any], None]) -> Callable[[], None]:
    def examined() -> None:
        for mode in MODES:
            with kernels.mode(*mode), installed() as cupy, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # many bugs produce NaN
                check(cupy)

    return examined


def each(test: Any, *cases: tuple[Any, ...]) -> Any:
    """Return one check for all cases of a test. A case is the test's first arguments; fixtures follow by name."""
    names = list(inspect.signature(test).parameters)

    def check(device: Any) -> None:
        for case in cases or [()]:
            with pytest.MonkeyPatch.context() as monkeypatch, tempfile.TemporaryDirectory() as folder:
                fixtures = dict.fromkeys(("device", "cuda", "fake_cupy"), device)
                fixtures |= {"monkeypatch": monkeypatch, "tmp_path": Path(folder)}
                test(*case, *(fixtures[name] for name in names[len(case) :]))

    return functools.wraps(test)(check)


def source(where: str) -> str:
    """Return the source text that a mutant at `where` changes."""
    return planting.source_of(planting.function_at(where)) if ":" in where else loading.read_source(where)


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Run or load the changed source within the `with` block. Raises ValueError unless `old` occurs once."""
    forget_kernels()
    try:
        if ":" in mutant.where:
            with planting.planted(mutant.where, mutant.old, mutant.new):
                yield
            return
        read, text = loading.read_source, source(mutant.where)
        if text.count(mutant.old) != 1:
            raise ValueError(f"{mutant}: the text to replace occurs {text.count(mutant.old)} times")
        changed = text.replace(mutant.old, mutant.new)
        with mock.patch.object(loading, "read_source", lambda file: changed if file == mutant.where else read(file)):
            yield
    finally:
        forget_kernels()


def examine(check: str | Callable[[], None], seeds: int = SEEDS) -> None:
    """Run a check, or the checks of an op for `seeds` seeds. Errors propagate, and warnings are errors."""
    with warnings.catch_warnings(), mock.patch.object(linear, "MIN_MULTIPLICATIONS", 0):
        warnings.simplefilter("error")
        if callable(check):
            check()
            return
        for seed in range(seeds):
            draw = Draw.seeded(np.random.default_rng(seed), DTYPES[seed % len(DTYPES)])
            check_all(CATALOGUE[check], draw, LAYOUTS[seed % len(LAYOUTS)])


def failure(mutant: Mutant, seeds: int = SEEDS) -> BaseException | None:
    """Return the error by which the checks or the emulator notice a mutant, or None if they don't notice it."""
    with planted(mutant):
        try:
            examine(mutant.check, seeds)
        except (Exception, pytest.fail.Exception) as error:  # any error means that the mutant is noticed
            return error
    return None


def main(words: list[str]) -> int:
    import tests.conftest  # noqa: F401  (hypothesis as in the tests: no deadline, the same examples each time)
    from tests.support.kernel_mutant_list import KERNEL_MUTANTS
    from tests.support.mutant_list import CONTROLS, MUTANTS, OF_FORMS

    of_kernels = words[:1] == ["kernels"]
    if of_kernels and (reason := compiler_missing()):
        raise SystemExit(reason)
    parts = words[of_kernels:]
    mutants = [
        m
        for m in (KERNEL_MUTANTS if of_kernels else (*MUTANTS, *OF_FORMS))
        if not parts or any(part in f"{m.where} {m.kind}" for part in parts)
    ]
    controls = () if of_kernels or parts else CONTROLS
    for check in {str(m.check): m.check for m in (*mutants, *controls)}.values():
        examine(check)  # without a mutant, every check passes
    caught = 0
    for mutant in mutants:
        noticed = failure(mutant)
        caught += noticed is not None
        said = "ESCAPED" if noticed is None else f"caught by {getattr(noticed, 'kind', type(noticed).__name__)}"
        print(f"{said:28} {mutant}", flush=True)
    alarms = [(control, error) for control in controls if (error := failure(control, CONTROL_SEEDS)) is not None]
    for control, error in alarms:
        print(f"FALSE ALARM {control}: {error}")
    print(f"caught {caught} of {len(mutants)}")
    if controls:
        print(f"{len(alarms)} false alarms from {len(controls)} controls in {CONTROL_SEEDS} seeds each")
    return int(caught < len(mutants) or bool(alarms))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
