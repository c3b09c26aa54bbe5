"""Saves from which a run can be resumed exactly: the last few are kept, and the newest undamaged one is found.

A save is the file `step-STEP.safetensors` in the run's folder `checkpoints`. Earlier saves whose weights a save needs
for averaging are kept as long as that save.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError
from ...files import temporary_name
from .checkpoints import load_checkpoint, read_config, save_checkpoint

_NAME = re.compile(r"step-(\d{8,})\.safetensors")


class SavedState(NamedTuple):
    """A loaded save; `damaged` names newer ones that could not be read, newest first."""

    step: int
    weights: dict[str, np.ndarray]
    state: dict[str, Any]
    damaged: list[str]


class SavedStates:
    """The saves of one run, of which the `keep` newest are kept. The folder is created with the first save."""

    def __init__(self, folder: str | Path, keep: int = 2):
        self.folder, self.keep = Path(folder), keep

    def save(
        self, step: int, weights: Mapping[str, np.ndarray], state: Mapping[str, Any], snapshots: Sequence[int] = ()
    ) -> None:
        """Write a save, then remove saves that are no longer needed. `state` are nested dicts, whose keys contain no
        "/", of arrays and JSON values; `snapshots` are earlier steps whose weights it needs.
        """
        flat = dict(_flatten({"weights": weights, "state": state}))
        tensors = {key: value for key, value in flat.items() if isinstance(value, np.ndarray)}
        plain = {key: value for key, value in flat.items() if key not in tensors}
        config = {"step": step, "snapshots": list(snapshots), "values": plain}
        save_checkpoint(self.folder, tensors, config, file_name=self._path(step).name)
        self._prune(newest=step)

    def steps(self) -> list[int]:
        """Return the steps of the saves, oldest first, damaged ones included."""
        found = (_NAME.fullmatch(path.name) for path in self.folder.glob("step-*.safetensors"))
        return sorted(int(match[1]) for match in found if match)

    def load(self) -> SavedState:
        """Load the newest save that is not damaged."""
        damaged: list[str] = []
        for step in reversed(self.steps()):
            try:
                tree = self._read(step)
            except InputError as error:
                damaged.append(str(error))
            else:
                return SavedState(step, tree["weights"], tree["state"], damaged)
        if damaged:
            raise InputError(f"No save in {self.folder} is usable. The newest: {damaged[0]}")
        raise InputError(
            f"{self.folder} holds no save to resume from: the run ended before its first save, the folder was cleared, "
            "or an earlier version of handloom wrote it. Start the run again."
        )

    def weights(self, step: int) -> dict[str, np.ndarray]:
        """Load the parameters that were saved at `step`."""
        return self._read(step)["weights"]

    def mean_weights(self, steps: Sequence[int]) -> dict[str, np.ndarray]:
        """Compute the mean of the parameters saved at these steps."""
        return mean(map(self.weights, steps))

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:08}.safetensors"

    def _read(self, step: int) -> dict[str, Any]:
        tensors, config = load_checkpoint(self._path(step))
        if "values" not in config:
            raise InputError(f"{self._path(step)} is not a save of a run. Restore a copy.")
        return _nest({**config["values"], **tensors})

    def _prune(self, newest: int) -> None:
        # After a resume from an older save, the later saves belong to steps that will be repeated.
        wanted = [step for step in self.steps() if step <= newest][-self.keep :]
        for step in wanted[:]:
            try:
                wanted += read_config(self._path(step))["snapshots"]
            except (InputError, KeyError):
                continue  # damaged: it needs no weights any more
        for step in self.steps():
            if step not in wanted:
                self._path(step).unlink(missing_ok=True)
        for path in self.folder.glob(temporary_name("step-*.safetensors")):  # left by a killed process
            path.unlink(missing_ok=True)


def mean(states: Iterable[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the mean of several states' arrays, for the names of all: some versions save a shared array once."""
    total: dict[str, np.ndarray] = {}
    count = 0
    for state in states:
        names = [name for name in state if name in total or not count]
        total = {name: np.add(total[name], state[name]) if count else state[name] for name in names}
        count += 1
    return {name: np.asarray(array / count) for name, array in total.items()}


def _flatten(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:  # an empty dict is a value too
            yield from _flatten(value, f"{path}{key}/")
        else:
            yield f"{path}{key}", value


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, name = path.split("/")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[name] = value
    return tree
