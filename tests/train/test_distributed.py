"""Several processes give the numbers of one process, also if their number changes; a dead process ends the job."""

import json
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from handloom.autograd import Parameter, Tensor
from handloom.autograd.backend import DeviceError
from handloom.autograd.early import backward
from handloom.errors import InputError
from handloom.files import folder_lock
from handloom.train import distributed
from handloom.train.distributed import GradientSum, MpiProcessGroup, NcclSums, ProcessGroup, find_process_group
from handloom.train.runs.saves import SavedStates
from tests.support.ranks import ENVIRONMENT, MPIRUN, assert_close_runs, needs_mpi, run
from tests.support.small_run import small_run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests/support/small_run.py"

# Like tests/support/small_run.py, but each rank waits for a signal at step 11, so the signal comes before the end.
WAITING = """
import signal, time
from tests.support.small_run import Trainer, main, run_main

update, before = Trainer.update, signal.getsignal(signal.SIGTERM)

def update_later(self, step, batches):
    while step == 11 and signal.getsignal(signal.SIGTERM) != before:  # which is put back when the signal has come
        time.sleep(0.01)
    return update(self, step, batches)

Trainer.update = update_later
run_main(main, several_processes=True)
"""


def command(group: int, folder: Path, *arguments: str, **options: object) -> list[str]:
    own = [sys.executable, str(SCRIPT), str(folder), "--options", json.dumps(options), *arguments]
    return [str(MPIRUN), "-n", str(group), *own] if group > 1 else own


def start(line: list[str]) -> subprocess.Popen:
    return subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT, cwd=ROOT
    )


def launch(
    group: int, folder: Path, *arguments: str, check: bool = True, **options: object
) -> subprocess.CompletedProcess:
    done = run(command(group, folder, *arguments, **options))
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory) -> Path:
    """Return the folder of a run in one process, with dropout and two batches per update."""
    folder = tmp_path_factory.mktemp("ranks") / "one"
    small_run(folder, accumulate=2)
    return folder


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory) -> Path:
    """Return the folder of a run in two processes, with one batch per process and update."""
    folder = tmp_path_factory.mktemp("ranks") / "two"
    launch(2, folder, accumulate=1)
    return folder


@needs_mpi
class TestTwoProcesses:
    def test_they_equal_one_with_the_twofold_batch(self, one_rank, two_ranks) -> None:
        assert_close_runs(one_rank, two_ranks)

    def test_only_the_first_writes(self, one_rank, two_ranks) -> None:
        names = [sorted(str(path.relative_to(run)) for path in run.rglob("*")) for run in (one_rank, two_ranks)]
        assert names[0] == names[1]

    def test_resume_with_another_number_of_processes(self, one_rank, tmp_path) -> None:
        launch(2, tmp_path / "run", "--stop-at", "10", accumulate=1)
        launch(1, tmp_path / "run", "--resume", accumulate=2)
        assert_close_runs(one_rank, tmp_path / "run")

    def test_resume_with_the_same_number_is_exact(self, two_ranks, tmp_path) -> None:
        launch(2, tmp_path / "run", "--stop-at", "7", accumulate=1)
        launch(2, tmp_path / "run", "--resume", accumulate=1)
        assert (tmp_path / "run/metrics.jsonl").read_bytes() == (two_ranks / "metrics.jsonl").read_bytes()

    def test_a_folder_in_use_is_refused_once(self, two_ranks) -> None:
        with folder_lock(two_ranks):
            done = launch(2, two_ranks, "--resume", check=False, accumulate=1)
        assert done.returncode == 2
        assert (done.stdout + done.stderr).count("in use by another process") == 1

    def test_a_killed_process_ends_the_job(self, tmp_path) -> None:
        with start(command(2, tmp_path / "run", steps=100_000)) as job:
            assert job.stdout is not None
            for _ in range(2):  # the second validation comes after the first save
                job.stdout.readline()
            victim = processes_of(job.pid)[1]
            os.kill(victim, signal.SIGKILL)
            output = job.communicate(timeout=300)[0]  # times out if the survivor hangs
        assert job.returncode != 0
        assert "KILLED BY SIGNAL: 9" in output or "signal 9" in output
        assert SavedStates(tmp_path / "run/checkpoints").load().step >= 8

    def test_an_error_in_one_process_ends_the_job_and_is_told(self, tmp_path) -> None:
        code = (
            "from handloom.train.distributed import find_process_group\n"
            "group = find_process_group()\n"
            "if group.rank == 1: raise ZeroDivisionError('here')\n"
            "group.sum([1.0])\n"
        )
        done = run([str(MPIRUN), "-n", "2", sys.executable, "-c", code])
        assert done.returncode != 0
        assert "ZeroDivisionError: here" in done.stderr
        assert "rank 1 of 2 failed; the job ends" in done.stderr

    def test_a_program_for_one_process_says_so(self) -> None:
        done = run([str(MPIRUN), "-n", "2", sys.executable, "-m", "handloom.cli.report", "x"])
        assert done.returncode != 0
        assert done.stderr.count("start it without mpirun") == 1

    def test_a_signal_saves_once_and_the_run_goes_on(self, two_ranks, tmp_path) -> None:
        options = [str(tmp_path / "run"), "--options", json.dumps({"accumulate": 1})]
        with start([str(MPIRUN), "-n", "2", sys.executable, "-c", WAITING, *options]) as job:
            assert job.stdout is not None
            job.stdout.readline()  # the first validation, after step 8
            for process in processes_of(job.pid):
                os.kill(process, signal.SIGTERM)
            output = job.communicate(timeout=300)[0]
        assert output.count("all saved. Continue with --resume") == 1, output
        launch(2, tmp_path / "run", "--resume", accumulate=1)
        assert (tmp_path / "run/metrics.jsonl").read_bytes() == (two_ranks / "metrics.jsonl").read_bytes()


