"""Where a training keeps its best weights and its saves: in memory, or in a run's folder."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...files import atomic_file
from .checkpoints import load_checkpoint, save_checkpoint
from .folder import RunFolder
from .saves import SavedStates, mean

Arrays = Mapping[str, np.ndarray]


class MemoryStore:
    """Holds copies of weights. A training with this store can't be resumed."""

    continuation = "The model has the weights of this step. With out=FOLDER, a training can be resumed."

    def __init__(self) -> None:
        self._best: dict[str, np.ndarray] = {}
        self._saved: dict[int, dict[str, np.ndarray]] = {}

    def keep(self, weights: Arrays, config: Mapping[str, Any], *, last: bool) -> None:
        """Keep the weights as the result. `last`: only the end of the training has validated them."""
        self._best = {name: array.copy() for name, array in weights.items()}

    def best(self) -> dict[str, np.ndarray]:
        """Return the weights of the last call of `keep`."""
        return self._best

    def save(self, step: int, weights: Arrays, state: Mapping[str, Any], snapshots: Sequence[int]) -> None:
        """Save weights and state, and keep the weights of the earlier steps `snapshots`."""
        held = {earlier: arrays for earlier, arrays in self._saved.items() if earlier in snapshots}
        self._saved = {**held, step: {name: array.copy() for name, array in weights.items()}}

    def mean_weights(self, steps: Sequence[int]) -> dict[str, np.ndarray]:
        """Return the mean of the weights that were saved at these steps."""
        return mean(self._saved[step] for step in steps)


class RunStore:
    """The files of a run, model.safetensors and the saves, with the methods of `MemoryStore`."""

    def __init__(self, run: RunFolder, keep: int):
        self.run, self.saves, self.continuation = run, SavedStates(run.saves_path, keep), run.continuation
        self.mean_weights = self.saves.mean_weights
        self._regular = run.saves_path / "regular.safetensors"  # the result before the end of the training replaced it

    def keep(self, weights: Arrays, config: Mapping[str, Any], *, last: bool) -> None:
        if last and self.run.model_path.exists() and not self._regular.exists():
            _copy(self.run.model_path, self._regular)
        save_checkpoint(self.run.path, weights, config)

    def best(self) -> dict[str, np.ndarray]:
        return load_checkpoint(self.run.path).tensors

    def save(self, step: int, weights: Arrays, state: Mapping[str, Any], snapshots: Sequence[int]) -> None:
        self.run.sync()
        self.saves.save(step, weights, state, snapshots)

    def rewind(self, copy_as: str) -> bool:
        """Put back the result before the end of the training; return whether that of the end is copied under a name."""
        copies = bool(copy_as) and self.run.model_path.exists()
        if copies:
            _copy(self.run.model_path, self.run.path / copy_as)
        if self._regular.exists():
            self._regular.replace(self.run.model_path)
        return copies

    @property
    def ended(self) -> bool:
        """Whether the result is that of the end of a training."""
        return self._regular.exists()


def _copy(source: Path, target: Path) -> None:
    with atomic_file(target) as copy, open(source, "rb") as file:
        shutil.copyfileobj(file, copy)
