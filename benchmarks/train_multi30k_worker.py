"""One side of `benchmarks.train_multi30k`, in a process of its own. Commands: those of `train_step_worker`.

    python -m benchmarks.train_multi30k_worker handloom|torch-layers|torch-lean THREADS BATCHES.npz

The file holds the batches (see `save_batches`). Both sides go through them in the same order, again and again.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.train_step_sizes import Size
from benchmarks.train_step_worker import HandloomSubject, TorchSubject, serve

Arrays = dict[str, np.ndarray]
CLIP = 1.0
BETAS, EPS = (0.9, 0.98), 1e-9
WARM_UP = 1000  # steps of the schedule


def learning_rate(d_model: int, step: int, warm_up: int = WARM_UP) -> float:
    """Noam's schedule, for PyTorch."""
    return d_model**-0.5 * min(step**-0.5, step * warm_up**-1.5)


def save_batches(file: Path, size: Size, batches: Sequence[Any]) -> None:
    """Write batches (`handloom.train.data.batches.Batch`) and the model's size."""
    arrays = {
        f"{number}.{field.name}": getattr(batch, field.name)
        for number, batch in enumerate(batches)
        for field in dataclasses.fields(batch)
    }
    np.savez(file, size=np.array(json.dumps(dataclasses.asdict(size))), **arrays)


def load_batches(file: str) -> tuple[Size, list[Arrays]]:
    with np.load(file) as stored:
        size = Size(**json.loads(str(stored["size"])))
        found: dict[int, Arrays] = {}
        for name in stored.files:
            number, _, field = name.partition(".")
            if field:
                found.setdefault(int(number), {})[field] = stored[name]
    return size, [found[number] for number in sorted(found)]


class RealTorch(TorchSubject):
    """The equal loop: padding masks, label smoothing, clipping, the schedule, fused Adam."""

    def __init__(self, size: Size, threads: int, lean: bool, batches: list[Arrays], warm_up: int = WARM_UP):
        super().__init__(size, threads, lean)
        self.size, self.lean, self.warm_up = size, lean, warm_up
        self.batches = itertools.cycle(enumerate(batches))
        self.first = batches[0]
        self.optimizer = self.torch.optim.Adam(self.model.parameters(), 0.0, BETAS, EPS, fused=True)
        self.steps = 0

    def loss_of(self, model: Any, batch: Arrays) -> Any:
        source, target, labels = (
            self.torch.from_numpy(batch[name]) for name in ("source", "target_input", "target_output")
        )
        return model(source, labels, target, padding=source == 0)

    def step(self) -> float:
        self.steps += 1
        _, batch = next(self.batches)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(self.model, batch)
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.param_groups[0]["lr"] = learning_rate(self.size.d_model, self.steps, self.warm_up)
        self.optimizer.step()
        return loss.item()

    def gradients(self) -> Arrays:
        from benchmarks.train_step_torch import Model

        model = Model(dataclasses.replace(self.size, dropout=0.0), lean=self.lean)
        model.load_state_dict(self.model.state_dict())
        loss = self.loss_of(model, self.first)
        loss.backward()
        norm = self.torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        named = {name: p.grad.numpy() for name, p in model.named_parameters()}
        return {"loss": loss.detach().numpy(), "norm before clipping": norm.numpy(), **named}


class RealHandloom(HandloomSubject):
    """The Trainer's own update."""

    def __init__(self, size: Size, batches: list[Arrays], folder: str, warm_up: int = WARM_UP):
        from handloom.train.data.batches import Batch
        from handloom.train.optim.optimizers import Adam
        from handloom.train.optim.schedules import noam
        from handloom.train.runs.folder import RunFolder
        from handloom.train.tasks.translation import translation_loss
        from handloom.train.trainer import Trainer
        from handloom.train.updates import MicroBatch, UpdateOptions
        from handloom.train.validation import Validation

        super().__init__(size)
        made = [Batch(**arrays) for arrays in batches]
        self.first = made[0]
        self.batches = itertools.cycle([MicroBatch(0, index, batch) for index, batch in enumerate(made)])
        self.compute_loss = translation_loss(size.label_smoothing, 0)
        self.optimizer = Adam(self.model.parameters(), betas=BETAS, eps=EPS)
        self.trainer = Trainer(
            self.model, self.compute_loss, self.optimizer, noam(size.d_model, warm_up), made,  # type: ignore[arg-type]
            Validation([]), RunFolder.create(Path(folder) / "run", {}), config={}, steps=10**6,
            updates=UpdateOptions(clip_norm=CLIP),
        )  # fmt: skip
        self.steps = 0

    def step(self) -> float:
        self.steps += 1
        self.trainer.update(self.steps, [next(self.batches)])
        return self.trainer.updates.read().steps[-1][1]["loss"]

    def gradients(self) -> Arrays:
        from benchmarks.train_step_models import build
        from handloom.train.optim.optimizers import clip_grad_norm

        model = build(dataclasses.replace(self.size, dropout=0.0))
        model.load_state_dict(self.model.state_dict())
        loss, _ = self.compute_loss(model, self.first)[:2]
        loss.backward()
        norm = clip_grad_norm(list(model.parameters()), CLIP)
        named = {name: p.grad for name, p in model.named_parameters()}
        return {"loss": loss.data, "norm before clipping": np.array(norm), **named}


def main() -> None:
    side, threads, file = sys.argv[1:]
    size, batches = load_batches(file)
    shapes = [(*batch["source"].shape, batch["target_input"].shape[1]) for batch in batches]
    sizes = [dataclasses.replace(size, batch=rows, source=s, target=t) for rows, s, t in shapes]
    with tempfile.TemporaryDirectory() as folder:
        if side == "handloom":
            serve(RealHandloom(size, batches, folder), sizes)
        else:
            serve(RealTorch(size, int(threads), side == "torch-lean", batches), sizes)


if __name__ == "__main__":
    main()
