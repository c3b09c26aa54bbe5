"""The training loop: any model, any loss, any batches.

    trainer = Trainer(model, loss, Adam(model.parameters()), schedule, accumulate=2, validate_every=100)
    history = trainer.fit(batches, steps=1000, validation=valid)

`_train` is the loop. Its parts: `Settings` holds the numbers, `Updates` makes an update from a few batches, `Batches`
gives the batches of an epoch, `Progress` holds the counters, a store the best weights and the saves (in memory or in a
folder), and a `Callback` looks on: a bar, log files, early stopping.

A run can be resumed exactly: an update depends only on the state in a save, on the batches, and on random numbers that
follow from a batch's position in the data. What only the end of a training has (`_finish`) changes no save: a run that
is extended later equals one that had all steps from the start.
"""

import difflib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..autograd import default_generator
from ..autograd.backend import use_device
from ..autograd.bfloat16 import bfloat16_carried_out
from ..errors import InputError
from ..kinds import argument, checked
from ..models.fields import Count, NotNegative
from ..models.hyperparameters import Settings
from ..models.own_layers import saved_note
from ..nn import Module
from .callbacks import Callback, History, ProgressBar, RunLog
from .data.sources import BatchSource, as_batches, listed
from .device_updates import choose_updates
from .distributed import ProcessGroup, find_process_group, run_of_group
from .optim.optimizers import Optimizer, layer_norms
from .optim.schedules import Plateau, Schedule, constant
from .resuming import restore, saved_state, set_weights
from .runs.folder import RunFolder, jsonable
from .runs.progress import Progress, StopSignals, TrainingClock, TrainingStopped
from .runs.stores import MemoryStore, RunStore
from .state import check_unchanged, constants, generators
from .updates import Loss, MicroBatch, Reading, check_names, mean_losses, updated_parameters


