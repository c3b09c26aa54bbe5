"""Runs programs under mpirun, and compares runs that must agree up to rounding."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from handloom.train.runs.saves import SavedStates
from tests.support.small_run import log

MPIRUN = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
try:
    from mpi4py import rc

    rc.initialize = False  # this process is not a rank
    from mpi4py import MPI
except (ImportError, RuntimeError):
    MPI = None
# MPICH waits in a busy loop; on a machine with other work it should yield the processor soon.
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
needs_mpi = pytest.mark.skipif(MPI is None or MPIRUN is None, reason="needs mpi4py and mpirun (pip install .[mpi])")


def run(line: list[str], folder: Path | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(line, capture_output=True, text=True, timeout=200, env=ENVIRONMENT, cwd=folder)


def assert_close_runs(one: Path, other: Path) -> None:
    """Assert that all logged numbers and the last weights agree up to rounding."""
    rows, others = log(one), log(other)
    assert [(row["step"], row.keys()) for row in rows] == [(row["step"], row.keys()) for row in others]
    for row, same in zip(rows, others, strict=True):
        for name in row.keys() - {"epoch"}:
            assert row[name] == pytest.approx(same[name], rel=2e-4), (row, same)
    first, second = SavedStates(one / "checkpoints").load(), SavedStates(other / "checkpoints").load()
    assert first.step == second.step
    for name, array in first.weights.items():
        np.testing.assert_allclose(array, second.weights[name], rtol=0, atol=2e-4)
