"""The training loop."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from tqdm import tqdm

from ..autograd import Tensor, no_grad
from ..nn import Module
from .checkpoints import load_checkpoint, save_checkpoint
from .memory import keep_freed_memory
from .optimizers import Adam, clip_grad_norm
from .plots import plot_losses
from .run_folder import RunFolder
from .schedules import Schedule


class Batches(Protocol):
    """Training data: `epoch(k)` gives the batches of epoch k, in an order that depends on k and a seed alone."""

    def __len__(self) -> int: ...

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Any]: ...


class Trainer:
    """Trains a model and leaves a record: metrics, a picture of the losses, and the weights that validate best.

    Args:
        model: what to train.
        loss: (model, batch) -> (loss in nats per token, a Tensor with one element; number of tokens it is the mean of).
        optimizer, schedule: the schedule sets the optimiser's learning rate at each step.
        train_batches, valid_batches: training data, and the batches to validate on.
        run: folder that receives metrics.jsonl, loss.png and model.safetensors.
        config: saved beside the weights; what is needed to build the model again.
        steps: updates to make.
        clip_norm: bound on the gradient's norm; None for none.
        log_every, validate_every: steps between two rows in metrics.jsonl, and between two validations.
        training_label: what the picture calls the training loss.
        average: at the end, also try the mean of the weights at this many last validations.
    """

    def __init__(
        self,
        model: Module,
        loss: Callable[[Module, Any], tuple[Tensor, int]],
        optimizer: Adam,
        schedule: Schedule,
        train_batches: Batches,
        valid_batches: Iterable[Any],
        run: RunFolder,
        *,
        config: dict[str, Any],
        steps: int,
        clip_norm: float | None = 1.0,
        log_every: int = 20,
        validate_every: int = 200,
        average: int = 5,
        training_label: str = "training",
    ):
        self.model, self.loss, self.optimizer, self.schedule = model, loss, optimizer, schedule
        self.train_batches, self.valid_batches = train_batches, list(valid_batches)
        self.run, self.config, self.steps, self.clip_norm = run, config, steps, clip_norm
        self.log_every, self.validate_every = log_every, validate_every
        self.average, self.training_label = average, training_label
        self.best_valid_loss = math.inf
        self._snapshots: deque[list[Any]] = deque(maxlen=average)

    def fit(self) -> float:
        """Train for `steps` updates; the model ends with its best weights. Returns the best validation loss, in nats.

        Freed memory stays with the process from then on (`keep_freed_memory`).

        Raises FloatingPointError when the loss is no longer a number. The weights that validated best until then, or
        until the run is stopped with Ctrl-C, are on disk.
        """
        keep_freed_memory()
        with tqdm(total=self.steps, unit="step", disable=None, dynamic_ncols=True) as bar:
            log_loss = log_tokens = 0.0
            log_start = time.perf_counter()
            for step, epoch, batch in self._batches():
                loss, tokens, norm = self.update(step, batch)
                log_loss, log_tokens = log_loss + loss * tokens, log_tokens + tokens
                bar.update()
                if step % self.log_every == 0 or step == self.steps:
                    row = {"step": step, "epoch": epoch, "loss": log_loss / log_tokens}
                    row |= {"learning_rate": self.optimizer.lr, "gradient_norm": norm}
                    speed = log_tokens / (time.perf_counter() - log_start)
                    self.run.log(row, {"tokens_per_second": speed})
                    valid = f"best valid {self.best_valid_loss:.3f}, " if math.isfinite(self.best_valid_loss) else ""
                    bar.set_postfix_str(
                        f"loss {row['loss']:.3f}, {valid}lr {self.optimizer.lr:.1e}, {speed:,.0f} tokens/s"
                    )
                    log_loss, log_tokens, log_start = 0.0, 0.0, time.perf_counter()
                if step % self.validate_every == 0 or step == self.steps:
                    self._validate(step, epoch, bar)
                    log_start = time.perf_counter()
            self._try_average(epoch, bar)
        self.model.load_state_dict(load_checkpoint(self.run.path).tensors)
        return self.best_valid_loss

    def _batches(self) -> Iterator[tuple[int, int, Any]]:
        """(step, epoch, batch) for all steps, epoch after epoch."""
        step = epoch = 0
        while True:
            for batch in self.train_batches.epoch(epoch):
                if step == self.steps:
                    return
                step += 1
                yield step, epoch, batch
            epoch += 1

    def update(self, step: int, batch: Any) -> tuple[float, int, float]:
        """One step: returns the batch's loss in nats per token, its tokens and the gradient's norm before clipping."""
        self.model.train()
        self.optimizer.zero_grad()
        loss, tokens = self.loss(self.model, batch)
        loss.backward()
        norm = clip_grad_norm(self.optimizer.parameters, self.clip_norm)
        value = loss.item()
        if not math.isfinite(value) or not math.isfinite(norm):
            raise FloatingPointError(
                f"Step {step}: the loss is {value} and the gradient's norm {norm}. The learning rate "
                f"({self.schedule(step):.1e} here) is probably too high: lower it, or warm up for longer."
            )
        self.optimizer.lr = self.schedule(step)
        self.optimizer.step()
        return value, tokens, norm

    def validation_loss(self) -> float:
        """Mean loss over the validation tokens, in nats, without dropout."""
        self.model.eval()
        total = count = 0.0
        with no_grad():
            for batch in self.valid_batches:
                loss, tokens = self.loss(self.model, batch)
                total, count = total + loss.item() * tokens, count + tokens
        return total / count

    def _try_average(self, epoch: int, bar: tqdm) -> None:
        """Let the mean of the last snapshots be the result if it validates better than each of them.

        The end points of a run's last stretch scatter around something better than themselves (Vaswani et al. 2017,
        section 6.1, average their last checkpoints).
        """
        if len(self._snapshots) > 1:
            for parameter, *values in zip(self.model.parameters(), *self._snapshots, strict=True):
                parameter.data[...] = sum(values) / len(values)
                parameter.mark_changed()
            self._validate(self.steps, epoch, bar, averaged=len(self._snapshots))

    def _validate(self, step: int, epoch: int, bar: tqdm, averaged: int = 0) -> None:
        loss = self.validation_loss()
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"Step {step}: the validation loss is {loss}. The learning rate ({self.optimizer.lr:.1e}) is probably "
                "too high: lower it, or warm up for longer."
            )
        row = {"step": step, "epoch": epoch, "valid_loss": loss}
        self.run.log({**row, "averaged": averaged} if averaged else row)
        if self.average > 1 and not averaged:
            self._snapshots.append([parameter.data.copy() for parameter in self.model.parameters()])
        if loss < self.best_valid_loss:
            self.best_valid_loss = loss
            save_checkpoint(self.run.path, self.model.state_dict(), {**self.config, "step": step})
        plot_losses(self.run.metrics_path, self.run.loss_picture, training_label=self.training_label)
        if bar.disable:  # a log file instead of a terminal: one line for each validation
            what = f"mean of the last {averaged} weights" if averaged else f"epoch {epoch + 1}"
            print(f"step {step}/{self.steps}, {what}: validation loss {loss:.4f} nats per token", flush=True)