@checked
class Trainer:
    """Trains a model.

    Dropout draws from the default generator and from generators that are attributes of the model's layers. They are
    seeded for each batch from the run's seed and the batch's position in the data.

    Args:
        model, loss: the model to train, and a function (model, batch) that returns its loss: see `updates.Loss`.
        optimizer: the optimiser of the model's parameters.
        schedule: function of the number of the step, from 1, that returns its learning rate; None keeps that of the
            optimiser.
        callbacks: see `Callback`; by default a ProgressBar.
        out: a folder for metrics.jsonl, loss.png, model.safetensors and the saves, from which the training can be
            resumed; or a RunFolder that is open. Without it nothing is written.
        config: JSON values that are saved with the weights, from which the model can be built again.
        metrics: function of the model, in evaluation mode, that returns further numbers of a validation by name.
        higher_is_better: whether more is better for the number `monitor`.
        label: name of the training loss in the picture.
        unit: the unit over which a loss in nats is a mean, such as "token", for messages and the picture.
        group: the processes that train together; None means the processes that mpirun started.
        settings: see `Settings`: clip_norm, accumulate, precision, ema, average, graphs, name_overflows,
            validate_every, log_every, gradient_norms, monitor and keep.

    Attributes:
        progress: the counters, such as `progress.step`.
        steps, history: the number of updates, and the log so far.

    Raises TypeError or ValueError for an argument of the wrong kind, or a setting out of range.
    """

    def __init__(
        self,
        model: Module,
        loss: Loss,
        optimizer: Optimizer,
        schedule: Schedule | None = None,
        *,
        callbacks: Sequence[Callback] | None = None,
        out: str | Path | RunFolder | None = None,
        config: Mapping[str, Any] | None = None,
        metrics: Callable[[Any], Mapping[str, Any]] | None = None,
        higher_is_better: bool = False,
        label: str = "training",
        unit: str = "",
        group: ProcessGroup | None = None,
        **settings: Any,
    ):
        callbacks = [ProgressBar()] if callbacks is None else callbacks
        for name in settings.keys() - (known := {field.name for field in fields(Settings)}):
            near = difflib.get_close_matches(name, known, 1)
            raise TypeError(f"Trainer: no setting {name!r}; did you mean {' or '.join(near or sorted(known))}?")
        own = set(map(id, model.parameters()))
        if not all(id(parameter) in own for parameter in optimizer.parameters):
            raise ValueError("Trainer: the optimiser has parameters that are not the model's, which no save would hold")
        self.model, self.loss, self.optimizer, self.callbacks = model, loss, optimizer, list(callbacks)
        self.out, self.config, self.metrics = out, dict(config or {}), metrics
        self.higher_is_better, self.label, self.unit = higher_is_better, label, unit
        self.schedule, self.settings = schedule or constant(optimizer.lr), Settings(**settings)
        self.group = find_process_group() if group is None else group
        use_device(optimizer.parameters[0].device)
        self.clock, self.history = TrainingClock(), History(label=label, unit=unit)
        self.progress = Progress(seed=int(default_generator.numpy.integers(2**63)))
        self.generators = generators(model)
        self.updates = choose_updates(model, optimizer, self.settings, self.group, self.generators)
        self.ema, self.scaler = self.updates.ema, self.updates.scaler
        self.validation: list[Any] | None = None
        self.ending = ""  # the reason of `stop`

    def __repr__(self) -> str:
        return f"Trainer({type(self.model).__name__}, {self.optimizer}, {self.progress.step:,} steps)"

    def fit(
        self,
        batches: BatchSource,
        *,
        steps: Count | None = None,
        epochs: Count | None = None,
        validation: Any = None,
        resume: bool = False,
        stop_at: Count | None = None,
    ) -> History:
        """Train up to update `steps`, or for `epochs` epochs. The model ends with its best weights, or the last ones
        without a validation.

        Args:
            batches: a list of batches or another re-iterable; a function of the epoch, from 0, that returns the batches
                of this epoch; or `Batches`. All epochs have the same number of batches.
            steps, epochs: the number of updates of the whole training, or of epochs; give one of them.
            validation: batches of the validations, which select the best weights.
            resume: continue from the newest undamaged save in `out`, exactly; later rows of the log are removed.
            stop_at: save and raise TrainingStopped after this many updates, as if interrupted there.

        Raises FloatingPointError when the loss is infinite or NaN; TrainingStopped after SIGINT, SIGTERM or `stop_at`,
        with the run saved; InputError if the disk is full, there are no batches, or a save can't be used or belongs to
        another model, optimiser or data set; TypeError or ValueError for arguments of the wrong kind. The weights with
        the best validation are on disk.
        """
        if self.progress.step:
            raise ValueError(
                f"this Trainer has made its {self.progress.step:,} updates: make a new one, which goes on with the "
                "weights and moments of its model and optimiser"
            )
        self.batches = as_batches(batches)
        self.validation = None if validation is None else listed(validation)
        per_update = self.settings.accumulate * self.group.size
        if (steps is None) == (epochs is None):
            raise ValueError("Trainer.fit: give either steps or epochs")
        self.steps = steps or math.ceil((epochs or 1) * len(self.batches) / per_update)
        self.every = self.settings.validate_every or math.ceil(len(self.batches) / per_update)
        if self.validation is None and (self.metrics or self.settings.average > 1):
            raise ValueError("Trainer.fit: metrics and average need validations: give validation=batches")
        with self._folder(resume):
            restore(self, resume, stop_at)
            now = self.progress
            now.seed, weights = self.group.from_first(lambda: (now.seed, self.model.state_dict()))
            if not self.group.first:
                set_weights(self, weights)
            with StopSignals() as signals:
                try:
                    self._train(signals, stop_at)
                except BaseException as error:
                    self._tell("on_end", error)
                    raise
                self._tell("on_end", None)
                if signal := self._received(signals):
                    raise self._stopped(signal)
            self.model.load_state_dict(self.group.from_first(self.store.best))
        self.history.best, self.history.best_step = now.best, now.best_step
        return self.history

    # -- the loop ------------------------------------------------------------------------------------------------------

    def _train(self, signals: StopSignals, stop_at: int | None) -> None:
        """Make the remaining updates, with the log, the validations and the saves."""
        now, source = self.progress, self._micro_batches()
        self._tell("on_start")
        if self.settings.precision == "bf16":
            self.say(f"bf16 {bfloat16_carried_out()}")
        if now.step == 0:
            self.save()  # a run that is killed from here on can be resumed
        self._received(signals)
        first, fixed = now.step + 1, constants(self.model)
        self.clock.start()
        while now.step < self.steps and not self.ending:
            self.update(now.step + 1, [next(source) for _ in range(self.settings.accumulate)])
            if now.step + 1 == first:
                check_unchanged(fixed, self.model)
            now.advance(self.settings.accumulate * self.group.size, len(self.batches))
            due = now.step % self.every == 0
            if now.step % self.settings.log_every == 0 or now.step == self.steps:
                self._log()
            if due:
                with self.clock.paused():
                    self._validate()
                    self.save()
            self._tell("on_update")
            signal = self._received(signals)
            if signal or (now.step == stop_at and now.step < self.steps):
                with self.clock.paused():
                    if not due:
                        self.save()
                raise self._stopped(signal)
        if now.step < self.steps:
            self.say(f"ended after step {now.step:,} of at most {self.steps:,}: {self.ending}")
        self._finish()

    def _finish(self) -> None:
        """Validate the last weights, if that was not due, and the mean of the weights at the last validations.

        Either becomes the result if it is the best. The save is made before: a longer training has neither of them.
        (Vaswani et al. 2017, section 6.1, average their last checkpoints.)
        """
        now = self.progress
        if now.step % self.every:
            self.save()
            self._validate(last=True)
        steps = now.snapshots
        if len(steps) > 1:
            set_weights(self, self.group.from_first(lambda: self.store.mean_weights(steps)))
            self._validate(averaged=len(steps), last=True)

    def stop(self, reason: str) -> None:
        """End the training after this update, as if it were the last one; for callbacks."""
        self.ending = self.ending or reason

    def say(self, text: str) -> None:
        """Give the callbacks a line of text for the user."""
        self._tell("on_message", text)

    def _tell(self, method: str, *arguments: Any) -> None:
        if self.group.first:
            for callback in self.callbacks:
                getattr(callback, method)(self, *arguments)

    def _received(self, signals: StopSignals) -> int:
        """Return the stop signal that some rank has received, or 0; all ranks get the `ending` of the first."""
        found = self.group.gather((signals.received or 0, self.ending))
        self.ending = found[0][1]
        return int(max(signal for signal, _ in found))

    def _stopped(self, signal: int) -> TrainingStopped:
        saved = ", all saved" if isinstance(self.store, RunStore) else ""
        message = f"stopped after step {self.progress.step:,} of {self.steps:,}{saved}."
        return TrainingStopped(f"{message} {self.store.continuation}", self.progress.step, signal or None)

    def update(self, step: int, batches: list[MicroBatch]) -> None:
        """Make one update. `updates.read` returns its loss and the norm of its gradient."""
        self.model.train()
        self.updates.update(batches, self.loss, self.progress.seed, self._rate(step))
        if self.updates.failed:
            raise self._failure(step, self.updates.read())

    def _rate(self, step: int) -> float:
        return argument(f"the schedule: the learning rate of step {step}", self.schedule(step), NotNegative)

    def _read(self) -> Reading:
        """Read the results since the last call, add them to the progress and return them. This waits for the device."""
        reading = self.updates.read()
        if reading.failed:
            raise self._failure(self.progress.step, reading)
        self.progress.overflowed = reading.overflowed or self.progress.overflowed
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
            f"({self._rate(step):.1e} here) is probably too high: lower it, or warm up for longer.{derivative}"
        )

    def _micro_batches(self) -> Iterator[MicroBatch]:
        """Yield this rank's batches, every nth with n ranks, from the run's position on, epoch after epoch."""
        every, count = self.group.size, len(self.batches)
        epoch, position = self.progress.epoch, self.progress.batch + self.group.rank
        while True:
            for batch in self.batches.epoch(epoch, position, every):
                if position < count:
                    yield MicroBatch(epoch, position, batch)
                position += every
            if not count <= position < count + every:
                few = "fewer" if position < count else "more"
                raise InputError(
                    f"Epoch {epoch + 1} of the training batches has {few} than {count} batches, which it should have: "
                    "all epochs must have the same number of batches."
                )
            epoch, position = epoch + 1, position - count

    def _epoch(self) -> int:
        """Return the epoch of the first batch of the last update."""
        used = self.settings.accumulate * self.group.size
        return max(0, self.progress.batches(len(self.batches)) - used) // len(self.batches)

    # -- validation and log --------------------------------------------------------------------------------------------

    def _validate(self, *, averaged: int = 0, last: bool = False) -> None:
        """Validate, keep the weights if they are the best, and log the row. Without validation data, keep the weights.

        `averaged` is the number of weights of which these are the mean; `last` is explained at `_finish`.
        """
        now, monitor, higher = self.progress, self.settings.monitor, self.higher_is_better
        self._read()  # on a device, earlier updates may have failed
        with self.ema.applied() if self.ema is not None else nullcontext():
            values = {} if self.validation is None else self._measured(self.validation)
            better = not values or now.note_validation(values[monitor], higher)
            if better and self.group.first:
                saved = {**self.config, **saved_note(self.model), "step": now.step, "averaged": averaged}
                self.store.keep(self.model.state_dict(), saved, last=last)
        if values:
            epoch = now.epoch if averaged else self._epoch()
            self._write({"step": now.step, "epoch": epoch, **values} | ({"averaged": averaged} if averaged else {}))
            if isinstance(self.schedule, Plateau) and not last:
                self.schedule.observe(values[monitor], higher)
            if self.settings.average > 1 and self.ema is None and now.step not in now.snapshots:
                now.snapshots = [*now.snapshots, now.step][-self.settings.average :]
        self.group.check_equal(self.model.state_dict)

    def _measured(self, batches: list[Any]) -> dict[str, Any]:
        """Return the numbers of a validation by name, as Python numbers."""
        found = mean_losses(self.model, self.loss, batches, self.group)
        values: dict[str, Any] = {f"valid_{name}": value for name, value in found.items()}
        self.model.eval()
        metrics = self.metrics or (lambda model: {})
        further = self.group.from_first(lambda: dict(metrics(self.model)))
        check_names("metrics", further, {"step", "epoch", "averaged", "loss", *values})
        values |= further
        values = {name: argument(f"Trainer: the metric {name!r}", value, float) for name, value in values.items()}
        if not math.isfinite(values["valid_loss"]):
            raise FloatingPointError(
                f"Step {self.progress.step}: the validation loss is {values['valid_loss']}. The learning rate "
                f"({self.optimizer.lr:.1e}) is probably too high: lower it, or warm up for longer."
            )
        if self.settings.monitor not in values:
            raise InputError(f"There is no metric {self.settings.monitor!r}; a validation gives {', '.join(values)}.")
        return values

    def _log(self) -> None:
        """Write a row with the means since the last one. A row that is not due, at the end, resets no sum."""
        reading, now = self._read(), self.progress
        seconds = self.clock.lap()
        tokens, means = now.log_means(reset=now.step % self.settings.log_every == 0)
        row: dict[str, Any] = {"step": now.step, "epoch": self._epoch(), **means}
        row |= {"learning_rate": self.optimizer.lr, "gradient_norm": reading.norm}
        if self.scaler is not None:
            row |= {"loss_scale": float(self.scaler.scale), "skipped": int(self.scaler.skipped)}
        if self.settings.name_overflows and now.overflowed:
            row["overflowed"] = now.overflowed
        if self.settings.gradient_norms:
            norms = layer_norms(updated_parameters(self.model, self.optimizer), reading.norm)
            row["gradient_norms"] = {name: jsonable(norm) for name, norm in norms.items()}
        with self.clock.paused():
            times = {"tokens_per_second": tokens / seconds, "processor_seconds": round(self.clock.processor, 3)}
            self._write(row, **times)

    def _write(self, row: dict[str, Any], **times: Any) -> None:
        plain = {name: jsonable(value) for name, value in row.items()}
        self.history.rows.append(plain)
        self._tell("on_log", plain, times)

    # -- saves ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def _folder(self, resume: bool) -> Iterator[None]:
        """Make or open the folder `out`, and choose the store, for the block."""
        if self.out is None:
            if resume:
                raise ValueError("Trainer.fit: resume=True needs the folder of the run: Trainer(..., out=FOLDER)")
            self.store: MemoryStore | RunStore = MemoryStore()
            yield
            return
        out: Any = self.out
        given = isinstance(out, RunFolder)
        with nullcontext(out) if given else run_of_group(out, {}, resume=resume) as self.run:
            self.store = RunStore(self.run, self.settings.keep)
            if not given:
                self.store.continuation = "Continue with fit(..., resume=True)."
            self.callbacks = [RunLog(), *(one for one in self.callbacks if not isinstance(one, RunLog))]
            yield

    def save(self) -> None:
        """Save the run. Raises InputError if it can't be written; the earlier saves are untouched."""
        self._read()
        if self.group.first:
            self.store.save(self.progress.step, self.model.state_dict(), saved_state(self), self.progress.snapshots)
