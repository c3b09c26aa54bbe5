"""Names and layouts of model parameters in the files of Hugging Face's `transformers`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...autograd import ops
from ...errors import InputError

Entries = Iterator["Entry"]


@dataclass(frozen=True)
class Entry:
    """A parameter of handloom, and the corresponding tensors in a file of `transformers`.

    Attributes:
        own: the parameter's name in handloom's state dict.
        theirs: the tensors' names in the file; several tensors are concatenated along the parameter's first axis.
        shapes: the tensors' shapes, according to the configuration.
        transposed: whether the tensors are stored as (in_features, out_features).
        aliases: other names under which a copy of the tensor may be stored.
        optional: whether the tensor may be missing; the parameter is then set to zero, or keeps its initial value in a
            new output layer.
    """

    own: str
    theirs: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    transposed: bool = False
    aliases: tuple[str, ...] = ()
    optional: bool = False

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


def table(own: str, theirs: str, *shape: int, aliases: tuple[str, ...] = ()) -> Entry:
    return Entry(own, (theirs,), (shape,), aliases=aliases)


def linear(
    own: str, theirs: str | tuple[str, ...], outs: int | tuple[int, ...], ins: int, *, bias: bool = True,
    transposed: bool = False,
) -> Entries:  # fmt: skip
    """Yield the entries of a linear layer's weight and bias.
    `theirs` can name several linear layers of `transformers`, which are one layer in handloom.
    """
    names = (theirs,) if isinstance(theirs, str) else theirs
    sizes = (outs,) if isinstance(outs, int) else outs
    weights = tuple((ins, out) if transposed else (out, ins) for out in sizes)
    yield Entry(_weight(own, "weight"), tuple(f"{n}.weight" for n in names), weights, transposed)
    if bias:
        yield Entry(_weight(own, "bias"), tuple(f"{n}.bias" for n in names), tuple((out,) for out in sizes))


def _weight(own: str, kind: str) -> str:
    """Return `own.weight`. In attention layers, the name is in_proj_weight."""
    return f"{own}_{kind}" if own.endswith("in_proj") else f"{own}.{kind}"


def norm(own: str, theirs: str, features: int, *, bias: bool = True) -> Entries:
    yield table(f"{own}.weight", f"{theirs}.weight", features)
    if bias:
        yield table(f"{own}.bias", f"{theirs}.bias", features)


# The names that `transformers` uses for handloom's activations, and the name that is written for each.
ACTIVATIONS = {theirs: name for name, row in ops.ACTIVATIONS.items() for theirs in row.names}
NAMES_OF_ACTIVATIONS = {name: row.names[0] for name, row in ops.ACTIVATIONS.items() if row.names}


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
    """Raise InputError if a model can't be saved as `architecture`, with a list of the problems. Fields of the
    configuration must have the values `fields`. `problems` maps further problems to whether they exist.
    """
    found = [f"{name} is {getattr(config, name)!r}; only {value!r} can be saved" for name, value in fields.items()
             if getattr(config, name) != value]  # fmt: skip
    if "activation" not in fields and config.activation not in NAMES_OF_ACTIVATIONS:
        found.append(f"activation is {config.activation!r}")
    found += [problem for problem, there in problems.items() if there]
    if found:
        raise InputError(f"This model can't be saved as {architecture}: {'; '.join(found)}.")
