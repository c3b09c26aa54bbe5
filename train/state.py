"""What a model holds besides parameters and buffers: generators, and state that no save would hold."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..autograd import Generator, Parameter, Tensor, default_generator
from ..nn import Module


def generators(model: Module) -> list[Generator]:
    """Return the default generator and those of the model's layers, also in lists and dicts, once each."""
    found: dict[int, Generator] = {id(default_generator): default_generator}
    for name, value in attributes(model):
        for one in _items(value):
            if isinstance(one, np.random.Generator | np.random.RandomState | random.Random):
                kind = type(one).__name__
                raise TypeError(f"{name} is a {kind}, whose state is not saved: use a handloom.autograd.Generator")
            if isinstance(one, Generator):
                found[id(one)] = one
    return list(found.values())


def constants(model: Module) -> dict[str, np.ndarray]:
    """Return copies of the Tensors and arrays of a model's layers that are neither parameters nor buffers, by name."""
    leaves = ((name, value) for name, value in attributes(model) if not isinstance(value, Tensor) or value.is_leaf)
    arrays = ((name, value.numpy() if isinstance(value, Tensor) else value) for name, value in leaves)
    return {name: array.copy() for name, array in arrays if isinstance(array, np.ndarray)}


def check_unchanged(before: dict[str, np.ndarray], model: Module) -> None:
    """Raise TypeError if an update has changed one of the `constants`."""
    now = constants(model)
    for name, array in before.items():
        if name in now and now[name].shape == array.shape and now[name].tobytes() != array.tobytes():
            raise TypeError(
                f"{name} was changed by an update, but it is neither a Parameter nor a buffer, so no save would hold "
                "it: use register_buffer"
            )


def attributes(model: Module) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a model's layers that are neither parameters nor buffers, with their full names."""
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            if not isinstance(value, Parameter) and name not in module._buffers:
                yield f"{prefix}.{name}" if prefix else name, value


def _items(value: Any) -> Iterator[Any]:
    """Yield a value, or the values in a list, tuple or dict."""
    if isinstance(value, list | tuple | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _items(one)
    else:
        yield value
