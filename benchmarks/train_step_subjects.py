"""The two subjects of `benchmarks.train_step`: the same model, batches and Adam in handloom and in PyTorch.

With batches of real data (`save_batches`), a step also masks padding, clips gradients and uses Noam's schedule.
"""

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import peak_memory, reset_peak_memory
from benchmarks.train_step_models import Size, build, loss, shared_name

Arrays = dict[str, np.ndarray]
LEARNING_RATE, BETAS, EPS, CLIP_NORM = 1e-4, (0.9, 0.98), 1e-9, 1.0
WARM_UP = 1000  # warm-up steps of Noam's schedule


def save_batches(file: Path, batches: Sequence[Any]) -> None:
    """Write batches (`handloom.train.data.batches.Batch`)."""
    named = enumerate(map(dataclasses.asdict, batches))
    np.savez(file, **{f"{number}.{name}": array for number, batch in named for name, array in batch.items()})


def load_batches(file: str | Path) -> list[Arrays]:
    found: dict[int, Arrays] = {}
    with np.load(file) as stored:
        for key in stored.files:
            number, _, name = key.partition(".")
            found.setdefault(int(number), {})[name] = stored[key]
    return [found[number] for number in sorted(found)]


def timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


class Subject:
    """The base class of a worker. A subclass defines the functions whose types are given here.

    `step` trains on the next batch and returns the loss; `gradients` returns the loss and all gradients of the first
    batch, without dropout; `product(size)` returns a function that multiplies two square matrices.
    """

    step: Callable[[], float]
    load: Callable[[Arrays], None]
    gradients: Callable[[], Arrays]
    product: Callable[[int], Callable[[], Any]]
    libraries: Callable[[], dict[str, Any]]

    def __init__(self, size: dict[str, Any], batches: str | None = None):
        self.size = Size(**size)
        self.real = batches is not None
        self.arrays = load_batches(batches) if batches else [self.size.arrays()]
        self.first = self.arrays[0]

    def steps(self, count: int) -> list[float]:
        """Return the seconds of each step."""
        return [timed(self.step) for _ in range(count)]

    def load_file(self, file: str) -> None:
        with np.load(file) as stored:
            self.load(dict(stored))

    def save_gradients(self, file: str, seed: int) -> None:
        """Write the gradients. `seed` selects the random batch; it has no effect on batches of real data."""
        if not self.real:
            self.first = self.size.arrays(seed)
        np.savez(file, **self.gradients())

    def reset_memory(self) -> None:
        reset_peak_memory()

    def memory(self) -> float:
        return peak_memory()

    def about(self) -> dict[str, Any]:
        """Return the libraries, and the speed of a plain product in GFLOP/s."""
        best = min(map(timed, itertools.repeat(self.product(1024), 12)))
        return {**self.libraries(), "gflops": round(2 * 1024**3 / best / 1e9)}


class Torch(Subject):
    """PyTorch with its fused Adam. `how` is "layers", "lean" (see `train_step_torch`), or a variant of "lean"."""

    def __init__(self, how: str, threads: int, size: dict[str, Any], batches: str | None = None):
        import torch

        from benchmarks.train_step_torch import Model

        super().__init__(size, batches)
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        self.torch, self.how, self.done = torch, how, 0
        self.model = Model(self.size, lean=how != "layers")
        self.run: Any = torch.compile(self.model) if how == "compiled" else self.model
        self.batches = itertools.cycle(list(map(self.tensors, self.arrays)))
        self.optimizer = torch.optim.Adam(self.model.parameters(), LEARNING_RATE, BETAS, EPS, fused=True)

    def tensors(self, batch: Arrays) -> dict[str, Any]:
        if not self.real:
            return {name: self.torch.from_numpy(array) for name, array in batch.items()}
        named = ("source", "target_input", "target_output")
        source, target_input, labels = (self.torch.from_numpy(batch[name]) for name in named)
        return {"source": source, "target_input": target_input, "labels": labels, "padding": source == 0}

    def load(self, weights: Arrays) -> None:
        self.model.load_state_dict({name: self.torch.from_numpy(array) for name, array in weights.items()})

    def step(self) -> float:
        self.done += 1
        batch = next(self.batches)
        self.optimizer.zero_grad(set_to_none=True)
        half = self.how == "bfloat16"
        with self.torch.autocast("cpu", self.torch.bfloat16) if half else contextlib.nullcontext():
            loss = self.run(**batch)
        loss.backward()
        if self.real:
            self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP_NORM)
            rate = self.size.d_model**-0.5 * min(self.done**-0.5, self.done * WARM_UP**-1.5)
            self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        return loss.item()

    def gradients(self) -> Arrays:
        from benchmarks.train_step_torch import Model

        model = Model(dataclasses.replace(self.size, dropout=0.0), lean=self.how != "layers")
        model.load_state_dict(self.model.state_dict())
        loss = model(**self.tensors(self.first))
        loss.backward()
        named = {name: p.grad.numpy() for name, p in model.named_parameters()}
        # not clip_grad_norm_: in float32, its norm of 70 million elements has a relative error of 2e-3 with AVX2
        norm = np.sqrt(sum(np.square(grad, dtype=np.float64).sum() for grad in named.values()))
        return {"loss": loss.detach().numpy(), "norm": norm, **named}

    def product(self, size: int) -> Callable[[], Any]:
        a, b, out = (self.torch.rand(size, size) for _ in range(3))
        return lambda: self.torch.matmul(a, b, out=out)

    def libraries(self) -> dict[str, Any]:
        return {"torch": self.torch.__version__, "kernels": self.torch.backends.cpu.get_cpu_capability()}


