"""The log of a training, and callbacks: a progress bar, the files of a run, early stopping, and one's own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..kinds import checked
from ..models.fields import Count
from ..notebook import element, line_chart, progress_bar
from .runs.plots import line_of, plot_losses
from .runs.progress import TrainingStopped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .trainer import Trainer

# The bar keeps its width; a line that is too long for the terminal is cut at its end. It shows tokens per second
# instead of updates per second, because they are more informative.
_BAR = "{percentage:3.0f}%|{bar:16}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"


class Callback:
    """The base class of callbacks. Its methods do nothing, and a subclass defines those that it needs.

    Of several processes that train together, only the first calls them. An exception in a method ends the training. A
    method may read everything of the trainer, and call its `stop(reason)` and `save()`.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def on_start(self, trainer: Trainer) -> None:
        """Called before the first update."""

    def on_update(self, trainer: Trainer) -> None:
        """Called after each update; `trainer.progress.step` is its number."""

    def on_log(self, trainer: Trainer, row: Mapping[str, Any], times: Mapping[str, Any]) -> None:
        """Called with each row of the log: of the training, with "loss", or of a validation, with "valid_loss".

        `times` holds numbers that are not reproducible: tokens per second, and seconds of the processor.
        """

    def on_message(self, trainer: Trainer, text: str) -> None:
        """Called with a line of text for the user."""

    def on_end(self, trainer: Trainer, error: BaseException | None) -> None:
        """Called at the end, with the exception that ended the training, if any."""


class ProgressBar(Callback):
    """A bar in a terminal or notebook with loss, best validation, learning rate, tokens per second and the time left.

    In a log file or a pipe, each validation prints one line instead.

    Args:
        say: prints the lines of text; by default above the bar.
    """

    def __init__(self, say: Callable[[str], None] | None = None):
        self._say, self.bar = say, progress_bar(shown=False)  # on_end is called also if a training never started

    def on_start(self, trainer: Trainer) -> None:
        done, steps = trainer.progress.step, trainer.steps
        self.bar = progress_bar(total=steps, initial=done, dynamic_ncols=True, bar_format=_BAR)

    def on_update(self, trainer: Trainer) -> None:
        self.bar.update()

    def on_log(self, trainer: Trainer, row: Mapping[str, Any], times: Mapping[str, Any]) -> None:
        if "valid_loss" in row:
            self._validated(trainer, row)
            return
        parts = [f"loss {'nan' if row['loss'] is None else format(row['loss'], '.3f')}"]
        if trainer.progress.best is not None:
            parts.append(f"best {trainer.progress.best:.3f}")
        speed = self.bar.format_sizeof(times["tokens_per_second"])
        parts += [f"{speed} {trainer.unit or 'item'}s/s", f"lr {row['learning_rate']:.1e}"]
        if "loss_scale" in row:
            parts.append(f"scale {row['loss_scale']:g}")
        if row.get("skipped"):
            parts.append(f"{row['skipped']} skipped")
        if "overflowed" in row:
            parts.append(f"first {row['overflowed']}")
        self.bar.set_postfix_str(", ".join(parts))

    def _validated(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        if self.bar.disable:
            averaged = row.get("averaged")
            what = f"mean of the last {averaged} weights" if averaged else f"epoch {row['epoch'] + 1}"
            known = ("step", "epoch", "averaged", "valid_loss")
            further = [
                f", {name.removeprefix('valid_')} {'nan' if value is None else format(value, '.4g')}"
                for name, value in row.items()
                if name not in known
            ]
            per = f" nats per {trainer.unit}" if trainer.unit else ""
            loss = f"validation loss {row['valid_loss']:.4f}{per}"
            print(f"step {row['step']}/{trainer.steps}, {what}: {loss}{''.join(further)}", flush=True)

    def on_message(self, trainer: Trainer, text: str) -> None:
        if self._say is not None:
            self._say(text)
        else:
            self.bar.write(text)
            sys.stdout.flush()

    def on_end(self, trainer: Trainer, error: BaseException | None) -> None:
        self.bar.close()


@dataclass
class History:
    """The log of a training.

    Attributes:
        rows: the rows of the log, as dicts of plain numbers; NaN and infinities are None. A row has "step", "epoch" and
            either "loss", "learning_rate" and "gradient_norm" or "valid_loss" and a validation's other numbers.
        best, best_step: the best value of the monitored number, and its step; None without a validation.
        label, unit: see `Trainer`.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    best: float | None = None
    best_step: int = 0
    label: str = "training"
    unit: str = ""

    def plot(self, out_png: str | Path | None = None) -> Figure:
        """Return a matplotlib figure of the losses, accuracies and learning rates over the steps; a notebook shows it.

        See `plot_losses`. Raises ValueError without a loss.
        """
        return plot_losses(self.rows, out_png, training_label=self.label, unit=self.unit)

    def _repr_html_(self) -> str:
        lines = {self.label: line_of(self.rows, "loss"), "validation": line_of(self.rows, "valid_loss")}
        return element("div", repr(self), line_chart(lines) if any(x for x, _ in lines.values()) else "")

    def __repr__(self) -> str:
        best = "" if self.best is None else f", best {self.best:.4g} at step {self.best_step:,}"
        return f"History({len(self.rows)} rows{best})"


class RunLog(Callback):
    """Writes the rows into the trainer's folder, and draws loss.png again from time to time. `Trainer` adds it."""

    def __init__(self) -> None:
        self._next_picture = 0.0  # on time.perf_counter's clock

    def on_log(self, trainer: Trainer, row: Mapping[str, Any], times: Mapping[str, Any]) -> None:
        trainer.run.log(row, times or None)
        # After the last step nothing is redrawn, because the picture is drawn at the end.
        if "valid_loss" in row and row["step"] < trainer.steps and time.perf_counter() >= self._next_picture:
            self._draw(trainer)

    def on_end(self, trainer: Trainer, error: BaseException | None) -> None:
        if error is None or isinstance(error, TrainingStopped):
            self._draw(trainer)

    def _draw(self, trainer: Trainer) -> None:
        start = time.perf_counter()
        if any(row.get(name) is not None for row in trainer.history.rows for name in ("loss", "valid_loss")):
            trainer.history.plot(trainer.run.picture("loss"))
        end = time.perf_counter()
        self._next_picture = end + 20 * (end - start)


class EarlyStopping(Callback):
    """Ends the training when `patience` validations in a row have not improved on the best one.

    Raises ValueError or TypeError unless patience is a whole number from 1 on.
    """

    @checked
    def __init__(self, patience: Count):
        self.patience = patience

    def on_start(self, trainer: Trainer) -> None:
        if trainer.validation is None:
            raise ValueError("EarlyStopping needs validations: give fit(..., validation=batches)")
        self._look(trainer)

    def on_log(self, trainer: Trainer, row: Mapping[str, Any], times: Mapping[str, Any]) -> None:
        if "valid_loss" in row and row["step"] < trainer.steps:
            self._look(trainer)

    def _look(self, trainer: Trainer) -> None:
        now = trainer.progress
        if now.stale >= self.patience:
            best = f"{trainer.settings.monitor} {now.best:.4g} of step {now.best_step:,}"
            trainer.stop(f"{now.stale} validations in a row did not improve on the {best}")
