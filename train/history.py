"""The log of a training in memory, and its picture."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .runs.plots import loss_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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

    @property
    def has_losses(self) -> bool:
        """Whether there is a loss to draw."""
        return any(row.get(name) is not None for row in self.rows for name in ("loss", "valid_loss"))

    def plot(self) -> "Figure":
        """Return a matplotlib figure of the losses, accuracies and learning rates over the steps; a notebook shows it.

        Raises ValueError without a loss.
        """
        return loss_figure(self.rows, training_label=self.label, unit=self.unit)

    def __repr__(self) -> str:
        best = "" if self.best is None else f", best {self.best:.4g} at step {self.best_step:,}"
        return f"History({len(self.rows)} rows{best})"
