"""Test that the doctor reports each problem of a machine with its remedy, and no problem on a good machine."""

import math
import subprocess
import sys
from collections.abc import Iterable

import pytest

from handloom import doctor
from handloom.autograd import Tensor
from handloom.autograd.backend import Blas
from tests.support.fake_cupy import another_gpu, kernels

HEALTHY, NARROW = Blas("scipy-openblas 0.3", "SkylakeX", 4), Blas("openblas 0.3.7", "Haswell", 4)
NONE, AVX512 = frozenset[str](), frozenset({"avx512f"})
CHOSEN = {"OPENBLAS_CORETYPE": "Haswell", "HOME": "/"}


def by_subject(findings: Iterable[doctor.Finding]) -> dict[str, doctor.Finding]:
    return {finding.subject: finding for finding in findings}


def test_it_runs_here_and_says_what_it_saw() -> None:
    done = subprocess.run([sys.executable, "-m", "handloom.doctor"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    for subject in ("matrix products", "GPU", *(("load", "threads") if sys.platform == "linux" else ())):
        assert subject in done.stdout


def halved(environment: doctor.Environment) -> float:
    """Return the GFLOP/s of a machine that OPENBLAS_CORETYPE slows down."""
    return 250.0 if "OPENBLAS_CORETYPE" in environment else 500.0


def doubled(environment: doctor.Environment) -> float:
    return 500.0 if environment else 300.0


def threads(count: int, environment: doctor.Environment, usable: int = 4) -> Iterable[doctor.Finding]:
    return doctor.thread_findings(Blas("openblas", "Zen", count), environment, usable, 4)


@pytest.mark.parametrize(
    ("findings", "subject", "level", "said"),
    [
        (doctor.blas_findings(HEALTHY, CHOSEN, NONE, halved), "kernel variables", "slow", "unset OPENBLAS_CORETYPE"),
        (doctor.blas_findings(HEALTHY, CHOSEN, NONE, lambda _: 400.0), "kernel variables", "note", ""),
        (doctor.blas_findings(NARROW, {}, AVX512, doubled), "kernel variables", "slow", "OPENBLAS_CORETYPE=SkylakeX"),
        (doctor.blas_findings(HEALTHY, {}, NONE, lambda _: 2.0), "matrix products", "slow", "end other programs"),
        (doctor.blas_findings(HEALTHY, {}, NONE, lambda _: math.nan), "matrix products", "slow", "pip install"),
        (threads(1, {"OMP_NUM_THREADS": "1"}), "threads", "slow", "unset OMP_NUM_THREADS, unless"),
        (threads(8, {"OPENBLAS_NUM_THREADS": "8"}), "threads", "slow", "export OPENBLAS_NUM_THREADS=4"),
        (threads(2, {}, usable=2), "cores", "note", "2 of 4 cores"),
        (doctor.load_findings(0.5, 0.0), "load", "slow", ""),
        (doctor.load_findings(0.0, 0.1), "host", "slow", ""),
    ],
)
def test_a_problem_is_named_with_its_cure(findings, subject, level, said) -> None:
    found = by_subject(findings)[subject]
    assert found.level == level
    assert said in f"{found.text}\n{found.cure}"


@pytest.mark.parametrize(
    "findings",
    [
        doctor.blas_findings(HEALTHY, {}, NONE, halved),
        doctor.blas_findings(NARROW, {}, AVX512, lambda _: 300.0),
        doctor.blas_findings(NARROW, {}, frozenset({"avx2"}), doubled),
        threads(4, {}),
        threads(0, {}),
        doctor.load_findings(0.02, 0.0),
    ],
)
def test_a_good_machine_has_no_problem(findings) -> None:
    assert [finding for finding in findings if finding.level != "ok"] == []


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
    assert [one.level for one in doctor.library_findings(there, lambda: (170.0, 190.0))] == ["ok", "ok"]
    _, mkl = doctor.library_findings(there, lambda: (170.0, 100.0))
    assert (mkl.level, mkl.cure) == ("slow", "export HANDLOOM_MKL=0")
