"""A job on three hosts, which are namespaces of this machine: equal numbers, a cut cable, a lost host, disks."""

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handloom.train.runs.saves import SavedStates
from tests.support.hosts import Hosts, why_not
from tests.support.ranks import MPIRUN, needs_mpi, run
from tests.support.small_run import log

SKIP = why_not()
pytestmark = [pytest.mark.slow, needs_mpi, pytest.mark.skipif(bool(SKIP), reason=SKIP)]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120  # seconds, a guard against a test that waits without end; a lost host is noticed within 12


@pytest.fixture
def hosts(tmp_path, monkeypatch) -> Iterator[Hosts]:
    monkeypatch.chdir(ROOT)
    made = Hosts(3, tmp_path / "hosts")
    yield made
    made.close()


def small_run(folder: Path, *arguments: str, **options: object) -> list[str]:
    """The arguments of Python for a run in `folder`."""
    options = {"accumulate": 1, **options}
    return ["tests/support/small_run.py", str(folder), *arguments, "--options", json.dumps(options)]


def start(hosts: Hosts, names: list[str], arguments: list[str]) -> subprocess.Popen:
    """Start a process of a job on each of these hosts, from the first one."""
    line = hosts.line(names[0], f"{hosts.mpiexec(names)} {shlex.join(arguments)}")
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_the_end(hosts: Hosts, names: list[str]) -> None:
    """Wait until no process of the job and no launcher runs on these hosts."""
    end = time.monotonic() + PATIENCE
    while running := [line for name in names for line in hosts.command_lines(name)]:
        assert time.monotonic() < end, running
        time.sleep(0.5)


def test_hosts_give_the_bits_of_one_host(hosts, tmp_path) -> None:
    """Their disks are not shared: only the first process needs the run's folder."""
    done = run([str(MPIRUN), "-n", "3", sys.executable, *small_run(tmp_path / "one")], ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    own = hosts.folder / "own"
    with start(hosts, hosts.names, small_run(own / "run")) as job:
        output = job.communicate(timeout=PATIENCE)[0]
    assert job.returncode == 0, output
    weights = SavedStates(tmp_path / "one/checkpoints").load().weights.values()
    assert hosts.bytes_sent("host2") > 24 * sum(array.nbytes for array in weights), "the sums crossed the network"
    for file in ("metrics.jsonl", "model.safetensors"):
        hosts.run("host1", f"cp '{own}/run/{file}' '{tmp_path}'")
        assert (tmp_path / file).read_bytes() == (tmp_path / "one" / file).read_bytes()
    assert hosts.run("host2", f"ls '{own}'") == ""


@pytest.mark.parametrize(("event", "lost"), [("cut", "host3"), ("power_off", "host1")])
def test_a_lost_host_ends_the_job_everywhere_and_the_others_go_on(event, lost, hosts, tmp_path) -> None:
    """Also if the launcher was on it."""
    folder = tmp_path / "run"
    with start(hosts, hosts.names, small_run(folder, steps=100_000)) as job:
        assert job.stdout is not None
        for _ in range(2):  # after the second validation the first one is saved
            job.stdout.readline()
        getattr(hosts, event)(lost)
        wait_for_the_end(hosts, [name for name in hosts.names if (event, name) != ("power_off", lost)])
        output = job.communicate(timeout=PATIENCE)[0]
    assert job.returncode != 0
    assert event == "power_off" or "error: rank 2 of 3 on host3 is lost (Connection timed out)" in output
    others = [name for name in hosts.names if name != lost]
    steps = SavedStates(folder / "checkpoints").load().step + 3
    with start(hosts, others, small_run(folder, "--resume", steps=steps)) as job:
        output = job.communicate(timeout=PATIENCE)[0]
    assert job.returncode == 0, output
    assert log(folder)[-1]["step"] == steps
