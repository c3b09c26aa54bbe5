"""Saves from which a run can be resumed exactly: the last few are kept, and the newest undamaged one is found.

A save is two files in the run's folder `checkpoints`: `weights-STEP.safetensors` holds the parameters,
`state-STEP.safetensors` holds everything else. The state is written last. It contains the checksum of its weights and
is valid only with them. Therefore, after a crash between the two files the previous save is used. Weights that a state
needs for averaging are kept as long as the state.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import InputError
from ...files import is_link, temporary_name
from .checkpoints import load_checkpoint, read_checksum, read_config, save_checkpoint

_NAME = re.compile(r"(state|weights)-(\d{8,})\.safetensors")


class SavedState(NamedTuple):
    """A loaded save; `damaged` names newer ones that could not be read, newest first."""

    step: int
    weights: dict[str, np.ndarray]
    state: dict[str, Any]
    damaged: list[str]


class SavedStates:
    """The saves of one run.

    Args:
        folder: the folder of the saves; created with the first save.
        keep: number of newest saves to keep.
    """

    def __init__(self, folder: str | Path, keep: int = 2):
        if keep < 1:
            raise ValueError(f"SavedStates: keep = {keep}; at least the newest save must stay")
        self.folder, self.keep = Path(folder), keep

    def save(
        self, step: int, weights: Mapping[str, np.ndarray], state: Mapping[str, Any], snapshots: Sequence[int] = ()
    ) -> None:
        """Write a save, then remove saves that are no longer needed.

        Args:
            weights: the parameters by name.
            state: nested dicts (keys are strings without "/") of arrays and of JSON values.
            snapshots: earlier steps whose weights this state needs; their files stay as long as this save.

        Raises InputError if the disk is full, or the folder read-only or a symbolic link; the earlier saves are
        untouched.
        """
        if is_link(self.folder):
            raise InputError(
                f"{self.folder} is a symbolic link. Saves are not written through a link, since old saves are "
                f"removed: put a folder there instead, or link a folder above the run."
            )
        flat = dict(_flatten(state))
        tensors = {key: value for key, value in flat.items() if isinstance(value, np.ndarray)}
        plain = {key: value for key, value in flat.items() if key not in tensors}
        path = save_checkpoint(self.folder, weights, {"step": step}, file_name=f"weights-{step:08}.safetensors")
        config = {"step": step, "snapshots": list(snapshots), "weights": read_checksum(path), "state": plain}
        save_checkpoint(self.folder, tensors, config, file_name=f"state-{step:08}.safetensors")
        self._prune(newest=step)

    def steps(self) -> list[int]:
        """Return the steps of the saves, oldest first, damaged ones included."""
        return sorted(self._files("state"))

    def load(self) -> SavedState:
        """Load the newest save that is not damaged.

        Raises InputError if no save is usable; the message gives the problem of the newest save.
        """
        damaged: list[str] = []
        for step in reversed(self.steps()):
            try:
                weights = self.weights(step)
                tensors, config = load_checkpoint(self.folder, file_name=f"state-{step:08}.safetensors")
                own = read_checksum(self.folder, file_name=f"weights-{step:08}.safetensors")
                if config.get("step") != step or config.get("weights") != own:
                    raise InputError(
                        f"The two files of step {step} in {self.folder} do not belong together: the state was saved "
                        f"with other weights. Restore both from one copy."
                    )
                state = _nest({**config["state"], **tensors})
            except InputError as error:
                damaged.append(str(error))
            except (AttributeError, KeyError, TypeError):
                damaged.append(f"The state of step {step} in {self.folder} is damaged. Restore a copy.")
            else:
                return SavedState(step, weights, state, damaged)
        if damaged:
            raise InputError(f"No save in {self.folder} is usable. The newest: {damaged[0]}")
        raise InputError(
            f"{self.folder} holds no save to resume from: the run ended before its first save, or the folder was "
            "cleared. Start the run again."
        )

    def weights(self, step: int) -> dict[str, np.ndarray]:
        """Load the parameters that were saved at `step`. Raises InputError if the file is missing or damaged."""
        return load_checkpoint(self.folder, file_name=f"weights-{step:08}.safetensors").tensors

    def mean_weights(self, steps: Sequence[int]) -> dict[str, np.ndarray]:
        """Compute the mean of the parameters saved at these steps. Raises InputError as `weights` does."""
        snapshots = [self.weights(step) for step in steps]
        total = snapshots[0]
        for snapshot in snapshots[1:]:
            for name, array in snapshot.items():
                total[name] += array
        return {name: array / len(steps) for name, array in total.items()}

    def clear(self) -> None:
        """Remove all saves, and the folder if nothing else is in it. Files behind a symbolic link are kept."""
        if is_link(self.folder):
            return
        for path in (*self._files("state").values(), *self._files("weights").values(), *self._unfinished()):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it is not empty, or was never made
            self.folder.rmdir()

    def _files(self, kind: str) -> dict[int, Path]:
        found = ((_NAME.fullmatch(path.name), path) for path in self.folder.glob(f"{kind}-*.safetensors"))
        return {int(match[2]): path for match, path in found if match and not path.is_dir()}

    def _unfinished(self) -> list[Path]:
        return [path for path in self.folder.glob(temporary_name("*")) if _NAME.fullmatch(path.name[1:-4])]

    def _prune(self, newest: int) -> None:
        states, weights = self._files("state"), self._files("weights")
        # After a resume from an older save, the later saves belong to steps that will be repeated.
        kept = [step for step in sorted(states) if step <= newest][-self.keep :]
        wanted = set(kept)
        for step in kept:
            try:
                wanted.update(read_config(states[step])["snapshots"])
            except (InputError, KeyError, TypeError):
                continue  # damaged: it needs no weights any more
        removed = [path for step, path in states.items() if step not in kept]
        removed += [path for step, path in weights.items() if step not in wanted]
        for path in [*removed, *self._unfinished()]:  # states first: none is left without its weights
            path.unlink(missing_ok=True)


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
