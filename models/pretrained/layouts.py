"""Names and layouts of model parameters in the files of Hugging Face's `transformers`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...autograd import ops
from ...errors import InputError, short
from . import generation_config


@dataclass(frozen=True)
class Entry:
    """A parameter of handloom, and the tensors of a file that, concatenated along its first axis, have its values."""

    own: str
    theirs: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    transposed: bool = False  # stored as (in_features, out_features)
    aliases: tuple[str, ...] = ()  # other names under which a copy may be stored
    optional: bool = False  # if it is missing, the parameter is set to zero

    def read(self, tensors: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """Read the parameter, of shape `shape`, from the tensors."""
        parts = [tensors[name].T if self.transposed else tensors[name] for name in self.theirs]
        return (parts[0] if len(parts) == 1 else np.concatenate(parts)).reshape(shape)

    def write(self, own: np.ndarray) -> dict[str, np.ndarray]:
        """Return the file's tensors for a parameter."""
        if self.transposed:
            own = own.T
        if len(self.theirs) == 1:
            return {self.theirs[0]: np.ascontiguousarray(own.reshape(self.shapes[0]))}
        ends = np.cumsum([shape[0] for shape in self.shapes])[:-1]
        return dict(zip(self.theirs, map(np.ascontiguousarray, np.split(own, ends)), strict=True))


#: For each layer of handloom, the layer in the file, or the layers that are one layer in handloom; # is the number of a
#: Transformer layer. A parameter that has no such name has an Entry under its full name.
Names = Mapping[str, str | tuple[str, ...] | Entry]


def entries(model: Any, architecture: Any) -> list[Entry]:
    """Return an Entry for each parameter of a model; a shared parameter has its other names as aliases."""
    state, names = model.state_dict(), architecture.names(model.config)
    found: dict[int, Entry] = {}
    for own, array in state.items():
        entry = names.get(own) or _entry(own, state, names, getattr(architecture, "TRANSPOSED", False))
        if id(array) in found:
            first = found[id(array)]
            entry = replace(first, aliases=(*first.aliases, *entry.theirs))
        found[id(array)] = entry
    return list(found.values())


def _entry(own: str, state: Mapping[str, np.ndarray], names: Names, transposed: bool) -> Entry:
    shape = state[own].shape
    layer, _, kind = own.replace("in_proj_", "in_proj.").rpartition(".")
    number = re.search(r"\d+", layer)
    theirs: Any = names[layer if number is None else layer.replace(number[0], "#", 1)]
    parts = (theirs,) if isinstance(theirs, str) else theirs
    # Queries can have more heads than keys and values; other parts have equal sizes.
    first = state[layer.replace("in_proj", "out_proj.weight")].shape[1] if len(parts) == 3 else shape[0] // len(parts)
    sizes = [first, *[(shape[0] - first) // max(len(parts) - 1, 1)] * (len(parts) - 1)]
    transposed = transposed and number is not None and len(shape) == 2
    return Entry(
        own,
        tuple(f"{part.replace('#', number[0] if number else '')}.{kind}" for part in parts),
        tuple((size, *shape[1:])[:: -1 if transposed else 1] for size in sizes),
        transposed,
    )


# The names that `transformers` uses for handloom's activations, and the name that is written for each.
ACTIVATIONS = {theirs: name for name, row in ops.ACTIVATIONS.items() for theirs in row.names}
NAMES_OF_ACTIVATIONS = {name: row.names[0] for name, row in ops.ACTIVATIONS.items() if row.names}


#: Fields of config.json that change no output of a trained model: records, training (where the dropouts
#: of `transformers` count, for which handloom has one), generation, other tasks.
HARMLESS = frozenset(Path(__file__).with_name("harmless_fields.txt").read_text(encoding="utf-8").split())


class ReadConfig(dict[str, Any]):
    """The content of a config.json, which remembers the fields that were read."""

    def __init__(self, config: Mapping[str, Any]):
        super().__init__(config)
        tables = generation_config.FIELDS, generation_config.ABSENT, generation_config.ABSENT_IN_SAMPLING
        self.fields_read = HARMLESS.union(generation_config.TOKENS, *tables)

    def __getitem__(self, name: str) -> Any:
        self.fields_read |= {name}
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.fields_read |= {name}
        return super().get(name, default)

    def check_all_read(self, path: Path) -> None:
        """Raise InputError for a field that was not read, unless it is off: null, false, 0 or empty."""
        unread = [name for name in self if not name.startswith("_") and name not in self.fields_read and self[name]]
        if unread:
            raise InputError(
                f"{path} can't be used: handloom does not read its {unread[0]}, which is {short(self[unread[0]])}. If "
                "this field does not change the model's output, remove it there."
            )


#: A configuration's fields by their names in config.json, some of them with a default.
Fields = Mapping[str, str | tuple[str, Any]]


def read_fields(config: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """Return the fields of a configuration from config.json. Raises ValueError for an unknown activation."""
    values = {own: config[theirs] if isinstance(theirs, str) else config.get(*theirs) for own, theirs in fields.items()}
    if "activation" in values:
        if values["activation"] not in ACTIVATIONS:
            raise ValueError(
                f"its {fields['activation'][0]} is {values['activation']!r}, which handloom does not support; handloom "
                f"supports {', '.join(ACTIVATIONS)}"
            )
        values["activation"] = ACTIVATIONS[values["activation"]]
    return values


def written_fields(config: Any, fields: Fields) -> dict[str, Any]:
    """Return the entries of config.json for the fields of a configuration: the inverse of `read_fields`."""
    values = {own: getattr(config, own) for own in fields}
    if "activation" in values:
        values["activation"] = NAMES_OF_ACTIVATIONS[values["activation"]]
    return {theirs if isinstance(theirs, str) else theirs[0]: values[own] for own, theirs in fields.items()}


def refuse(config: dict[str, Any], **expected: Any) -> None:
    """Raise ValueError if an option of a config.json has an unsupported value; options may be missing."""
    for key, value in expected.items():
        if config.get(key, value) != value:
            raise ValueError(f"its {key} is {config[key]!r}, but handloom supports only {value!r}")


def needs(config: Any, architecture: str, problems: dict[str, bool], **fields: Any) -> None:
    """Raise InputError if a model can't be saved as `architecture`: fields of the configuration must have the values
    `fields`, and `problems` maps further problems to whether they exist.
    """
    found = [f"{name} is {getattr(config, name)!r}; only {value!r} can be saved" for name, value in fields.items()
             if getattr(config, name) != value]  # fmt: skip
    if "activation" not in fields and config.activation not in NAMES_OF_ACTIVATIONS:
        found.append(f"activation is {config.activation!r}")
    found += [problem for problem, there in problems.items() if there]
    if found:
        raise InputError(f"This model can't be saved as {architecture}: {'; '.join(found)}.")
