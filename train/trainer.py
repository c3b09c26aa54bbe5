"""The training loop."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..autograd import Generator, default_generator
from ..autograd.backend import to_device, use_device
from ..errors import InputError
from ..models.own_layers import saved_note
from ..nn import Module
from .device_updates import choose_updates
from .distributed import ProcessGroup, find_process_group
from .optim.optimizers import Optimizer, layer_norms
from .optim.schedules import Plateau, Schedule
from .runs.checkpoints import load_checkpoint, save_checkpoint
from .runs.display import Display
from .runs.folder import RunFolder, jsonable
from .runs.progress import Progress, StopSignals, TrainingClock, TrainingStopped
from .runs.saves import SavedStates
from .updates import Loss, MicroBatch, Reading, UpdateOptions, Validation, keep_freed_memory, updated_parameters


class Batches(Protocol):
    """Training data: `epoch(k)` yields the batches of epoch k, in an order that depends only on k and a seed.

    All epochs have the same number of batches. With `start` and `every` it yields batches start, start + every, ....
    A method `fingerprint() -> str` is optional: a resumed run compares it to check that the data are the same.
    """

    def __len__(self) -> int: ...

    def epoch(self, epoch: int, start: int = 0, every: int = 1) -> Iterator[Any]: ...


@dataclass(frozen=True)
class Record:
    """The settings that say what a run logs during training.

    Attributes:
        every: steps between two rows of metrics.jsonl.
        keep: number of saves to keep.
        gradient_norms: log the norm of each layer's last gradient, before clipping; on the host only.
        label: name of the training loss in the picture.
        unit: the unit over which the loss is a mean, for messages and the picture.
    """

    every: int = 20
    keep: int = 2
    gradient_norms: bool = False
    label: str = "training"
    unit: str = "token"


class Trainer:
    """A training loop.

    It trains a model and writes metrics, a picture of the losses, and the weights with the best validation.

    A run that stops, for any reason, can be resumed exactly from its last save (`load`): weights and logged numbers are
    bit-equal to those of a run that did not stop. Saves are made at every validation and at SIGINT or SIGTERM. Dropout
    draws from the default generator and from generators that are attributes of the model's layers. They are seeded for
    each batch from the run's seed and the batch's position in the data.

    Args:
        model: the model to train.
        loss: see `updates.Loss`.
        optimizer, schedule: the schedule sets the optimiser's learning rate at each step.
        train_batches: see `Batches`.
        validation: the validation data and options; with `ema`, its `average` has no effect.
        run: folder that receives metrics.jsonl, loss.png, model.safetensors and the saves.
        config: configuration saved with the weights, from which the model can be built again.
        steps: number of updates.
        updates: options of the updates.
        record: what to log, and how often.
        observe: function called with the trainer after each update; it may wait, and an exception in it ends training.
        group: the processes that train together; None means the processes that mpirun started.

    Raises InputError if there are no batches.
    """

    def __init__(
        self,
        model: Module,
        loss: Loss,
        optimizer: Optimizer,
        schedule: Schedule,
        train_batches: Batches,
        validation: Validation,
        run: RunFolder,
        *,
        config: dict[str, Any],
        steps: int,
        updates: UpdateOptions | None = None,
        record: Record | None = None,
        observe: Callable[["Trainer"], None] | None = None,
        group: ProcessGroup | None = None,
    ):
        self.model, self.loss, self.optimizer, self.schedule = model, loss, optimizer, schedule
        self.train_batches, self.run, self.config, self.steps = train_batches, run, config, steps
        self.validation = replace(validation, batches=list(validation.batches))
        if not (len(train_batches) and self.validation.batches):
            raise InputError("There must be at least one batch to train on and one to validate with.")
        self.options, self.record, self.observe = updates or UpdateOptions(), record or Record(), observe
        self.group = find_process_group() if group is None else group
        self.saves = SavedStates(run.saves_path, self.record.keep)
        use_device(optimizer.parameters[0].device)
        self.clock = TrainingClock()
        self.progress = Progress(seed=int(default_generator.numpy.integers(2**63)))
        layers = [value for module in model.modules() for value in vars(module).values()]
        found = [default_generator, *(value for value in layers if isinstance(value, Generator))]
        self.generators = list({id(generator): generator for generator in found}.values())
        self.updates = choose_updates(model, optimizer, self.options, self.group, self.generators)
        self.ema, self.scaler = self.updates.ema, self.updates.scaler

    # -- the loop ------------------------------------------------------------------------------------------------------

    def fit(self, stop_at: int | None = None) -> float:
        """Train up to update `steps`. The model ends with its best weights. Returns the best monitored value.

        Afterwards the process keeps freed memory (`keep_freed_memory`).

        Args:
            stop_at: save and raise TrainingStopped after this many updates, as if interrupted there.

        Raises FloatingPointError when the loss is infinite or NaN; TrainingStopped after SIGINT, SIGTERM or `stop_at`,
        with the run saved; InputError if the disk is full. The weights with the best validation are on disk.
        """
        keep_freed_memory()
        now = self.progress
        now.seed, weights = self.group.from_first(lambda: (now.seed, self._weights()))
        if not self.group.first:
            self._set_weights(weights)
        names = self.record.label, self.record.unit
        shown = Display(self.run, self.steps, now.step, *names, shows=self.group.first)
        with StopSignals() as signals, shown as display:
            if now.step == 0:
                self.save()  # a run that is killed from here on can be resumed
            self.clock.start()
            for batches in self._updates():
                self.update(now.step + 1, batches)
                now.advance(len(batches) * self.group.size, len(self.train_batches))
                display.bar.update()
                if now.step % self.record.every == 0 or now.step == self.steps:
                    self._log(display, batches[0].epoch)
                validated = now.step % self.validation.every == 0 or now.step == self.steps
                if validated:
                    with self.clock.paused():
                        self._validate(display, batches[0].epoch)
                signal = self._received(signals)
                stopping = signal or (now.step == stop_at and now.step < self.steps)
                if validated or stopping:
                    with self.clock.paused():
                        self.save()
                if stopping:
                    display.draw()
                    raise self._stopped(signal)
                if self.observe is not None:
                    self.observe(self)
            if now.step < self.steps:
                best = f"{self.validation.monitor} {now.best:.4g} of step {now.best_step:,}"
                why = f"{now.stale} validations in a row did not improve on the {best}"
                display.say(f"ended after step {now.step:,} of at most {self.steps:,}: {why}")
            self._try_average(display)
            display.draw()
            if signal := self._received(signals):
                raise self._stopped(signal)
        self.model.load_state_dict(self.group.from_first(lambda: load_checkpoint(self.run.path).tensors))
        return math.inf if self.progress.best is None else self.progress.best

    def _received(self, signals: StopSignals) -> int:
        """Return the stop signal that some rank has received, or 0 for none."""
        return int(max(self.group.gather(signals.received or 0)))

    def _stopped(self, signal: int) -> TrainingStopped:
        message = f"stopped after step {self.progress.step:,} of {self.steps:,}, all saved."
        return TrainingStopped(f"{message} {self.run.continuation}", self.progress.step, signal or None)

    def update(self, step: int, batches: list[MicroBatch]) -> None:
        """Make one update. `updates.read` returns its loss and the norm of its gradient."""
        self.model.train()
        self.updates.update(batches, self.loss, self.progress.seed, self.schedule(step))
        if self.updates.failed:
            raise self._failure(step, self.updates.read())

    def _read(self) -> Reading:
        """Read the results since the last call, add them to the progress and return them. This waits for the device."""
        reading = self.updates.read()
        if reading.failed:
            raise self._failure(self.progress.step, reading)
        for tokens, means in reading.steps:
            self.progress.add_to_log(tokens, means)
        return reading

    def _failure(self, step: int, reading: Reading) -> FloatingPointError:
        wrong = (means["loss"] for _, means in reading.steps if not math.isfinite(means["loss"]))
        loss = next(wrong, reading.steps[-1][1]["loss"])
        where = f", first of {reading.overflowed}" if reading.overflowed else ""
        derivative = ""
        if math.isfinite(loss):
            derivative = " If that changes nothing, `detect_anomaly()` names the op whose derivative is wrong."
        return FloatingPointError(
            f"Step {step}: the loss is {loss} and the gradient's norm {reading.norm}{where}. The learning rate "
            f"({self.schedule(step):.1e} here) is probably too high: lower it, or warm up for longer.{derivative}"
        )

    def _updates(self) -> Iterator[list[MicroBatch]]:
        """Yield the batches of each remaining update."""
        source, patience = self._micro_batches(), self.validation.patience
        while self.progress.step < self.steps and (patience is None or self.progress.stale < patience):
            yield [next(source) for _ in range(self.options.accumulate)]

    def _micro_batches(self) -> Iterator[MicroBatch]:
        """Yield this rank's batches, every nth with n ranks, from the run's position on, epoch after epoch."""
        every = self.group.size
        epoch, position = self.progress.epoch, self.progress.batch + self.group.rank
        while True:
            for batch in self.train_batches.epoch(epoch, position, every):
                yield MicroBatch(epoch, position, batch)
                position += every
            epoch, position = epoch + 1, position - len(self.train_batches)

    # -- validation ----------------------------------------------------------------------------------------------------

    def _validate(self, display: Display, epoch: int, averaged: int = 0) -> None:
        now, monitor, higher = self.progress, self.validation.monitor, self.validation.higher_is_better
        self._read()  # on a device, earlier updates may have failed
        with self.ema.applied() if self.ema is not None else nullcontext():
            values = self.validation.measure(self.model, self.loss, self.group)
            if not math.isfinite(values["valid_loss"]):
                raise FloatingPointError(
                    f"Step {now.step}: the validation loss is {values['valid_loss']}. The learning rate "
                    f"({self.optimizer.lr:.1e}) is probably too high: lower it, or warm up for longer."
                )
            if monitor not in values:
                raise InputError(f"There is no metric {monitor!r}; a validation gives {', '.join(values)}.")
            better = now.note_validation(values[monitor], higher)
            if self.group.first:
                row = {"step": now.step, "epoch": epoch, **values}
                self.run.log({**row, "averaged": averaged} if averaged else row)
                if better:
                    saved = {**self.config, **saved_note(self.model), "step": now.step, "averaged": averaged}
                    save_checkpoint(self.run.path, self.model.state_dict(), saved)
        if isinstance(self.schedule, Plateau) and not averaged:
            self.schedule.observe(values[monitor], higher)
        average = self.validation.average if self.ema is None else 0
        if average > 1 and not averaged:
            now.snapshots = [*now.snapshots, now.step][-average:]
        self.group.check_equal(self._weights)
        display.validation(
            now.step, f"mean of the last {averaged} weights" if averaged else f"epoch {epoch + 1}", values
        )

    def _try_average(self, display: Display) -> None:
        """Validate the mean of the weights at the last validations; it becomes the result if it is the best.

        (Vaswani et al. 2017, section 6.1, average their last checkpoints.)
        """
        steps = self.progress.snapshots
        if len(steps) > 1:
            self._set_weights(self.group.from_first(lambda: self.saves.mean_weights(steps)))
            self._validate(display, self.progress.epoch, averaged=len(steps))

    # -- the record ----------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Save the run. Raises InputError if it can't be written; the earlier saves are untouched."""
        self._read()
        if self.group.first:
            self.run.sync()
            self.saves.save(self.progress.step, self._weights(), self.state_dict(), self.progress.snapshots)

    def load(self) -> list[str]:
        """Continue from the newest undamaged save; later rows of the log are removed.

        Returns a sentence about each newer save that is damaged. Raises InputError if no save can be used, or if it
        belongs to another model, optimiser or data set.
        """
        saved = self.group.from_first(self.saves.load)
        self.load_state_dict(saved.state)
        self._set_weights(saved.weights)
        return saved.damaged

    def state_dict(self) -> dict[str, Any]:
        """Return the state on which the run depends, except the weights."""
        state = {name: part.state_dict() for name, part in self._parts().items()}
        return {**state, "data": self._fingerprint(), "config": self._description()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a `state_dict`. Raises InputError if it belongs to other data or parts."""
        parts = self._parts()
        if parts.keys() | {"data", "config"} != state.keys():
            raise InputError(f"The save of {self.run.path} has another setup: it holds {', '.join(sorted(state))}.")
        if state["data"] != self._fingerprint():
            raise InputError(
                f"The training data are not those that {self.run.path} was trained on: the files, the requested sizes "
                "or the batching have changed. Restore them, or start a new run."
            )
        if state["config"] != self._description():
            before, now = json.loads(state["config"]), json.loads(self._description())
            changed = sorted(name for name in before | now if before.get(name) != now.get(name))
            raise InputError(
                f"{self.run.path} was started differently, or by another version of handloom: {', '.join(changed)} of "
                "the model differ. Restore the run's config.json and tokenizer.json, or start a new run."
            )
        try:
            for name, part in parts.items():
                part.load_state_dict(state[name])
        except ValueError as error:
            raise InputError(f"The save of {self.run.path} does not fit: {error}.") from None
        if self.group.first:
            self.run.rewind(self.progress.step)
            self.clock.processor = max(self.run.processor_seconds()[1], default=0.0)

    def _parts(self) -> dict[str, Any]:
        """Return the parts of the trainer that have a state, by name."""
        parts = {"progress": self.progress, "optimizer": self.optimizer, "schedule": self.schedule}
        parts |= {"ema": self.ema, "scaler": self.scaler}
        return {name: part for name, part in parts.items() if hasattr(part, "state_dict")}

    def _set_weights(self, weights: dict[str, Any]) -> None:
        own = dict(self.model.named_parameters())
        for name, parameter in own.items():
            parameter.data[...] = to_device(weights[name], parameter.device)
            parameter.mark_changed()
        self.updates.write()

    def _description(self) -> str:
        """Return `config` as text. It must be the same after a resume."""
        return json.dumps(self.config, sort_keys=True)

    def _fingerprint(self) -> str:
        fingerprint = getattr(self.train_batches, "fingerprint", None)
        return fingerprint() if fingerprint else f"{len(self.train_batches)} batches"

    def _weights(self) -> dict[str, Any]:
        return {name: parameter.numpy() for name, parameter in self.model.named_parameters()}

    def _log(self, display: Display, epoch: int) -> None:
        reading = self._read()
        seconds = self.clock.lap()
        tokens, means = self.progress.log_means()
        row: dict[str, Any] = {"step": self.progress.step, "epoch": epoch, **means}
        row |= {"learning_rate": self.optimizer.lr, "gradient_norm": reading.norm}
        if self.scaler is not None:
            row |= {"loss_scale": float(self.scaler.scale), "skipped": int(self.scaler.skipped)}
        if self.options.name_overflows and reading.overflowed:
            row["overflowed"] = reading.overflowed
        if self.record.gradient_norms:
            norms = layer_norms(updated_parameters(self.model, self.optimizer), reading.norm)
            row["gradient_norms"] = {name: jsonable(norm) for name, norm in norms.items()}
        with self.clock.paused():
            if self.group.first:
                times = {"tokens_per_second": tokens / seconds, "processor_seconds": round(self.clock.processor, 3)}
                self.run.log(row, times)
            display.row(row, tokens / seconds, self.progress.best)