def processes_of(launcher: int) -> list[int]:
    """Return the ids of the Python processes that mpirun has started through its proxy."""
    found, waiting = [], [launcher]
    while waiting:
        pid = waiting.pop(0)
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        waiting += [int(child) for child in children]
        if pid != launcher and b"small_run" in Path(f"/proc/{pid}/cmdline").read_bytes():
            found.append(pid)
    return [pid for pid in found if b"-n\0" not in Path(f"/proc/{pid}/cmdline").read_bytes()]


class Exchange:
    """A communicator with a simulated second process, which contributes `other`."""

    def __init__(self, other: object = None):
        self.other, self.aborted = other, None

    def Get_rank(self) -> int:  # noqa: N802 - mpi4py's name
        return 0

    def Get_size(self) -> int:  # noqa: N802
        return 2

    def allgather(self, value: object) -> list:
        return [value, self.other]

    def bcast(self, value: object) -> object:
        return value


@pytest.fixture
def exchange(monkeypatch) -> Exchange:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # MpiProcessGroup replaces it
    return Exchange()


class TestOneProcess:
    def test_alone(self) -> None:
        group = find_process_group()
        assert (group.rank, group.size, group.first) == (0, 1, True)
        assert group.sum([1.5, 2]) == [1.5, 2]
        assert group.from_first(lambda: 3) == 3
        assert group.gather(4) == [4]
        assert distributed.local_device("cuda") == "cuda"

    def test_mpirun_without_mpi4py(self, monkeypatch) -> None:
        monkeypatch.setenv("PMI_RANK", "0")
        monkeypatch.setitem(sys.modules, "mpi4py", None)
        with pytest.raises(InputError, match=r"pip install mpi4py mpich"):
            find_process_group.__wrapped__()

    @pytest.mark.parametrize("size", ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"])
    def test_a_shell_of_a_scheduler_is_one_process_without_mpi4py(self, monkeypatch, size: str) -> None:
        monkeypatch.setenv("PMIX_RANK", "0")
        monkeypatch.setenv(size, "1")
        monkeypatch.setitem(sys.modules, "mpi4py", None)
        assert find_process_group.__wrapped__().size == 1

    @pytest.mark.parametrize("kind", ["ImportError", "RuntimeError"])  # the second: mpi4py finds no MPI library
    def test_several_processes_without_mpi4py_are_refused_in_a_line(self, tmp_path, kind: str) -> None:
        (tmp_path / "mpi4py.py").write_text(f"raise {kind}('no library\\nfile 1\\nfile 2')")
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from handloom.__main__ import main; main()"
        environment = {**os.environ, "PMI_RANK": "0", "PMI_SIZE": "2"}
        command = [sys.executable, "-c", code, "translate", "Hallo."]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert done.stderr.startswith("error: mpirun started this process (PMI_RANK is set), but mpi4py")

    def test_a_gpu_for_each_process_of_a_machine(self, monkeypatch, exchange) -> None:
        monkeypatch.setenv("MPI_LOCALRANKID", "3")
        monkeypatch.setattr(distributed, "find_process_group", lambda: MpiProcessGroup(exchange))
        assert distributed.local_device("cuda") == "cuda:3"
        assert distributed.local_device("cuda:1") == "cuda:1"
        assert distributed.local_device("cpu") == "cpu"

    def test_unequal_weights_are_noticed(self, exchange) -> None:
        weights = {"w": np.ones(3, np.float32)}
        exchange.other = distributed.digest(weights)
        MpiProcessGroup(exchange).check_equal(lambda: weights)
        with pytest.raises(RuntimeError, match="weights of rank 1 differ from those of rank 0"):
            MpiProcessGroup(exchange).check_equal(lambda: {"w": np.nextafter(weights["w"], 2)})


class Doubling(ProcessGroup):
    """A group of two ranks with equal gradients, which records when each sum begins and ends."""

    size = 2

    def __init__(self) -> None:
        self.events: list[str] = []

    def start_sum(self, array: np.ndarray) -> int:
        array *= 2
        self.events.append(f"start {len(array)}")
        return len(array)

    def finish_sum(self, request: int) -> None:
        self.events.append(f"finish {request}")


class TestGradientSum:
    def test_sums_begin_while_the_pass_goes_on(self) -> None:
        weights = [Parameter(np.full((4, 4), 0.5, np.float32)) for _ in range(4)]
        group = Doubling()
        total = GradientSum(weights, group, bucket_bytes=100)
        assert [len(bucket) for bucket in total.buckets] == [2, 2]
        h = Tensor(np.ones((2, 4), np.float32))
        for number, weight in enumerate(weights):
            h = h @ weight
            if number == 1:
                h.register_hook(lambda gradient: group.events.append("half way"))
        (h * 1).sum().backward(retain_graph=True)
        plain = [weight.grad for weight in weights]
        for weight in weights:
            weight.grad = None
        group.events.clear()
        total.begin()
        backward(h.sum(), None, total.ready)
        total.finish()
        assert group.events == ["start 34", "half way", "start 34", "finish 34", "finish 34"]
        np.testing.assert_equal([weight.grad for weight in weights], [2 * gradient for gradient in plain])

    def test_a_parameter_that_the_loss_does_not_use_keeps_no_gradient(self) -> None:
        used, unused = (Parameter(np.ones(2, np.float32)) for _ in range(2))
        total = GradientSum([used, unused], Doubling())
        total.begin()
        backward((used * 3).sum(), None, total.ready)
        total.finish()
        assert unused.grad is None
        np.testing.assert_array_equal(used.grad, [6, 6])

    def test_a_parameter_used_twice_is_ready_once(self) -> None:
        weight = Parameter(np.array([2.0], np.float32))
        seen: list[float] = []
        backward((weight * weight + weight).sum(), None, lambda leaf: seen.append(leaf.grad.item()))
        assert seen == [5.0]


def test_without_nccl_the_error_says_what_to_install(monkeypatch) -> None:
    """Without the NCCL library, CuPy's module can still be imported, but has no functions."""
    runtime = types.SimpleNamespace(runtimeGetVersion=lambda: 12090)
    cuda = types.SimpleNamespace(nccl=types.SimpleNamespace(available=False), runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    with pytest.raises(DeviceError, match=r"needs NCCL.*pip install nvidia-nccl-cu12"):
        NcclSums(Exchange())


def test_nccl_sums_run_on_their_own_stream(monkeypatch) -> None:
    """CuPy's NCCL and streams receive the right calls in order. Stand-ins replace both, so no GPU is needed."""
    calls: list[tuple] = []

    class Stream:
        ptr = 77

        def __init__(self, name: str = "own", **_: object):
            self.name = name

        def record(self) -> str:
            return f"event of {self.name}"

        def wait_event(self, event: str) -> None:
            calls.append((self.name, "waits for", event))

    class Links:
        def __init__(self, size: int, identity: str, rank: int):
            calls.append((size, identity, rank))

        def allReduce(self, *arguments: object) -> None:  # noqa: N802 - CuPy's name
            calls.append(arguments)

    nccl = types.SimpleNamespace(
        get_unique_id=lambda: "id", NcclCommunicator=Links, NCCL_SUM=0, NCCL_FLOAT32=7, NCCL_FLOAT64=8, NCCL_FLOAT16=6
    )
    cuda = types.SimpleNamespace(nccl=nccl, Stream=Stream, get_current_stream=lambda: Stream("current"))
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    array = types.SimpleNamespace(data=types.SimpleNamespace(ptr=1000), dtype=np.dtype(np.float32), size=12)
    sums = NcclSums(Exchange())
    sums.finish(sums.start(array))
    assert calls == [
        (2, "id", 0),
        ("own", "waits for", "event of current"),
        (1000, 1000, 12, 7, 0, 77),
        ("current", "waits for", "event of own"),
    ]
