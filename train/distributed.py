"""Several processes train one model, each on its share of the batches: `mpirun -n 4 python examples/...`.

Every process (rank) has a copy of the whole model. The gradients are summed over the ranks, so that all ranks make the
same update, and their copies stay equal. `ProcessGroup` is a single process. `MpiProcessGroup` has the same interface:
it communicates through mpi4py, and sums gradients on GPUs with NCCL (`NcclSums`).
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..autograd.backend import DeviceError, array_module
from ..errors import InputError
from .runs.checkpoints import digest
from .runs.folder import RunFolder

# Set by the mpirun of MPICH, Open MPI, MVAPICH and Slurm's PMI for each process that they start.
_LAUNCHED = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS")
_LOCAL = ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")


class ProcessGroup:
    """A group of one process, and the interface of larger groups. Only rank 0 writes files and prints."""

    rank, size = 0, 1

    @property
    def first(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the sum of each value over the ranks. All ranks receive bit-equal sums."""
        return list(values)

    def from_first(self, make: Callable[[], Any]) -> Any:
        """Call `make()` on rank 0 and return its result on every rank. An error ends the job."""
        return make()

    def gather(self, value: Any) -> list[Any]:
        """Return each rank's `value`, in the order of the ranks, on every rank."""
        return [value]

    def start_sum(self, array: Any) -> Any:
        """Begin to sum a contiguous array over the ranks, in place, in the same order on all; see `finish_sum`."""
        return None

    def finish_sum(self, request: Any) -> None:
        """Wait until the sum is complete."""

    def progress(self, requests: Sequence[Any]) -> None:
        """Give pending sums time to progress; MPI works only while it is called."""

    def check_equal(self, weights: Callable[[], dict[str, np.ndarray]]) -> None:
        """Raise RuntimeError on every rank if the weights of the ranks are not bit-equal."""

    def abort(self, code: int) -> None:
        """End all processes of the job, because the other processes may be waiting for this process."""


