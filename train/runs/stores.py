"""Where a training keeps its best weights and its saves: in a run's folder, or in memory."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...files import atomic_file
from .checkpoints import load_checkpoint, save_checkpoint
from .folder import RunFolder
from .saves import SavedState, SavedStates, mean

Arrays = Mapping[str, np.ndarray]


class MemoryStore:
    """Holds copies in memory, and nothing else is kept: such a training can't be resumed."""

    continuation = "The model has the weights of this step. With out=FOLDER, a training can be resumed."

    def __init__(self) -> None:
        self._best: dict[str, np.ndarray] = {}
        self._saved: dict[int, dict[str, np.ndarray]] = {}

    def keep(self, weights: Arrays, config: Mapping[str, Any], *, last: bool = False) -> None:
        """Keep the weights of the model as the result. `last` means that they are not those of a regular validation."""
        self._best = {name: array.copy() for name, array in weights.items()}

    def best(self) -> dict[str, np.ndarray]:
        """Return the weights of the last call of `keep`."""
        return self._best

    def save(self, step: int, weights: Arrays, state: Mapping[str, Any], snapshots: Sequence[int]) -> None:
        """Save the weights, the state, and the weights of the earlier steps `snapshots`."""
        held = {earlier: arrays for earlier, arrays in self._saved.items() if earlier in snapshots}
        self._saved = {**held, step: {name: array.copy() for name, array in weights.items()}}

    def mean_weights(self, steps: Sequence[int]) -> dict[str, np.ndarray]:
        """Return the mean of the weights that were saved at these steps."""
        return mean(self._saved[step] for step in steps)


class RunStore:
    """The files of a run: model.safetensors and the saves. See `MemoryStore` for the methods of both."""

    def __init__(self, run: RunFolder, keep: int):
        self.run, self.saves, self.continuation = run, SavedStates(run.saves_path, keep), run.continuation
        self.mean_weights = self.saves.mean_weights
        #: The model before the end of the training replaced it; a longer training goes on with it.
        self._regular = run.saves_path / "regular.safetensors"

    def keep(self, weights: Arrays, config: Mapping[str, Any], *, last: bool = False) -> None:
        if last and self.run.model_path.exists() and not self._regular.exists():
            copied(self.run.model_path, self._regular)
        save_checkpoint(self.run.path, weights, config)

    def best(self) -> dict[str, np.ndarray]:
        return load_checkpoint(self.run.path).tensors

    def save(self, step: int, weights: Arrays, state: Mapping[str, Any], snapshots: Sequence[int]) -> None:
        self.run.sync()
        self.saves.save(step, weights, state, snapshots)

    def load(self) -> SavedState:
        """Load the newest undamaged save. See `SavedStates.load`."""
        return self.saves.load()

    def put_back(self) -> None:
        """Put back the model of the last regular validation, if the end of a training replaced it."""
        if self._regular.exists():
            self._regular.replace(self.run.model_path)

    def copy_result(self, step: int, best: float | None) -> str:
        """Copy the model of a training that ended at `step`, and is to be longer, if it is not the regular one.

        Returns the name of the copy, or an empty string. `best` is the best value of the regular validations.
        """
        model = self.run.model_path
        if not model.exists() or not (self._regular.exists() or best is None):
            return ""
        copied(model, self.run.path / f"model-{step}.safetensors")
        return f"model-{step}.safetensors"


def copied(source: Path, target: Path) -> None:
    """Copy a file, atomically."""
    with atomic_file(target) as copy, open(source, "rb") as file:
        shutil.copyfileobj(file, copy)
