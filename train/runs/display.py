"""Display of a run during training: a progress bar in a terminal, lines in a log file, an updated picture."""

import sys
import time
from collections.abc import Mapping
from typing import Any, Self

from tqdm import tqdm

from .folder import RunFolder
from .plots import plot_losses

# The bar keeps its width; a line that is too long for the terminal is cut at its end. It shows tokens per second
# instead of updates per second, because they are more informative.
_BAR = "{percentage:3.0f}%|{bar:16}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"


class Display:
    """A context manager that displays the progress of a run.

    In a terminal a bar shows loss, best validation, learning rate, tokens/s and the time left. In a log file or a pipe,
    each validation prints one line. loss.png is redrawn from the log.

    Args:
        run: the run whose log and picture are shown.
        steps, done: total number of updates, and updates made so far.
        training_label, unit: name of the training loss in the picture, and the unit over which a loss is a mean.
        shows: whether this process prints, shows a bar and draws the picture.

    Attributes:
        bar: the progress bar, which counts updates.
    """

    def __init__(self, run: RunFolder, steps: int, done: int, training_label: str, unit: str, *, shows: bool = True):
        self.run, self.steps, self.shows = run, steps, shows
        self.training_label, self.unit = training_label, unit
        disable = None if shows else True  # None: there is a bar in a terminal only
        self.bar = tqdm(total=steps, initial=done, disable=disable, dynamic_ncols=True, bar_format=_BAR)
        self._next_picture = 0.0  # on time.perf_counter's clock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()

    def row(self, row: Mapping[str, Any], speed: float, best: float | None) -> None:
        """Show a row of the log after the bar."""
        parts = [f"loss {row['loss']:.3f}"]
        if best is not None:
            parts.append(f"best {best:.3f}")
        parts += [f"{tqdm.format_sizeof(speed)} {self.unit}s/s", f"lr {row['learning_rate']:.1e}"]
        if "loss_scale" in row:
            parts.append(f"scale {row['loss_scale']:g}")
        if row.get("skipped"):
            parts.append(f"{row['skipped']} skipped")
        if "overflowed" in row:
            parts.append(f"first {row['overflowed']}")
        self.bar.set_postfix_str(", ".join(parts))

    def validation(self, step: int, what: str, values: Mapping[str, float]) -> None:
        """Print a line after a validation if there is no bar, and redraw the picture if it is due.

        After the last step nothing is redrawn, because the picture is drawn at the end.
        """
        if self.bar.disable and self.shows:
            further = [f", {name.removeprefix('valid_')} {value:.4g}" for name, value in values.items()][1:]
            loss = f"validation loss {values['valid_loss']:.4f} nats per {self.unit}"
            print(f"step {step}/{self.steps}, {what}: {loss}{''.join(further)}", flush=True)
        if step < self.steps and time.perf_counter() >= self._next_picture:
            self.draw()

    def say(self, text: str) -> None:
        """Print a line, above the bar."""
        if self.shows:
            self.bar.write(text)
            sys.stdout.flush()

    def draw(self) -> None:
        """Redraw the picture."""
        start = time.perf_counter()
        rows = self.run.metrics() if self.shows else []
        if any(row.get(loss) is not None for row in rows for loss in ("loss", "valid_loss")):
            plot_losses(rows, self.run.picture("loss"), training_label=self.training_label, unit=self.unit)
        end = time.perf_counter()
        self._next_picture = end + 20 * (end - start)
