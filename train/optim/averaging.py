"""An exponential average of the weights, which often validates better than the weights themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...autograd import Parameter
from ...autograd.backend import array_module, to_device
from .optimizers import in_blocks


class ExponentialAverage:
    """An exponential average of weights: average = d average + (1 - d) weights.

    At update n, d = min(decay, (1 + n) / (10 + n)). The smaller d of the first updates lets the average forget the
    initial weights. Source: Polyak and Juditsky 1992 (SIAM J. Control Optim. 30); the ramp comes from TensorFlow's
    ExponentialMovingAverage.

    Args:
        parameters: the parameters whose weights are averaged; the average starts as a copy.
        decay: a number in [0, 1).

    Raises ValueError for a decay out of range.
    """

    def __init__(self, parameters: Iterable[Parameter], decay: float = 0.999):
        if not 0 <= decay < 1:
            raise ValueError(f"ExponentialAverage: decay = {decay} must be in [0, 1)")
        self.parameters, self.decay, self.updates = list(parameters), decay, 0
        self.averages = [parameter.data.copy() for parameter in self.parameters]

    def update(self) -> None:
        """Update the average with the current weights."""
        self.updates += 1
        share = 1 - min(self.decay, (1 + self.updates) / (10 + self.updates))

        def mix(weights: Any, average: Any) -> None:
            difference = weights - average
            difference *= share
            average += difference

        arrays = [(parameter.data, own) for parameter, own in zip(self.parameters, self.averages, strict=True)]
        in_blocks(mix, arrays, cost=0.5)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the weights of the parameters by the average within the block. Then restore the weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for parameter, average in zip(self.parameters, self.averages, strict=True):
            weights = parameter.data.copy()
            parameter.data[...] = average
            average[...] = weights
            parameter.mark_changed()

    def state_dict(self) -> dict[str, Any]:
        averages = {str(i): to_device(average, "cpu") for i, average in enumerate(self.averages)}
        return {"updates": self.updates, "averages": averages}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`. Raises ValueError if the state belongs to other parameters."""
        saved = [state["averages"].get(str(i)) for i in range(len(self.averages))]
        if [getattr(array, "shape", None) for array in saved] != [average.shape for average in self.averages]:
            raise ValueError("ExponentialAverage: the parameters of this state differ in number or shape")
        self.updates = state["updates"]
        for average, array in zip(self.averages, saved, strict=True):
            average[...] = array_module(average).asarray(array)