class Handloom(Subject):
    """handloom with its Trainer's settings, which keep freed memory. On real data, a step is the Trainer's update."""

    def __init__(self, size: dict[str, Any], batches: str | None = None):
        import handloom
        from handloom.autograd import default_generator
        from handloom.train.data.batches import Batch
        from handloom.train.distributed import ProcessGroup
        from handloom.train.optim.optimizers import Adam
        from handloom.train.optim.schedules import noam
        from handloom.train.tasks.translation import translation_loss
        from handloom.train.updates import MicroBatch, UpdateOptions, Updates, keep_freed_memory

        super().__init__(size, batches)
        keep_freed_memory()
        handloom.manual_seed(0)
        self.model = build(self.size)
        self.optimizer = Adam(self.model.parameters(), LEARNING_RATE, BETAS, EPS)
        if self.real:
            made = [MicroBatch(0, index, Batch(**arrays)) for index, arrays in enumerate(self.arrays)]
            self.batches, self.done = itertools.cycle(made), 0
            self.translation_loss = translation_loss(self.size.label_smoothing, 0)
            self.rate = noam(self.size.d_model, WARM_UP)
            options = UpdateOptions(clip_norm=CLIP_NORM)
            self.updates = Updates(self.model, self.optimizer, options, ProcessGroup(), [default_generator])

    def weights(self) -> Arrays:
        """Return the parameters, and the table of sinusoidal positions if there is one, by their names in PyTorch."""
        state = {shared_name(self.size, name): array for name, array in self.model.state_dict().items()}
        table = getattr(self.model.positions, "table", None)
        return state if table is None else {**state, "positions": table.data}

    def save_weights(self, file: str) -> None:
        np.savez(file, **self.weights())

    def step(self) -> float:
        if self.real:
            self.done += 1
            self.updates.update([next(self.batches)], self.translation_loss, 0, self.rate(self.done))
            return self.updates.read().steps[-1][1]["loss"]
        self.optimizer.zero_grad()
        found = loss(self.model, self.size, **self.first)
        found.backward()
        self.optimizer.step()
        return found.item()

    def gradients(self) -> Arrays:
        from handloom.train.data.batches import Batch
        from handloom.train.optim.optimizers import clip_grad_norm

        model = build(dataclasses.replace(self.size, dropout=0.0))
        model.load_state_dict(self.model.state_dict())
        if self.real:
            found = self.translation_loss(model, Batch(**self.first))[0]
        else:
            found = loss(model, self.size, **self.first)
        found.backward()
        norm = clip_grad_norm(list(model.parameters()), None)
        named = {shared_name(self.size, name): p.grad for name, p in model.named_parameters()}
        return {"loss": found.data, "norm": np.array(norm), **named}

    def product(self, size: int) -> Callable[[], Any]:
        from handloom.autograd.fast.products import divided_product

        a, b = np.random.default_rng(0).random((2, size, size), np.float32)
        out = np.empty_like(a)
        return lambda: divided_product(a, b, out)

    def libraries(self) -> dict[str, Any]:
        from handloom.autograd.fast import compiled, mkl
        from handloom.train.runs.results import blas, versions

        missing = {"compiled_loops": compiled.missing(), "mkl": mkl.missing()}
        return {**versions("numpy", "numba"), **blas(), **{name: why or "yes" for name, why in missing.items()}}

    def products(self) -> float:
        """Return the seconds of a step's matrix products without the rest of the step, as the mean over the batches."""
        from benchmarks.train_step_products import seconds, step_products

        sizes = [self.size]
        if self.real:
            shapes = [(*batch["source"].shape, batch["target_input"].shape[1]) for batch in self.arrays]
            sizes = [dataclasses.replace(self.size, batch=rows, source=s, target=t) for rows, s, t in shapes]
        return sum(seconds(step_products(size)) for size in sizes) / len(sizes)
