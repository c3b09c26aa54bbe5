"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple, Protocol

from tqdm import tqdm

from ..autograd import Generator, Tensor, default_generator, no_grad
from ..autograd.backend import to_device
from ..errors import InputError
from ..nn import Module
from .averaging import ExponentialAverage
from .checkpoints import check_shapes, load_checkpoint, save_checkpoint
from .memory import keep_freed_memory
from .optimizers import Optimizer, clip_grad_norm
from .plots import plot_losses
from .progress import Progress
from .run_folder import RunFolder
from .saved_states import SavedStates
from .schedules import Plateau, Schedule
from .stopping import StopSignals, TrainingStopped

# With several batches an update, each one's gradient is of its summed loss over this many tokens; what is missing to
# the mean is made up for at the end. A power of two: it rounds nothing.
_TOKEN_UNIT = 1024


class Batches(Protocol):
    """Training data: `epoch(k)` gives the batches of epoch k, in an order that depends on k and a seed alone.

    There are equally many in every epoch. `start` and `every` ask for batches start, start + every, ... of the epoch.
    A method `fingerprint() -> str` is optional: it tells a resumed run whether the data are the same.
    """

    def __len__(self) -> int: ...

    def epoch(self, epoch: int, start: int = 0, every: int = 1) -> Iterator[Any]: ...


#: (model, batch) -> loss in nats per token, a Tensor with one element; the number of tokens it is the mean of; and, if
#: one likes, further means over the same tokens by name, such as {"accuracy": 0.5}.
Loss = Callable[[Module, Any], tuple[Tensor, float] | tuple[Tensor, float, dict[str, float]]]


class MicroBatch(NamedTuple):
    """A batch and its place in the data."""

    epoch: int
    position: int
    batch: Any


