"""The sides of `benchmarks.train_step`: the same model, batches and Adam in handloom and in PyTorch.

With batches of real data, a step also masks padding, clips gradients and uses Noam's schedule. On a GPU it clips too.
"""

import itertools
import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.side_by_side import peak_memory, reset_peak_memory
from benchmarks.train_step_models import Arrays, Size, build, loss, shared_name, sizes_of
from handloom.autograd import bfloat16_products, default_generator
from handloom.models.hyperparameters import Settings
from handloom.train.device_updates import choose_updates
from handloom.train.distributed import ProcessGroup
from handloom.train.optim.optimizers import Adam
from handloom.train.optim.schedules import noam
from handloom.train.runs.results import blas, versions
from handloom.train.updates import MicroBatch, keep_freed_memory

LEARNING_RATE, BETAS, EPS, CLIP_NORM = 1e-4, (0.9, 0.98), 1e-9, 1.0
NOAM_WARM_UP = 1000  # warm-up steps of Noam's schedule

#: The sides on each device, with the arguments of `Handloom` or `train_step_torch.Torch`.
SIDES: Mapping[str, Mapping[str, dict[str, Any]]] = {
    "cpu": {
        "handloom": {},
        "handloom-bfloat16": {"precision": "bf16"},
        "torch-layers": {"lean": False},
        "torch-lean": {},
        "torch-compiled": {"compiled": True},
        "torch-bfloat16": {"half": "bfloat16"},
    },
    "cuda": {
        "handloom-fp16-graphs": {"precision": "fp16", "graphs": True},
        "handloom-fp16": {"precision": "fp16"},
        "handloom-fp32-graphs": {"graphs": True},
        "handloom-fp32": {},
        "torch-eager": {"half": "float16"},
        "torch-compile": {"half": "float16", "compiled": True},
    },
}


class Side:
    """The base class of a side. A subclass defines `step`, which trains on the next batch and need not wait for a GPU;
    `wait`, which waits for it and returns the last loss; `gradients(seed)`, which returns the loss and all gradients of
    `batch(seed)`; and `about`, or on a GPU `launches` and `device_memory` (in bytes).
    """

    def __init__(self, size: Size, batches: Sequence[Arrays] | None = None, device: str = "cpu"):
        self.size, self.given, self.device = size, batches, device
        self.arrays = batches or [size.arrays()]
        self.clips = batches is not None or device == "cuda"
        self.rates: Iterator[float] = itertools.repeat(LEARNING_RATE)
        if batches is not None:
            self.rates = map(noam(size.d_model, NOAM_WARM_UP), itertools.count(1))

    def warm(self, count: int) -> float:
        """Make steps that are not measured, and return the loss of the last one."""
        if self.device == "cpu":
            reset_peak_memory()
        for _ in range(count):
            self.step()
        return self.wait()

    def steps(self, count: int) -> list[float]:
        """Return the seconds of each step."""
        return [self.mean_step(1)["ms"] / 1e3 for _ in range(count)]

    def mean_step(self, count: int) -> dict[str, float]:
        """Return the milliseconds per step if the host waits once, and those that the host needs to issue a step."""
        self.wait()
        begin = time.perf_counter()
        for _ in range(count):
            self.step()
        issued = time.perf_counter()
        self.wait()
        return {"ms": (time.perf_counter() - begin) / count * 1e3, "host_ms": (issued - begin) / count * 1e3}

    def memory(self) -> float:
        """Return the peak memory in MB: resident memory, or on a GPU the library's memory pools."""
        return peak_memory() if self.device == "cpu" else self.device_memory() / 1e6

    def batch(self, seed: int) -> Arrays:
        """Return the first batch of real data, or the random batch of this seed."""
        return self.size.arrays(seed) if self.given is None else self.given[0]


class Handloom(Side):
    """handloom with its Trainer's settings. If gradients are clipped, a step is the Trainer's update."""

    def __init__(self, *common: Any, precision: Any = "fp32", graphs: bool = False):
        super().__init__(*common)
        keep_freed_memory()
        self.model = build(self.size).to(self.device)
        self.optimizer = Adam(self.model.parameters(), LEARNING_RATE, BETAS, EPS)
        made = [MicroBatch(0, index, arrays) for index, arrays in enumerate(self.arrays)]
        self.batches, self.last, self.updates = itertools.cycle(made), math.nan, None
        self.rounds = precision == "bf16"
        if self.clips:
            options = Settings(clip_norm=CLIP_NORM, precision=precision, graphs=graphs)
            self.updates = choose_updates(self.model, self.optimizer, options, ProcessGroup(), [default_generator])

    def mean_loss(self, model: Any, batch: Arrays) -> tuple[Any, int]:
        return loss(model, self.size, **batch), batch["labels"].size

    def step(self) -> None:
        batch = next(self.batches)
        if self.updates is not None:
            self.updates.update([batch], self.mean_loss, 0, next(self.rates))
        else:
            self.last = self.backward(batch.batch).item()
            self.optimizer.step()

    def backward(self, batch: Arrays) -> Any:
        self.optimizer.zero_grad()
        with bfloat16_products(self.rounds):
            found, _ = self.mean_loss(self.model, batch)
            found.backward()
        return found

    def wait(self) -> float:
        for _, means in self.updates.read().steps if self.updates is not None else ():
            self.last = means["loss"]
        return self.last

    def gradients(self, seed: int) -> Arrays:
        found = self.backward(self.batch(seed))
        named = {shared_name(self.size, name): p.grad for name, p in self.model.named_parameters()}
        return {"loss": found.data, **named}

    def launches(self) -> int | None:
        """Return the launches of a step's CUDA graphs, or None without graphs or if CuPy can't count them."""
        sizes = self.updates.graphs.sizes() if self.updates.graphs else {}
        return sum(sizes.values()) if sizes else None

    def device_memory(self) -> int:
        """Return the bytes of CuPy's pool and of the graphs' pool, which never free memory."""
        import cupy

        own = self.updates.graphs.pool.total_bytes() if self.updates.graphs else 0
        return cupy.get_default_memory_pool().total_bytes() + own

    def about(self) -> dict[str, Any]:
        from benchmarks.train_step_products import divided_product, gflops
        from handloom.autograd.fast import compiled, mkl

        missing = {"compiled_loops": compiled.missing(), "mkl": mkl.missing()}
        used = {name: why or "yes" for name, why in missing.items()}
        return {**versions("numpy", "numba"), **blas(), **used, "gflops": gflops(divided_product)}

    def products(self) -> float:
        """Return the seconds of a step's matrix products without the rest of the step, as the mean over the batches."""
        from benchmarks.train_step_products import seconds, step_products

        return statistics.fmean(seconds(step_products(size)) for size in sizes_of(self.size, self.given))


def create(side: str, device: str, size: Size, batches: Sequence[Arrays] | None) -> Side:
    if side.startswith("handloom"):
        return Handloom(size, batches, device, **SIDES[device][side])
    from benchmarks.train_step_torch import Torch

    return Torch(size, batches, device, **SIDES[device][side])
