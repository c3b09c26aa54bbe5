"""Are the tests of the kernels any good? Bugs are planted in the CUDA sources one by one; each must be caught.

    python -m tests.support.kernel_mutants [part of a file's name, or of a kind of bug ...]

A bug replaces a piece of a kernel's text. It is caught if the kernel's own test fails on the emulator, in one of the
two orders of threads or in checked mode, or if the emulator reports an error. Prints a table and `caught N of N`; exits
with 1 if one escaped.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from handloom.autograd.gradcheck import planting
from handloom.autograd.kernels import loading
from tests.support.cuda_emulator import compiler_missing
from tests.support.fake_cupy import forget_kernels, installed, kernels

MODES = ((0, False), (1, False), (2, True))  # seed, checked


@dataclass(frozen=True)
class KernelMutant:
    """`old` becomes `new` in `file`; `check`, a test that takes the device's namespace, must notice.

    `file`: of CUDA C++, or on the host's side a function, as `gradcheck.planting` names them.
    """

    kind: str
    file: str
    old: str
    new: str
    check: Callable[[Any], None]

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:60] for text in (self.old, self.new))
        return f"{self.kind:22} {self.file:20} {old!r} -> {new!r}"


@functools.cache
def tests_of(name: str) -> ModuleType:
    """A test module of tests/autograd, which is no package."""
    path = Path(__file__).parents[1] / "autograd" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"mutants_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def each(test: Any, *cases: tuple[Any, ...]) -> Any:
    """The test for several cases, its first arguments, as one check: the fixtures follow by their names."""
    names = list(inspect.signature(test).parameters)

    def check(device: Any) -> None:
        for case in cases or [()]:
            with pytest.MonkeyPatch.context() as monkeypatch, tempfile.TemporaryDirectory() as folder:
                fixtures = dict.fromkeys(("device", "cuda", "fake_cupy"), device)
                fixtures |= {"monkeypatch": monkeypatch, "tmp_path": Path(folder)}
                test(*case, *(fixtures[name] for name in names[len(case) :]))

    return functools.wraps(test)(check)


@contextmanager
def planted(mutant: KernelMutant) -> Iterator[None]:
    """Whoever loads the file within the block gets the changed text. ValueError unless `old` occurs once."""
    if ":" in mutant.file:
        forget_kernels()
        with planting.planted(mutant.file, mutant.old, mutant.new):
            yield
        return
    read, text = loading.read_source, loading.read_source(mutant.file)
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant}: the text to replace occurs {text.count(mutant.old)} times")

    def changed(file: Any) -> str:
        return text.replace(mutant.old, mutant.new) if file == mutant.file else read(file)

    forget_kernels()
    try:
        with mock.patch.object(loading, "read_source", changed):
            yield
    finally:
        forget_kernels()


def examine(check: Callable[[Any], None]) -> None:
    """Run a check in every mode. Raises what it raises."""
    try:
        for kernels.seed, kernels.checked in MODES:
            with installed() as cupy, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NaN is what many bugs end in
                check(cupy)
    finally:
        kernels.seed, kernels.checked = 0, False


def failure(mutant: KernelMutant) -> BaseException | None:
    """What the tests or the emulator say of a planted bug; None if it goes unnoticed."""
    with planted(mutant):
        try:
            examine(mutant.check)
        except (Exception, pytest.fail.Exception) as error:  # whatever it is, the bug has been noticed
            return error
    return None


def main(parts: list[str]) -> int:
    from tests.support.kernel_mutant_list import MUTANTS

    if reason := compiler_missing():
        raise SystemExit(reason)
    chosen = [m for m in MUTANTS if not parts or any(part in f"{m.file} {m.kind}" for part in parts)]
    for check in {mutant.check for mutant in chosen}:
        examine(check)  # unplanted, everything passes
    caught = 0
    for mutant in chosen:
        noticed = failure(mutant)
        caught += noticed is not None
        said = "ESCAPED" if noticed is None else f"caught: {getattr(noticed, 'kind', type(noticed).__name__)}"
        print(f"{said:28} {mutant}", flush=True)
    print(f"caught {caught} of {len(chosen)}")
    return int(caught < len(chosen))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
