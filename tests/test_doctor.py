"""The doctor: each problem of a machine is found and named with its cure, and a good machine has none."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest

from handloom import doctor
from handloom.autograd import Tensor
from handloom.autograd.backend import Blas, blas_of_numpy
from handloom.errors import InputError
from tests.support.fake_cupy import another_gpu, kernels

HEALTHY = Blas("scipy-openblas 0.3", "SkylakeX", 4)
MEMINFO = "MemTotal: 16000000 kB\nMemAvailable: {} kB\nSwapTotal: 4000000 kB\nSwapFree: {} kB\nHugePages_Total: 0\n"


def by_subject(findings) -> dict[str, doctor.Finding]:
    return {finding.subject: finding for finding in findings}


def slow_subjects(findings) -> set[str]:
    return {finding.subject for finding in findings if finding.level == "slow"}


def test_it_runs_here_and_says_what_it_saw() -> None:
    done = subprocess.run([sys.executable, "-m", "handloom.doctor"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    for subject in ("matrix products", "GPU"):
        assert subject in done.stdout
    if sys.platform == "linux":
        for subject in ("load", "memory", "threads"):
            assert subject in done.stdout
    assert "slows handloom down" in done.stdout or "things slow handloom down" in done.stdout


def test_the_threads_of_this_blas_are_those_it_was_told() -> None:
    code = "from handloom.autograd.backend import blas_of_numpy; print(blas_of_numpy().threads)"
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    if "openblas" not in blas_of_numpy().name:
        pytest.skip("NumPy uses another library than OpenBLAS here")
    assert done.stdout.strip() == "1"


def test_a_variable_that_halves_the_products_is_named() -> None:
    def speed(environment) -> float:
        return 250.0 if "OPENBLAS_CORETYPE" in environment else 500.0

    here = {"OPENBLAS_CORETYPE": "Haswell", "HOME": "/"}
    found = by_subject(doctor.blas_findings(HEALTHY, here, frozenset(), speed))
    assert found["kernel variables"].level == "slow"
    assert "250 GFLOP/s with it, 500 without" in found["kernel variables"].text
    assert found["kernel variables"].cure.startswith("unset OPENBLAS_CORETYPE")
    harmless = by_subject(doctor.blas_findings(HEALTHY, here, frozenset(), lambda environment: 400.0))
    assert harmless["kernel variables"].level == "note"
    assert "kernel variables" not in by_subject(doctor.blas_findings(HEALTHY, {}, frozenset(), speed))


def test_kernels_below_the_processor_are_named_if_better_ones_are_faster() -> None:
    narrow = Blas("openblas 0.3.7", "Haswell", 4)
    gains = doctor.blas_findings(narrow, {}, frozenset({"avx512f"}), lambda e: 500.0 if e else 300.0)
    assert "OPENBLAS_CORETYPE=SkylakeX" in by_subject(gains)["kernel variables"].cure
    assert not slow_subjects(doctor.blas_findings(narrow, {}, frozenset({"avx512f"}), lambda e: 300.0))
    assert not slow_subjects(doctor.blas_findings(narrow, {}, frozenset({"avx2"}), lambda e: 500.0 if e else 300.0))


@pytest.mark.parametrize("speed", [2.0, float("nan")])
def test_a_slow_library_is_named(speed) -> None:
    found = by_subject(doctor.blas_findings(Blas("blas 3.9", "unknown", 0), {}, frozenset(), lambda _: speed))
    assert found["matrix products"].level == "slow"
    assert "pip install" in found["matrix products"].cure


@pytest.mark.parametrize(
    ("threads", "usable", "variables", "level", "cure"),
    [
        (4, 4, {}, "ok", ""),
        (1, 4, {"OMP_NUM_THREADS": "1"}, "slow", "unset OMP_NUM_THREADS, unless"),
        (8, 4, {"OPENBLAS_NUM_THREADS": "8"}, "slow", "export OPENBLAS_NUM_THREADS=4"),
        (0, 4, {}, "ok", ""),
    ],
)
def test_threads_and_cores(threads, usable, variables, level, cure) -> None:
    found = by_subject(doctor.thread_findings(Blas("openblas", "Zen", threads), variables, usable, 4))
    assert (found["threads"].level, found["threads"].cure[: len(cure)]) == (level, cure)
    assert all(name in found["threads"].text for name in variables)
    assert "cores" not in found
    assert "2 of 16 cores" in by_subject(doctor.thread_findings(HEALTHY, {}, 2, 16))["cores"].text


def test_memory_and_swap() -> None:
    assert not slow_subjects(doctor.memory_findings(MEMINFO.format(9_000_000, 4_000_000)))
    assert slow_subjects(doctor.memory_findings(MEMINFO.format(900_000, 1_000_000))) == {"memory", "swap"}
    assert slow_subjects(doctor.memory_findings(MEMINFO.format(9_000_000, 4_000_000), limit=10**9)) == {"memory"}
    swapped = by_subject(doctor.memory_findings(MEMINFO.format(9_000_000, 1_000_000)))["swap"]
    assert (swapped.level, swapped.text[:6]) == ("note", "3.1 GB")
    assert not list(doctor.memory_findings(""))


def test_the_other_faults() -> None:
    none = frozenset[str]()
    assert slow_subjects(doctor.load_findings(0.5, 0.1)) == {"load", "host"}
    assert not slow_subjects(doctor.load_findings(0.02, 0.0))
    assert by_subject(doctor.processor_findings("x", frozenset({"sse2"}), none))["processor"].level == "note"
    assert "512" in by_subject(doctor.processor_findings("x", frozenset({"avx2", "avx512f"}), none))["processor"].text
    assert "performance" in by_subject(doctor.processor_findings("x", none, frozenset({"powersave"})))["frequency"].cure


def test_a_gpu_that_can_not_be_used_is_a_fault_only_where_there_is_one(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert by_subject(doctor.gpu_findings(present=True))["GPU"].level == "slow"
    without = by_subject(doctor.gpu_findings(present=False))["GPU"]
    assert (without.level, "pip install" in without.text) == ("ok", True)


def test_a_gpu_is_asked_to_run_a_kernel(fake_cupy, monkeypatch) -> None:
    found = by_subject(doctor.gpu_findings(present=True))
    assert (list(found), found["GPU"].level) == (["GPU"], "note")
    assert kernels.launches == ["layer_norm_forward"]
    with another_gpu(broken=RuntimeError("Failed to find CUDA headers\nand more")):
        (failing,) = doctor.gpu_findings(present=True)
    assert (failing.level, "\n" in failing.text) == ("slow", False)
    assert "Failed to find CUDA headers" in failing.text
    assert "pip install 'cupy-cuda13x[ctk]>=14'" in failing.text
    monkeypatch.setattr(doctor.ops, "layer_norm", lambda x, weight, bias: Tensor(2 * x))
    assert "gave" in by_subject(doctor.gpu_findings(present=True))["GPU"].text


def test_a_gpu_without_the_kernels_of_attention_is_reported(fake_cupy) -> None:
    with another_gpu("75"):
        found = by_subject(doctor.gpu_findings(present=True))
    assert "compute capability 7.5" in found["GPU"].text
    assert "fused" in found["GPU attention"].text


def test_a_child_that_fails_or_hangs_gives_no_number(monkeypatch) -> None:
    assert math.isnan(doctor._in_child("raise ValueError", {}))
    monkeypatch.setattr(doctor, "_PATIENCE", 0.2)
    assert math.isnan(doctor._in_child("import time; time.sleep(5)", {}))


def test_optional_libraries_are_shown_with_what_is_missing_and_their_speed() -> None:
    missing = {"compiled_loops": "Numba is not installed: pip install numba", "mkl": "HANDLOOM_MKL=0 leaves it out"}
    numba, mkl = doctor.library_findings(missing)
    assert (numba.text, numba.cure) == ("not used: Numba is not installed", "pip install numba")
    assert mkl.cure == "unset HANDLOOM_MKL"
    there: dict[str, str | None] = {"compiled_loops": None, "mkl": None}
    numba, mkl = doctor.library_findings(there, lambda: (170.0, 190.0))
    assert (numba.level, mkl.level, mkl.cure) == ("ok", "ok", "")
    assert mkl.text == "linear layers on one thread: 190 GFLOP/s by MKL, 170 by NumPy's library"
    _, mkl = doctor.library_findings(there, lambda: (170.0, 100.0))
    assert (mkl.level, mkl.cure) == ("slow", "export HANDLOOM_MKL=0")
    assert len(doctor.speeds_on_one_thread()) == 2


def test_an_option_that_it_lacks_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["doctor", "--mesure"])
    with pytest.raises(InputError, match="unrecognized arguments: --mesure"):
        doctor.main()