class MpiProcessGroup(ProcessGroup):
    """The processes of an MPI communicator (mpi4py). An uncaught error ends the whole job."""

    def __init__(self, communicator: Any):
        self.communicator = communicator
        self.rank, self.size = communicator.Get_rank(), communicator.Get_size()
        self._nccl: NcclSums | None = None
        self._show = sys.excepthook
        sys.excepthook = self._fail

    def sum(self, values: Sequence[float]) -> list[float]:
        # Values are gathered and added in the order of the ranks: an MPI sum may differ in the last bit between ranks.
        rows = np.empty((self.size, len(values)))
        self.communicator.Allgather(np.asarray(values, np.float64), rows)
        return [float(sum(column)) for column in rows.T]

    def from_first(self, make: Callable[[], Any]) -> Any:
        return self.communicator.bcast(make() if self.first else None)

    def gather(self, value: Any) -> list[Any]:
        return self.communicator.allgather(value)

    def start_sum(self, array: Any) -> Any:
        if isinstance(array, np.ndarray):
            from mpi4py import MPI

            return self.communicator.Iallreduce(MPI.IN_PLACE, array)
        if self._nccl is None:
            self._nccl = NcclSums(self.communicator)
        return self._nccl.start(array)

    def finish_sum(self, request: Any) -> None:
        if self._nccl is None:
            request.Wait()
        else:
            self._nccl.finish(request)

    def progress(self, requests: Sequence[Any]) -> None:
        if self._nccl is None:
            for request in requests:
                request.Test()

    def check_equal(self, weights: Callable[[], dict[str, np.ndarray]]) -> None:
        digests = self.communicator.allgather(digest(weights()))
        others = [str(rank) for rank, other in enumerate(digests) if other != digests[0]]
        if others:
            raise RuntimeError(
                f"the weights of rank {', '.join(others)} differ from those of rank 0. Do all processes run the same "
                "program with the same libraries, on the same kind of processor?"
            )

    def abort(self, code: int) -> None:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        time.sleep(0.5)  # the launcher discards unread output when the abort reaches it
        self.communicator.Abort(code)

    def _fail(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._show(kind, error, trace)
        print(f"rank {self.rank} of {self.size} failed; the job ends", file=sys.stderr)
        self.abort(1)


class NcclSums:
    """Sums of GPU arrays by NCCL, on a separate stream during the backward pass; one GPU for each process."""

    def __init__(self, communicator: Any):
        import cupy
        from cupy.cuda import nccl

        if not hasattr(nccl, "NcclCommunicator"):
            cuda = cupy.cuda.runtime.runtimeGetVersion() // 1000
            cure = f"pip install nvidia-nccl-cu{cuda}"
            raise DeviceError(f"training on several GPUs needs NCCL, which CuPy can't load: {cure}")
        self._cupy, self._nccl = cupy, nccl
        identity = communicator.bcast(nccl.get_unique_id() if communicator.Get_rank() == 0 else None)
        self._links = nccl.NcclCommunicator(communicator.Get_size(), identity, communicator.Get_rank())
        self._stream = cupy.cuda.Stream(non_blocking=True)

    def start(self, array: Any) -> Any:
        """Begin a sum and return the event that signals its completion."""
        kinds = {"f": self._nccl.NCCL_FLOAT32, "d": self._nccl.NCCL_FLOAT64, "e": self._nccl.NCCL_FLOAT16}
        # The sum begins when the current stream has computed the array.
        self._stream.wait_event(self._cupy.cuda.get_current_stream().record())
        pointer, kind = array.data.ptr, kinds[array.dtype.char]
        self._links.allReduce(pointer, pointer, array.size, kind, self._nccl.NCCL_SUM, self._stream.ptr)
        return self._stream.record()

    def finish(self, event: Any) -> None:
        """Make the current stream wait for the sum. The host continues."""
        self._cupy.cuda.get_current_stream().wait_event(event)


@cache
def find_process_group() -> ProcessGroup:
    """Return the group of processes that mpirun started, or a group of this process only without mpirun.

    Raises InputError if mpirun started several processes, but mpi4py is not installed.
    """
    if not any(name in os.environ for name in _LAUNCHED):
        return ProcessGroup()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: there is no MPI library
        if next((os.environ[name] for name in _SIZES if name in os.environ), "") == "1":  # such as a shell under srun
            return ProcessGroup()
        found = next(name for name in _LAUNCHED if name in os.environ)
        why = str(error).partition("\n")[0]
        raise InputError(
            f"mpirun started this process ({found} is set), but mpi4py can't be imported ({why}). Install it with pip "
            "install mpi4py mpich; it must match the MPI that mpirun belongs to."
        ) from None
    if MPI.COMM_WORLD.Get_size() == 1:
        return ProcessGroup()
    return MpiProcessGroup(MPI.COMM_WORLD)


def local_device(device: str) -> str:
    """Return the device of this process: "cuda" becomes the GPU of its local number, and "cuda:N" is unchanged."""
    number = next((os.environ[name] for name in _LOCAL if name in os.environ), "0")
    return f"cuda:{number}" if device == "cuda" and find_process_group().size > 1 else device


class GradientSum:
    """Sums the gradients of a backward pass over the ranks, in flat buckets.

    Sums begin while the pass is still running: `early.backward` calls `ready`, and the sum of a bucket begins as soon
    as all of its gradients are complete. Buckets follow the reverse order of the parameters, in which gradients become
    ready, and begin in that order on every rank. A bucket is closed at `bucket_bytes`.
    """

    def __init__(self, parameters: Sequence[Any], group: ProcessGroup, bucket_bytes: int = 1 << 22):
        self.group = group
        self.buckets: list[list[Any]] = []
        size = 0
        for parameter in reversed(list(parameters)):
            if not self.buckets or size >= bucket_bytes or self.buckets[-1][0].dtype != parameter.dtype:
                self.buckets.append([])
                size = 0
            self.buckets[-1].append(parameter)
            size += parameter.data.nbytes
        self._bucket = {id(parameter): number for number, bucket in enumerate(self.buckets) for parameter in bucket}
        self._flat: list[Any] = [None] * len(self.buckets)
        self._missing: list[set[int]] = []
        self._requests: list[Any] = []

    def begin(self) -> None:
        """Prepare for a backward pass whose gradients are summed."""
        self._missing = [{id(parameter) for parameter in bucket} for bucket in self.buckets]
        self._requests = []

    def ready(self, parameter: Any) -> None:
        """Report that this parameter's gradient is final."""
        number = self._bucket.get(id(parameter))
        if number is not None:
            self._missing[number].discard(id(parameter))
            while len(self._requests) < len(self.buckets) and not self._missing[len(self._requests)]:
                self._start()
        self.group.progress(self._requests)

    def finish(self) -> None:
        """Wait for all sums. Every parameter with a gradient on some rank then has the sum as its gradient."""
        while len(self._requests) < len(self.buckets):
            self._start()  # buckets with parameters that the loss did not use
        for bucket, flat, request in zip(self.buckets, self._flat, self._requests, strict=True):
            self.group.finish_sum(request)
            used = flat[-len(bucket) :] > 0
            start = 0
            for parameter, any_rank in zip(bucket, used.tolist(), strict=True):
                stop = start + parameter.size
                parameter.grad_or_rows = flat[start:stop].reshape(parameter.shape) if any_rank else None
                start = stop

    def _start(self) -> None:
        """Copy the next bucket's gradients, with flags that say which exist, into its flat array, and begin its sum."""
        now = len(self._requests)
        bucket = self.buckets[now]
        if self._flat[now] is None:
            size = sum(parameter.size for parameter in bucket) + len(bucket)
            self._flat[now] = array_module(bucket[0].data).empty(size, bucket[0].dtype)
        flat, start = self._flat[now], 0
        for number, parameter in enumerate(bucket):
            stop = start + parameter.size
            flat[start:stop] = 0 if parameter.grad is None else parameter.grad.reshape(-1)
            flat[len(flat) - len(bucket) + number] = parameter.grad is not None
            start = stop
        self._requests.append(self.group.start_sum(flat))


def run_of_group(
    path: str | Path, config: Mapping[str, Any], *, resume: bool = False, overwrite: bool = False
) -> RunFolder:
    """Return the run folder that the first of the processes that train together makes, or opens again, and locks."""
    made: list[RunFolder] = []

    def first() -> tuple[Path, dict[str, Any]]:
        made.append(RunFolder.resume(path) if resume else RunFolder.create(path, config, overwrite=overwrite))
        return made[0].path, made[0].config

    found = find_process_group().from_first(first)
    return made[0] if made else RunFolder(*found)
