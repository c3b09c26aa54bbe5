"""One side of `benchmarks.train_step`, in a process of its own: it reads commands and answers each with a line of JSON.

    python -m benchmarks.train_step_worker handloom|torch-layers|torch-lean|torch-compiled CONFIG THREADS

Commands: `save FILE` and `load FILE` (weights), `batch SEED` (another one), `steps N` (seconds of each), `reset` and
`memory` (peak resident MB since), `gradients FILE` (loss and gradients without dropout), `about` (versions, BLAS, speed
of a plain product), `products` and `products_from_memory` (seconds that the step's matrix products take alone),
`profile N` and `try` (a step: null, or its error).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.train_step_sizes import Size, size_of

LEARNING_RATE, BETAS, EPS = 1e-4, (0.9, 0.98), 1e-9
SIDES = ("handloom", "torch-layers", "torch-lean")
COMPILED = "torch-compiled"  # torch-lean by torch.compile, which needs a C++ compiler


class TorchSubject:
    """PyTorch with its fused Adam, eager or `compiled` by torch.compile."""

    def __init__(self, size: Size, threads: int, lean: bool, compiled: bool = False):
        import torch

        from benchmarks.train_step_torch import Model

        torch.set_num_threads(threads)
        torch.manual_seed(0)
        self.torch = torch
        self.model = Model(size, lean=lean)
        self.run: Any = torch.compile(self.model) if compiled else self.model
        self.take(size.arrays())
        self.optimizer = torch.optim.Adam(self.model.parameters(), LEARNING_RATE, BETAS, EPS, fused=True)

    def take(self, batch: dict[str, np.ndarray]) -> None:
        self.batch = {name: self.torch.from_numpy(array) for name, array in batch.items()}

    def load(self, weights: dict[str, np.ndarray]) -> None:
        self.model.load_state_dict({name: self.torch.from_numpy(array) for name, array in weights.items()})

    def step(self) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.run(**self.batch)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def gradients(self) -> dict[str, np.ndarray]:
        self.model.eval()  # the layers' fast path is off while gradients are recorded
        loss = self.model(**self.batch)
        loss.backward()
        return {"loss": loss.detach().numpy(), **{name: p.grad.numpy() for name, p in self.model.named_parameters()}}

    def product(self, size: int) -> Any:
        """A function that multiplies two square matrices."""
        a, b = self.torch.rand(size, size), self.torch.rand(size, size)
        out = self.torch.empty(size, size)
        return lambda: self.torch.matmul(a, b, out=out)

    def about(self) -> dict[str, Any]:
        return {"torch": self.torch.__version__, "kernels": self.torch.backends.cpu.get_cpu_capability()}


class HandloomSubject:
    """handloom as its Trainer runs it: the process keeps freed memory."""

    def __init__(self, size: Size):
        import handloom
        from benchmarks.train_step_models import build
        from handloom.train.allocator import keep_freed_memory
        from handloom.train.optim.optimizers import Adam

        keep_freed_memory()
        handloom.manual_seed(0)
        self.size = size
        self.take(size.arrays())
        self.model = build(size)
        self.optimizer = Adam(self.model.parameters(), LEARNING_RATE, BETAS, EPS)

    def take(self, batch: dict[str, np.ndarray]) -> None:
        self.batch = batch

    def weights(self) -> dict[str, np.ndarray]:
        from benchmarks.train_step_models import fixed_positions, shared_name

        state = {shared_name(self.size, name): array for name, array in self.model.state_dict().items()}
        return state | fixed_positions(self.model)

    def loss(self) -> Any:
        from benchmarks.train_step_models import loss

        return loss(self.model, self.size, **self.batch)

    def step(self) -> float:
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def gradients(self) -> dict[str, np.ndarray]:
        from benchmarks.train_step_models import shared_name

        self.model.eval()
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        named = {shared_name(self.size, name): p.grad for name, p in self.model.named_parameters()}
        return {"loss": loss.data, **named}

    def product(self, size: int) -> Any:
        a, b = np.random.default_rng(0).random((2, size, size), np.float32)
        out = np.empty_like(a)
        return lambda: np.matmul(a, b, out=out)

    def about(self) -> dict[str, Any]:
        from handloom.autograd.fast import compiled, mkl
        from handloom.train.runs.machine import blas, versions

        missing = {"compiled_loops": compiled.missing(), "mkl": mkl.missing()}
        return {**versions("numpy", "numba"), **blas(), **{name: why or "yes" for name, why in missing.items()}}


def peak_memory() -> float:
    """The largest resident memory of this process since `reset_peak_memory`, in MB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000


def reset_peak_memory() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def gflops(product: Any, size: int) -> float:
    """The best of some products of two square matrices, in GFLOP/s."""
    best = min(_timed(product) for _ in range(12))
    return 2 * size**3 / best / 1e9


def _timed(work: Any) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def answer(subject: Any, sizes: Sequence[Size], command: str, argument: str) -> Any:
    """Carry out one command. `sizes` are those of the subject's batches, in turn."""
    match command:
        case "steps":
            return [_timed(subject.step) for _ in range(int(argument))]
        case "try":
            try:
                subject.step()
            except Exception as error:  # whatever a compiler raises
                return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        case "save":
            np.savez(argument, **subject.weights())
        case "load":
            with np.load(argument) as stored:
                subject.load(dict(stored))
        case "batch":
            subject.take(sizes[0].arrays(int(argument)))
        case "gradients":
            np.savez(argument, **subject.gradients())
        case "reset":
            reset_peak_memory()
        case "memory":
            return peak_memory()
        case "about":
            return {**subject.about(), "gflops": round(gflops(subject.product(1024), 1024))}
        case "products" | "products_from_memory":
            from benchmarks.train_step_products import seconds, seconds_from_memory, step_products

            measured = seconds if command == "products" else seconds_from_memory
            return sum(measured(step_products(size)) for size in sizes) / len(sizes)
        case "profile":
            from benchmarks.train_step_profile import profile

            return profile(subject.step, subject.optimizer, int(argument))
        case _:
            raise ValueError(f"unknown command {command!r}")
    return None


def serve(subject: Any, sizes: Sequence[Size]) -> None:
    """Answer the commands that come on standard input until it ends."""
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        print(json.dumps(answer(subject, sizes, command, argument)), flush=True)


def main() -> None:
    side, config, threads = sys.argv[1:]
    size = size_of(config)
    compiled = side == COMPILED
    lean = compiled or side == "torch-lean"
    serve(HandloomSubject(size) if side == "handloom" else TorchSubject(size, int(threads), lean, compiled), [size])


if __name__ == "__main__":
    main()
