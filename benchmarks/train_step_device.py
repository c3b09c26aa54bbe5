"""Compare a training step on a GPU with PyTorch's; `python -m benchmarks.train_step --device cuda` runs this module.

handloom runs in fp16 (float32 weights, loss scale and clipping on the device) and in fp32, with and without CUDA
graphs. PyTorch runs with fp16 autocast, GradScaler, fused Adam and scaled_dot_product_attention, eager and compiled.
The two libraries train the same model on the same batch, and clip gradients to norm 1. Each row of the table has a
process of its own. All processes start and warm up before the first measurement, and then run one after the other. A
step's time is the mean over many steps, after which the host waits once. Host time is the time that the host needs to
issue a step, and memory is the peak of the library's memory pools. The number of kernel launches per step is read from
CUDA graphs.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import conditions, merge_rows, started
from benchmarks.train_step_models import MORE, SIZES, Size, build, loss
from benchmarks.train_step_subjects import BETAS, CLIP_NORM, EPS, LEARNING_RATE
from handloom.autograd.backend import check_device
from handloom.train.tables.cells import markdown_table

OURS = ("handloom-fp16-graphs", "handloom-fp16", "handloom-fp32-graphs", "handloom-fp32")
THEIRS = ("torch-eager", "torch-compile")
WARM_UP = 10
COLUMNS = {
    "side": "side",
    "ms": "ms:.2f",
    "host_ms": "host, ms:.2f",
    "tokens_per_second": "tokens/s:,",
    "peak_mb": "memory, MB:,",
    "launches": "kernel launches without graphs:,",
}

#: The reports' models with batches for a GPU. The German-English model is measured in a small and a large size.
DEVICE_SIZES: Mapping[str, Size] = {
    "de-en": dataclasses.replace(SIZES["de-en"], batch=128, source=64, target=64),
    "de-en-512": dataclasses.replace(SIZES["de-en"], batch=512, source=64, target=64),
    "en-fr": dataclasses.replace(SIZES["en-fr"], batch=64, vocabulary=16_000),
    "paraphrase": SIZES["paraphrase"],
    "headline": dataclasses.replace(SIZES["headline"], batch=64, vocabulary=30_000),
    "classifier": SIZES["classifier"],
    "language-model": dataclasses.replace(SIZES["language-model"], batch=64),
}


def size_of(config: str) -> Size:
    """Return the size with this name, which can also be a tiny model's. Raises KeyError for an unknown name."""
    return {**MORE, **DEVICE_SIZES}[config]


class OnDevice:
    """The base class of a worker. A subclass defines `step`, `wait`, `launches`, `memory` and `about`; `wait` waits for
    the device and returns the loss of the last step.
    """

    step: Callable[[], None]
    wait: Callable[[], float]

    def warm(self) -> float:
        for _ in range(WARM_UP):
            self.step()
        return self.wait()

    def steps(self, count: int) -> dict[str, float]:
        """Return the milliseconds per step, and the milliseconds that the host needs to issue a step."""
        self.wait()
        start = time.perf_counter()
        for _ in range(count):
            self.step()
        issued = time.perf_counter()
        self.wait()
        return {"ms": (time.perf_counter() - start) / count * 1e3, "host_ms": (issued - start) / count * 1e3}


class HandloomOnDevice(OnDevice):
    """A training step of handloom, as in its Trainer but without the log."""

    def __init__(self, size: Size, half: bool, graphs: bool = False):
        import handloom
        from handloom.autograd import default_generator
        from handloom.train.device_updates import DeviceUpdates, choose_updates
        from handloom.train.distributed import find_process_group
        from handloom.train.optim.optimizers import Adam
        from handloom.train.updates import MicroBatch, UpdateOptions

        handloom.manual_seed(0)
        self.size, self.batch = size, MicroBatch(0, 0, size.arrays())
        self.model = build(size).to("cuda")
        optimizer = Adam(self.model.parameters(), LEARNING_RATE, betas=BETAS, eps=EPS)
        options = UpdateOptions(clip_norm=CLIP_NORM, precision="fp16" if half else "fp32", graphs=graphs)
        updates = choose_updates(self.model, optimizer, options, find_process_group(), [default_generator])
        assert isinstance(updates, DeviceUpdates)
        self.updates, self.loss = updates, math.nan
        self.mean_loss = lambda model, batch: (loss(model, size, **batch), size.tokens)

    def step(self) -> None:
        self.updates.update([self.batch], self.mean_loss, 0, LEARNING_RATE)

    def wait(self) -> float:
        for _, means in self.updates.read().steps:
            self.loss = means["loss"]
        return self.loss

    def launches(self) -> int | None:
        """Return the launches of a step's CUDA graphs, or None without graphs or if CuPy can't count them."""
        sizes = self.updates.graphs.sizes() if self.updates.graphs else {}
        return sum(sizes.values()) if sizes else None

    def memory(self) -> float:
        """Return the device memory in MB of CuPy's pool and the graphs' pool, which never free memory."""
        import cupy

        own = 0 if self.updates.graphs is None else self.updates.graphs.pool.total_bytes()
        return (cupy.get_default_memory_pool().total_bytes() + own) / 1e6

    def about(self) -> dict[str, Any]:
        import cupy

        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        return {"device": name, "cuda": cupy.cuda.runtime.runtimeGetVersion()}