class Trainer:
    """Trains a model and leaves a record: metrics, a picture of the losses, and the weights that validate best.

    A run that stops, for whatever reason, goes on exactly from its last save (`load`), made at every validation and
    when SIGINT or SIGTERM ask it to stop: weights and logged numbers are bit-equal to those of a run without a stop.
    Dropout draws from generators that are seeded for each batch from the run's seed and the batch's place in the data.

    Args:
        model: what to train.
        loss: see `Loss`.
        optimizer, schedule: the schedule sets the optimiser's learning rate at each step.
        train_batches, valid_batches: training data, and the batches to validate on.
        run: folder that receives metrics.jsonl, loss.png, model.safetensors and the saves.
        config: saved beside the weights; what is needed to build the model again.
        steps: updates to make.
        clip_norm: bound on the gradient's norm; None for none.
        accumulate: batches an update; their tokens weigh the same, as if they were one batch.
        log_every, validate_every: steps between two rows in metrics.jsonl, and between two validations.
        training_label: what the picture calls the training loss.
        average: at the end, also try the mean of the weights at this many last validations (not with `ema`).
        ema: decay of an exponential average of the weights, which is then what is validated and kept; None for none.
        monitor, higher_is_better: the metric of a validation's row that decides which weights are best.
        patience: end after this many validations in a row without a better one; None never does.
        metrics: model -> further numbers for each validation's row, by name; the model is in evaluation mode.
        keep: saves to keep.
        unit: what the loss is a mean over, for messages and the picture.
        generators: random generators that `loss` draws from, beside the default one and those of the model's layers.
    """

    def __init__(
        self,
        model: Module,
        loss: Loss,
        optimizer: Optimizer,
        schedule: Schedule,
        train_batches: Batches,
        valid_batches: Iterable[Any],
        run: RunFolder,
        *,
        config: dict[str, Any],
        steps: int,
        clip_norm: float | None = 1.0,
        accumulate: int = 1,
        log_every: int = 20,
        validate_every: int = 200,
        average: int = 5,
        ema: float | None = None,
        training_label: str = "training",
        monitor: str = "valid_loss",
        higher_is_better: bool = False,
        patience: int | None = None,
        metrics: Callable[[Module], dict[str, float]] | None = None,
        keep: int = 2,
        generators: Iterable[Generator] = (),
        unit: str = "token",
    ):
        self.model, self.loss, self.optimizer, self.schedule = model, loss, optimizer, schedule
        self.train_batches, self.valid_batches = train_batches, list(valid_batches)
        self.run, self.config, self.steps, self.clip_norm = run, config, steps, clip_norm
        self.accumulate, self.log_every, self.validate_every = accumulate, log_every, validate_every
        self.average, self.training_label = average if ema is None else 0, training_label
        self.ema = None if ema is None else ExponentialAverage(model.parameters(), ema)
        self.monitor, self.higher_is_better, self.patience = monitor, higher_is_better, patience
        self.metrics, self.unit = metrics, unit
        self.saves = SavedStates(run.saves_path, keep)
        self._next_picture = 0.0  # on time.perf_counter's clock
        self.progress = Progress(seed=int(default_generator.numpy.integers(2**63)))
        layers = [value for module in model.modules() for value in vars(module).values()]
        found = [default_generator, *(value for value in layers if isinstance(value, Generator)), *generators]
        self.generators = list({id(generator): generator for generator in found}.values())

    @property
    def best_valid_loss(self) -> float:
        """Best value of the monitored metric, the validation loss in nats unless told otherwise; inf before one."""
        return math.inf if self.progress.best is None else self.progress.best

    # -- the loop ------------------------------------------------------------------------------------------------------

    def fit(self, stop_at: int | None = None) -> float:
        """Train up to update `steps`; the model ends with its best weights. Returns the best monitored value.

        Freed memory stays with the process from then on (`keep_freed_memory`).

        Args:
            stop_at: save and raise TrainingStopped after this many updates, as if interrupted there.

        Raises FloatingPointError when the loss is no longer a number; TrainingStopped after SIGINT, SIGTERM or
        `stop_at`, the run saved; InputError if the disk is full. The weights that validated best are on disk.
        """
        keep_freed_memory()
        now = self.progress
        with StopSignals() as signals, self._bar() as bar:
            if now.step == 0:
                self.save()  # a run that is killed from here on can go on
            log_start = time.perf_counter()
            for batches in self._updates():
                tokens, norm, means = self.update(now.step + 1, batches)
                now.advance(len(batches), len(self.train_batches))
                now.add_to_log(tokens, means)
                bar.update()
                if now.step % self.log_every == 0 or now.step == self.steps:
                    self._log(bar, batches[0].epoch, norm, time.perf_counter() - log_start)
                    log_start = time.perf_counter()
                validated = now.step % self.validate_every == 0 or now.step == self.steps
                if validated:
                    self._validate(bar, batches[0].epoch)
                    log_start = time.perf_counter()
                stopping = signals.received is not None or (now.step == stop_at and now.step < self.steps)
                if validated or stopping:
                    self.save()
                if stopping:
                    self._draw()
                    message = f"stopped after step {now.step:,} of {self.steps:,}, all saved."
                    raise TrainingStopped(f"{message} Go on: --resume {self.run.path}", now.step, signals.received)
            self._try_average(bar)
            self._draw()
        self.model.load_state_dict(load_checkpoint(self.run.path).tensors)
        return self.best_valid_loss

    def update(self, step: int, batches: list[MicroBatch]) -> tuple[float, float, dict[str, float]]:
        """One update: returns its tokens, the gradient's norm before clipping, and the means over the tokens."""
        self.model.train()
        self.optimizer.zero_grad()
        total, sums = 0.0, {"loss": 0.0}
        for micro in batches:
            self._seed_generators(micro)
            loss, tokens, *more = self.loss(self.model, micro.batch)
            loss.backward(None if len(batches) == 1 else tokens / _TOKEN_UNIT)
            total += tokens
            for name, mean in {"loss": loss.item(), **(more[0] if more else {})}.items():
                sums[name] = sums.get(name, 0.0) + mean * tokens
        scale = 1.0 if len(batches) == 1 else _TOKEN_UNIT / total
        norm = clip_grad_norm(self.optimizer.parameters, self.clip_norm, scale=scale)
        if not math.isfinite(sums["loss"]) or not math.isfinite(norm):
            raise FloatingPointError(
                f"Step {step}: the loss is {sums['loss'] / total} and the gradient's norm {norm}. The learning rate "
                f"({self.schedule(step):.1e} here) is probably too high: lower it, or warm up for longer."
            )
        self.optimizer.lr = self.schedule(step)
        self.optimizer.step()
        if self.ema is not None:
            self.ema.update()
        return total, norm, {name: value / total for name, value in sums.items()}

    def _updates(self) -> Iterator[list[MicroBatch]]:
        """The batches of each update that is still to be made."""
        source = self._micro_batches()
        while self.progress.step < self.steps and not self._out_of_patience():
            yield [next(source) for _ in range(self.accumulate)]

    def _micro_batches(self) -> Iterator[MicroBatch]:
        """All batches from the run's place in the data on, epoch after epoch."""
        epoch, start = self.progress.epoch, self.progress.batch
        while True:
            for position, batch in enumerate(self.train_batches.epoch(epoch, start), start):
                yield MicroBatch(epoch, position, batch)
            epoch, start = epoch + 1, 0

    def _seed_generators(self, micro: MicroBatch) -> None:
        for number, generator in enumerate(self.generators):
            generator.set_state(Generator([self.progress.seed, micro.epoch, micro.position, number]).get_state())

    def _out_of_patience(self) -> bool:
        return self.patience is not None and self.progress.stale >= self.patience

    # -- validation ----------------------------------------------------------------------------------------------------

    def validate(self) -> dict[str, float]:
        """Means over the validation tokens, without dropout: `valid_loss` in nats and what else the loss measures."""
        self.model.eval()
        total, sums = 0.0, {"loss": 0.0}
        with no_grad():
            for batch in self.valid_batches:
                loss, tokens, *more = self.loss(self.model, batch)
                total += tokens
                for name, mean in {"loss": loss.item(), **(more[0] if more else {})}.items():
                    sums[name] = sums.get(name, 0.0) + mean * tokens
            further = self.metrics(self.model) if self.metrics else {}
        return {f"valid_{name}": value / total for name, value in sums.items()} | further

    def _validate(self, bar: tqdm, epoch: int, averaged: int = 0) -> None:
        with self.ema.applied() if self.ema is not None else nullcontext():
            self._validate_weights(bar, epoch, averaged)

    def _validate_weights(self, bar: tqdm, epoch: int, averaged: int) -> None:
        now = self.progress
        values = self.validate()
        if not math.isfinite(values["valid_loss"]):
            raise FloatingPointError(
                f"Step {now.step}: the validation loss is {values['valid_loss']}. The learning rate "
                f"({self.optimizer.lr:.1e}) is probably too high: lower it, or warm up for longer."
            )
        if self.monitor not in values:
            raise InputError(
                f"There is no metric {self.monitor!r} to decide by; a validation gives {', '.join(values)}."
            )
        self.run.log({"step": now.step, "epoch": epoch, **values, **({"averaged": averaged} if averaged else {})})
        if now.is_better(values[self.monitor], self.higher_is_better):
            now.best, now.best_step, now.stale = values[self.monitor], now.step, 0
            save_checkpoint(self.run.path, self.model.state_dict(), {**self.config, "step": now.step})
        else:
            now.stale += 1
        if isinstance(self.schedule, Plateau) and not averaged:
            self.schedule.observe(values[self.monitor], self.higher_is_better)
        if self.average > 1 and not averaged:
            now.snapshots = [*now.snapshots, now.step][-self.average :]
        self._draw(at_leisure=True)
        if bar.disable:  # a log file instead of a terminal: one line for each validation
            what = f"mean of the last {averaged} weights" if averaged else f"epoch {epoch + 1}"
            valid = values["valid_loss"]
            print(f"step {now.step}/{self.steps}, {what}: validation loss {valid:.4f} nats per {self.unit}", flush=True)

    def _try_average(self, bar: tqdm) -> None:
        """Let the mean of the last snapshots be the result if it validates better than each of them.

        The end points of a run's last stretch scatter around something better than themselves (Vaswani et al. 2017,
        section 6.1, average their last checkpoints).
        """
        steps = self.progress.snapshots
        if len(steps) > 1:
            snapshots = [self.saves.weights(step) for step in steps]
            self._set_weights({name: sum(each[name] for each in snapshots) / len(steps) for name in snapshots[0]})
            self._validate(bar, self.progress.epoch, averaged=len(steps))

    # -- the record ----------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Save the run as it stands. Raises InputError if it can't be written; the earlier saves are untouched."""
        weights = {name: parameter.numpy() for name, parameter in self.model.named_parameters()}
        self.saves.save(self.progress.step, weights, self.state_dict(), self.progress.snapshots)

    def load(self) -> list[str]:
        """Go on from the run's newest save that is whole; the log forgets what came after it.

        Returns a sentence about each newer save that is damaged. Raises InputError if no save can be used, or it is of
        another model, optimiser or other data.
        """
        saved = self.saves.load()
        self.load_state_dict(saved.state)
        self._set_weights(saved.weights)
        return saved.damaged

    def state_dict(self) -> dict[str, Any]:
        """All that the run depends on beside the weights."""
        state = {name: part.state_dict() for name, part in self._parts().items()}
        return {**state, "data": self._fingerprint(), "files": self.run.sizes()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict`. Raises InputError if it is of other data or parts."""
        parts = self._parts()
        if state["data"] != self._fingerprint():
            raise InputError(
                f"The training data are not those that {self.run.path} was trained on: the files, the sizes asked for "
                "or the way of batching have changed. Restore them, or start a new run."
            )
        if parts.keys() != state.keys() - {"data", "files"}:
            raise InputError(f"The save of {self.run.path} is of another setup: it holds {', '.join(sorted(state))}.")
        try:
            for name, part in parts.items():
                part.load_state_dict(state[name])
        except ValueError as error:
            raise InputError(f"The save of {self.run.path} does not fit: {error}.") from None
        self.run.rewind(state["files"])

    def _parts(self) -> dict[str, Any]:
        """What has a state of its own, by name."""
        parts = {"progress": self.progress, "optimizer": self.optimizer, "schedule": self.schedule, "ema": self.ema}
        return {name: part for name, part in parts.items() if hasattr(part, "state_dict")}

    def _set_weights(self, weights: dict[str, Any]) -> None:
        own = dict(self.model.named_parameters())
        expected = {name: parameter.shape for name, parameter in own.items()}
        check_shapes(expected, {name: array.shape for name, array in weights.items()}, self.saves.folder)
        for name, parameter in own.items():
            parameter.data[...] = to_device(weights[name], parameter.device)
            parameter.mark_changed()

    def _fingerprint(self) -> str:
        fingerprint = getattr(self.train_batches, "fingerprint", None)
        return fingerprint() if fingerprint else f"{len(self.train_batches)} batches"

    def _draw(self, at_leisure: bool = False) -> None:
        """Draw the picture of the run anew; `at_leisure` only if that takes less than a twentieth of the time."""
        start = time.perf_counter()
        if at_leisure and start < self._next_picture:
            return
        if self.run.metrics_path.exists():
            plot_losses(
                self.run.metrics_path, self.run.loss_picture, training_label=self.training_label, unit=self.unit
            )
        end = time.perf_counter()
        self._next_picture = end + 20 * (end - start)

    def _bar(self) -> tqdm:
        step = self.progress.step
        return tqdm(total=self.steps, initial=step, unit="step", disable=None, dynamic_ncols=True)

    def _log(self, bar: tqdm, epoch: int, norm: float, seconds: float) -> None:
        tokens, means = self.progress.log_means()
        speed = tokens / seconds
        row = {"step": self.progress.step, "epoch": epoch, **means}
        row |= {"learning_rate": self.optimizer.lr, "gradient_norm": norm}
        self.run.log(row, {"tokens_per_second": speed})
        best = "" if self.progress.best is None else f"best valid {self.progress.best:.3f}, "
        bar.set_postfix_str(f"loss {means['loss']:.3f}, {best}lr {self.optimizer.lr:.1e}, {speed:,.0f} {self.unit}s/s")
