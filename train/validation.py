"""Validation of a training run: its interval, its batches, and the metric that selects the best weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..autograd import no_grad
from ..nn import Module
from .distributed import ProcessGroup
from .runs.progress import add_means, means_of
from .updates import check_counted


@dataclass(frozen=True)
class Validation:
    """The settings of a run's validation.

    Attributes:
        batches: the validation data.
        every: steps between two validations; there is another one at the end.
        metrics: function of the model (in evaluation mode) that returns further numbers for the row, by name.
        monitor, higher_is_better: the metric of a validation that selects the best weights, and whether more is better.
        patience: stop after this many validations in a row without a better value; None means never.
        average: at the end also validate the mean of the weights at the last `average` validations; 0 or 1 for none.
    """

    batches: Iterable[Any]
    every: int = 200
    metrics: Callable[[Module], dict[str, float]] | None = None
    monitor: str = "valid_loss"
    higher_is_better: bool = False
    patience: int | None = None
    average: int = 5

    def measure(self, model: Module, loss: Callable[..., tuple[Any, ...]], group: ProcessGroup) -> dict[str, float]:
        """Return the means over the tokens of all batches, without dropout.

        They are `valid_loss` in nats, the further means of the loss as `valid_NAME`, and `metrics`. Each rank computes
        a share of the batches and gets the means over all batches.
        """
        model.eval()
        sums = {"tokens": 0.0, "loss": 0.0}
        with no_grad():
            for batch in list(self.batches)[group.rank :: group.size]:
                value, count, *more = loss(model, batch)
                check_counted(count, "A validation batch")
                add_means(sums, count, {"loss": value.item(), **(more[0] if more else {})})
            further = group.from_first(lambda: self.metrics(model) if self.metrics else {})
        total: dict[str, float] = {}
        for own in group.gather(sums):  # a rank may have had no batch
            for name, number in own.items():
                total[name] = total.get(name, 0.0) + number
        return {f"valid_{name}": mean for name, mean in means_of(total).items()} | further
