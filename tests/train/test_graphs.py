"""Training with CUDA graphs is bit-equal to training without graphs, on a stand-in that captures graphs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from handloom.autograd import Generator
from handloom.autograd.backend import GraphError
from handloom.errors import InputError
from handloom.nn import MultiHeadAttention
from handloom.nn.transformer import checkpoint_activations
from handloom.train.optim.optimizers import SGD
from handloom.train.runs.checkpoints import load_checkpoint
from handloom.train.runs.folder import RunFolder
from handloom.train.runs.progress import TrainingStopped
from handloom.train.trainer import Trainer
from tests.support.fake_cupy import another_gpu, kernels, operations
from tests.support.small_run import first_batches, forbid_waiting, log, small_run, small_trainer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick_pictures")]

SMALL = {"tokens": 30, "pairs": 12}


def rows(folder: Path) -> list[dict]:
    return [{name: value for name, value in row.items() if name != "tokens_per_second"} for row in log(folder)]


def assert_same_run(one: Path, other: Path) -> None:
    assert rows(one) == rows(other)
    np.testing.assert_equal(load_checkpoint(one).tensors, load_checkpoint(other).tensors)


def deterministic(trainer: Trainer) -> None:
    for module in trainer.model.modules():
        if isinstance(module, MultiHeadAttention):
            module.deterministic = True


def train(folder: Path, prepare: Any = None, **options: Any) -> Trainer:
    with RunFolder.create(folder, {}) as run:
        trainer = small_trainer(run, device="cuda", **options)
        deterministic(trainer)
        if prepare is not None:
            prepare(trainer)
        trainer.fit()
    return trainer


def test_fp16_steps_are_those_without_graphs(tmp_path, cuda, monkeypatch) -> None:
    """The runs have dropout, two batches per update, clipping, a schedule, an average, overflows and batches of several
    shapes. No update waits for the device."""

    def short_interval(trainer: Trainer) -> None:
        trainer.scaler.scale, trainer.scaler.interval = 2.0**24, 8  # gradients overflow at once, and again
        trainer.updates.write()

    forbid_waiting(monkeypatch)
    options = {
        "steps": 16, "dropout": 0.1, "precision": "fp16", "clip_norm": 0.5, "log_every": 5,
        "validate_every": 16, "ema": 0.9, "data": SMALL,
    }  # fmt: skip
    train(tmp_path / "plain", short_interval, **options)
    trainer = train(tmp_path / "graphs", short_interval, graphs=True, **options)
    assert_same_run(tmp_path / "graphs", tmp_path / "plain")
    last = [row for row in rows(tmp_path / "graphs") if "loss" in row][-1]
    assert 0 < last["skipped"] < 8
    graphs = trainer.updates.graphs
    assert graphs.captured > 3, "passes of several shapes, and the update"
    assert graphs.launched > 32, "most of the 32 passes and 16 updates"


@pytest.mark.parametrize("positions", ["relative", "rotary", "alibi", "learned"])
def test_other_models_and_one_batch_an_update(positions, tmp_path, fake_cupy) -> None:
    config = {"positions": positions, "norm_first": True, "activation": "swiglu", "pattern": "strided:3"}
    found = []
    for graphs in (False, True):
        with RunFolder.create(tmp_path / str(graphs), {}) as run:
            trainer = small_trainer(run, device="cuda", accumulate=1, config=config, graphs=graphs, data=SMALL)
            deterministic(trainer)
            checkpoint_activations(trainer.model)
            (micro,) = first_batches(1, **SMALL)
            for step in range(1, 5):
                trainer.update(step, [micro._replace(epoch=step)])
            found.append((trainer.updates.read(), trainer.updates.flat.weights.get()))
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert found[0][0] == found[1][0]
    assert trainer.updates.graphs.launched == 6


def test_a_run_with_graphs_goes_on_from_its_save(tmp_path, fake_cupy) -> None:
    options = {"steps": 6, "device": "cuda", "validate_every": 3, "ema": 0.9, "data": SMALL}
    small_run(tmp_path / "whole", graphs=True, **options)
    with pytest.raises(TrainingStopped):
        small_run(tmp_path / "stopped", graphs=True, stop_at=4, **options)
    small_run(tmp_path / "stopped", resume=True, **options)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_launches_of_a_step_with_graphs(tmp_path, fake_cupy) -> None:
    """After all graphs are captured, an update of two batches needs a bounded number of launches."""
    with RunFolder.create(tmp_path / "run", {}) as run:
        trainer = small_trainer(run, device="cuda", layers=2, precision="fp16", graphs=True, data=SMALL)
        batches = first_batches(**SMALL)
        for step in range(1, 4):
            before = len(kernels.launches), len(operations)
            trainer.update(step, batches)
    started = operations[before[1] :]
    assert len(kernels.launches) == before[0], "every kernel runs within a graph"
    assert started.count("graph") == 3
    assert len(started) <= 13, started  # the others copy inputs in and results out
    one_pass, update = trainer.updates.graphs.sizes().values()
    assert one_pass <= 198  # one copies the mask, which the caller may fill again
    assert update <= 8


def test_what_can_not_be_captured_is_said(tmp_path, fake_cupy) -> None:
    with RunFolder.create(tmp_path / "run", {}) as run:
        with pytest.raises(InputError, match=r"no CUDA graphs on the CPU: leave out graphs=True"):
            small_trainer(run, graphs=True)
        with pytest.raises(InputError, match=r"need Adam or AdamW"):
            small_trainer(run, device="cuda", graphs=True, optimizer=lambda model: SGD(model.parameters(), 0.1))

        with another_gpu("75"), pytest.raises(InputError, match=r"fused kernel.*8\.0.* 7\.5: leave out graphs=True"):
            small_trainer(run, device="cuda", graphs=True)

        def waiting(model: Any, batch: Any) -> Any:
            loss = model.loss(batch.source, batch.target_input, batch.target_output, batch.source_lengths)
            return loss, int(batch.target_tokens)

        trainer = small_trainer(run, device="cuda", graphs=True)
        trainer.loss, batches = waiting, first_batches()
        trainer.update(1, batches)
        with pytest.raises(GraphError, match=r"can't be captured as a CUDA graph: int\(\)"):
            trainer.update(2, batches)


def test_random_numbers_from_the_host_are_noticed(tmp_path, fake_cupy) -> None:
    own = Generator(1)

    def drawing(model: Any, batch: Any) -> Any:
        loss = model.loss(batch.source, batch.target_input, batch.target_output, batch.source_lengths)
        return loss * float(own.numpy.uniform(0.9, 1.1)), batch.target_tokens

    with RunFolder.create(tmp_path / "run", {}) as run:
        trainer = small_trainer(run, device="cuda", graphs=True)
        trainer.generators.append(own)
        trainer.loss = drawing
        with pytest.raises(GraphError, match="random numbers on the host"):
            trainer.update(1, first_batches())