class TorchOnDevice(OnDevice):
    """A training step of PyTorch with fp16 autocast, GradScaler, fused Adam, scaled_dot_product_attention."""

    def __init__(self, size: Size, compiled: bool):
        import torch

        from benchmarks.train_step_torch import Model

        torch.manual_seed(0)
        self.torch = torch
        self.model = Model(size, lean=True).cuda()
        self.forward = torch.compile(self.model) if compiled else self.model
        self.batch = {name: torch.from_numpy(array).pin_memory() for name, array in size.arrays().items()}
        parameters = self.model.parameters()
        self.optimizer = torch.optim.Adam(parameters, LEARNING_RATE, BETAS, EPS, fused=True)
        self.scaler = torch.amp.GradScaler("cuda")
        self.loss: Any = None

    def step(self) -> None:
        torch = self.torch
        self.optimizer.zero_grad(set_to_none=True)
        batch = {name: tensor.to("cuda", non_blocking=True) for name, tensor in self.batch.items()}
        with torch.autocast("cuda", torch.float16):
            loss = self.forward(**batch)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP_NORM)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.loss = loss.detach()

    def wait(self) -> float:
        return self.loss.item()

    def launches(self) -> None:
        """Return None: PyTorch's launches are not counted."""

    def memory(self) -> float:
        return self.torch.cuda.max_memory_reserved() / 1e6

    def about(self) -> dict[str, Any]:
        return {"device": self.torch.cuda.get_device_name(), "torch": self.torch.__version__}


def subject(side: str, config: str) -> OnDevice:
    kind, *form = side.split("-")
    size = size_of(config)
    if kind == "handloom":
        return HandloomOnDevice(size, "fp16" in form, "graphs" in form)
    return TorchOnDevice(size, "compile" in form)


def row(config: str, steps: int) -> dict[str, Any]:
    """Return all measurements of one configuration."""
    found: dict[str, Any] = {}
    with started({side: (subject, side, config) for side in (*OURS, *THEIRS)}, threads=1) as workers:
        losses = {side: worker.ask("warm") for side, worker in workers.items()}
        for side, worker in workers.items():
            times = [worker.ask("steps", steps) for _ in range(3)]
            best = min(times, key=lambda each: each["ms"])
            tokens = size_of(config).tokens / best["ms"] * 1e3
            found[side] = {
                **best,
                "all_ms": [each["ms"] for each in times],
                "tokens_per_second": round(tokens),
                "peak_mb": round(worker.ask("memory")),
                "launches": worker.ask("launches"),
                "loss_after_warm_up": losses[side],
                "about": worker.ask("about"),
            }
    for side in OURS:  # without graphs, a step has the same launches one by one
        found[side]["launches"] = found[side]["launches"] or found[f"{side}-graphs"]["launches"]
    ours = max((found[side] for side in OURS[:2]), key=lambda each: each["tokens_per_second"])
    ratios = {side: ours["tokens_per_second"] / found[side]["tokens_per_second"] for side in THEIRS}
    return {
        "config": config,
        "state": "measured",
        "sides": found,
        "ratio": {side: round(ratio, 3) for side, ratio in ratios.items()},
        "memory_saved_by_fp16": round(1 - found[OURS[1]]["peak_mb"] / found[OURS[3]]["peak_mb"], 3),
        "steps": steps,
        **conditions("torch", "cupy-cuda13x", "cupy-cuda12x"),
    }


def run(configs: Sequence[str], steps: int, file: Path | None) -> None:
    """Measure, show a table, and write the rows."""
    check_device("cuda")
    for config in configs:
        found = row(config, steps)
        rows = [{"side": side, **each} for side, each in found["sides"].items()]
        print(f"{config}: tokens/s divided by PyTorch's: {found['ratio']}\n{markdown_table(rows, COLUMNS)}", flush=True)
        if file:
            merge_rows(file, [found])
