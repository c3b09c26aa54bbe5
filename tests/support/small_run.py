"""A small translation run for the training tests, in this process or as a command in a separate process.

It has dropout, bucketed batches and two batches per update. An epoch has 13 batches and can end within an update.
"""

import argparse
import json
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom.autograd import manual_seed
from handloom.cli.command_line import run_main
from handloom.models import Seq2SeqConfig, Seq2SeqTransformer
from handloom.train.callbacks import EarlyStopping, ProgressBar
from handloom.train.data.batches import TokenBatches
from handloom.train.distributed import find_process_group
from handloom.train.optim.optimizers import Adam
from handloom.train.optim.schedules import noam
from handloom.train.runs.folder import RunFolder, read_metrics
from handloom.train.tasks.translation import translation_loss
from handloom.train.trainer import Trainer
from handloom.train.updates import MicroBatch

VOCABULARY, STEPS = 24, 24


def small_batches(pairs: int = 160, seed: int = 1, tokens: int = 110, **options: Any) -> TokenBatches:
    """Return batches of sequences of 2 to 11 tokens, to be copied in reverse. `options` are those of TokenBatches."""
    generator = np.random.default_rng(seed)
    source = [generator.integers(4, VOCABULARY, size=generator.integers(2, 12)).tolist() for _ in range(pairs)]
    target = [ids[::-1] for ids in source]
    special = {"pad_id": 0, "bos_id": 1, "eos_id": 2}
    return TokenBatches(source, target, tokens_per_batch=tokens, seed=5, **special, **options)


def small_trainer(
    run: RunFolder, *, dropout: float = 0.2, device: str = "cpu", layers: int = 1, config: Any = None,
    data: Any = None, **options: Any,
) -> Trainer:  # fmt: skip
    """Return the trainer of a small run on small_batches(**data), whose `fit` has the batches, and the steps. The model
    has `layers` encoder and decoder layers and the settings `config`. `options` are `optimizer` (a function of the
    model), `steps`, `patience` and options of Trainer."""
    manual_seed(3)
    sizes = Seq2SeqConfig(
        VOCABULARY, VOCABULARY, 16, 2, layers, layers, 32, dropout,
        max_length=24, share_embeddings=True, tie_output=True, **(config or {}),
    )  # fmt: skip
    model = Seq2SeqTransformer(sizes).to(device)
    settings: dict[str, Any] = {"steps": STEPS, "accumulate": 2, "log_every": 3, "validate_every": 8, "average": 2}
    settings |= {"optimizer": lambda model: Adam(model.parameters()), "schedule": noam(16, 10), "patience": None}
    settings |= options
    optimizer, steps, patience = (settings.pop(name) for name in ("optimizer", "steps", "patience"))
    stopping = [] if patience is None else [EarlyStopping(patience)]
    callbacks = [ProgressBar(), *stopping, *settings.pop("callbacks", [])]
    trainer = Trainer(
        model, translation_loss(0.1, 0), optimizer(model), out=run, config={"model": sizes.to_dict()}, unit="token",
        callbacks=callbacks, **settings,
    )  # fmt: skip
    valid = small_batches(shuffle=False, pairs=20, seed=2)
    trainer.fit = partial(trainer.fit, small_batches(**(data or {})), steps=steps, validation=valid)  # type: ignore
    return trainer


def first_batches(count: int = 2, **data: Any) -> list[MicroBatch]:
    """Return the first batches of small_batches(**data), as an update gets them."""
    return [MicroBatch(0, index, batch) for index, batch in enumerate(islice(small_batches(**data).epoch(0), count))]


def small_run(folder: Path, *, resume: bool = False, stop_at: int | None = None, **options: Any) -> Trainer:
    """Start a run in `folder`, or resume it."""
    if not resume:
        find_process_group().from_first(lambda: RunFolder.create(folder, {}).path)
    with RunFolder.resume(folder) if find_process_group().first else RunFolder(folder, {}) as run:
        trainer = small_trainer(run, **options)
        trainer.fit(resume=resume, stop_at=stop_at)
    return trainer


def log(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a run's metrics.jsonl."""
    return read_metrics(folder / "metrics.jsonl")


def forbid_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make updates raise an error if they wait for the device."""
    import cupyx

    update = Trainer.update

    def silent_update(self: Trainer, *arguments: Any) -> None:
        with cupyx.allow_synchronize(False):
            update(self, *arguments)

    monkeypatch.setattr(Trainer, "update", silent_update)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--stop-at", type=int)
    parser.add_argument("--options", type=json.loads, default={}, help="JSON for Trainer")
    arguments = parser.parse_args()
    small_run(arguments.folder, resume=arguments.resume, stop_at=arguments.stop_at, **arguments.options)


if __name__ == "__main__":
    run_main(main, several_processes=True)
