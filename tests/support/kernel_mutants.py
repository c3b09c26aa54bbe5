"""Are the tests of the kernels any good? Bugs are planted in the CUDA sources one by one; each must be caught.

    python -m tests.support.kernel_mutants [part of a file's name, or of a kind of bug ...]

A bug replaces a piece of a kernel's text. It is caught if the kernel's own test fails on the emulator, in one of the
two orders of threads or in checked mode, or if the emulator reports an error. Prints a table and `caught N of N`; exits
with 1 if one escaped.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from handloom.autograd.kernels import loading
from tests.support.cuda_emulator import compiler_missing
from tests.support.fake_cupy import installed, kernels

MODES = ((0, False), (1, False), (2, True))  # seed, checked


@dataclass(frozen=True)
class KernelMutant:
    """`old` becomes `new` in `file`; `check`, a test that takes the device's namespace, must notice."""

    kind: str
    file: str
    old: str
    new: str
    check: Callable[[Any], None]

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:60] for text in (self.old, self.new))
        return f"{self.kind:22} {self.file:20} {old!r} -> {new!r}"


def tests_of(name: str) -> ModuleType:
    """A test module of the kernels, which is in no package."""
    path = Path(__file__).parents[1] / "autograd" / "kernels" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"kernel_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def each(test: Any, *cases: tuple[Any, ...]) -> Any:
    """The test for several cases, as one check."""

    def check(device: Any) -> None:
        for case in cases:
            test(*case, device)

    return functools.wraps(test)(check)


@contextmanager
def planted(mutant: KernelMutant) -> Iterator[None]:
    """Whoever loads the file within the block gets the changed text. ValueError unless `old` occurs once."""
    read = loading.read_source

    def changed(file: Any) -> str:
        text = read(file)
        if file != mutant.file:
            return text
        if text.count(mutant.old) != 1:
            raise ValueError(f"{mutant}: the text to replace occurs {text.count(mutant.old)} times")
        return text.replace(mutant.old, mutant.new)

    _forget()
    try:
        with mock.patch.object(loading, "read_source", changed):
            yield
    finally:
        _forget()


def _forget() -> None:
    loading._load_kernel.cache_clear()
    loading._load.cache_clear()


def examine(check: Callable[[Any], None]) -> None:
    """Run a check in every mode. Raises what it raises."""
    try:
        with installed() as cupy, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NaN is what many bugs end in
            for kernels.seed, kernels.checked in MODES:
                check(cupy)
    finally:
        kernels.seed, kernels.checked = 0, False


def failure(mutant: KernelMutant) -> AssertionError | None:
    """What the tests or the emulator say of a planted bug; None if it goes unnoticed."""
    with planted(mutant):
        try:
            examine(mutant.check)
        except AssertionError as error:
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
        said = "ESCAPED" if noticed is None else f"caught: {getattr(noticed, 'kind', 'wrong result')}"
        print(f"{said:28} {mutant}", flush=True)
    print(f"caught {caught} of {len(chosen)}")
    return int(caught < len(chosen))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
