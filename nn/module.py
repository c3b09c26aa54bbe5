"""Module: named parameters and submodules, with a state dict for saving and loading.

There is no registration: a module's parameters are its attributes of type Parameter, and its submodules are its
attributes of type Module, in the order in which they were set.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from ..autograd import Parameter, Tensor
from ..autograd.backend import native, to_device

_COLLECTIONS = (list, tuple, dict, set, frozenset, deque)


class Module:
    """The base class of layers and models, which set parameters in `__init__` and define `forward`."""

    training: bool = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(vars(self).get(name), Parameter) and not isinstance(value, Parameter | Module | None):
            raise TypeError(
                f"{type(self).__name__}.{name} is a Parameter, and a value of type {type(value).__name__} in its place "
                "would be neither trained nor saved: change the Parameter under no_grad(), or assign a new Parameter"
            )
        super().__setattr__(name, value)

    # -- submodules and parameters -------------------------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """Yield the direct submodules with their names. Raises TypeError for modules or parameters in lists, tuples,
        dictionaries (as keys, too), sets or deques, which would not be trained or saved.
        """
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value
            elif isinstance(value, _COLLECTIONS) and _holds_modules(value):
                raise TypeError(
                    f"{type(self).__name__}.{name} is a {type(value).__name__}, whose modules and parameters would "
                    "not be trained or saved: use a ModuleList, or an attribute for each of them"
                )

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, "Module"]]:
        """Yield a dotted name and the module for this module (its name is "") and all modules below it."""
        yield prefix, self
        for name, child in self.named_children():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator["Module"]:
        return (module for _, module in self.named_modules())

    def _named_tensors(self, kind: type[Tensor]) -> Iterator[tuple[str, Any]]:
        for prefix, module in self.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, kind):
                    yield (f"{prefix}.{name}" if prefix else name), value
                elif isinstance(value, Tensor) and value.requires_grad and value.is_leaf:
                    raise TypeError(
                        f"{type(module).__name__}.{name} is a Tensor that requires a gradient, which would be neither "
                        "trained nor saved: make it a Parameter"
                    )

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Yield every parameter's name and value; one that modules share comes once, under its first name. Raises
        TypeError for another leaf that requires a gradient, which would not be trained or saved.
        """
        seen: set[int] = set()
        for name, parameter in self._named_tensors(Parameter):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter

    def parameters(self) -> Iterator[Parameter]:
        return (parameter for _, parameter in self.named_parameters())

    def parameter_count(self) -> int:
        """Return the number of trainable scalars. A shared parameter is counted once."""
        return sum(parameter.size for parameter in self.parameters() if parameter.requires_grad)

    # -- modes -------------------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set training mode (dropout on) for this module and all below it."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Set evaluation mode (dropout off) for this module and all below it."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Drop all gradients."""
        for parameter in self.parameters():
            parameter.grad = None

    def to(self, device: str) -> Self:
        """Move all parameters, gradients and constant tensors of this module to `device`. Raises DeviceError."""
        for _, tensor in self._named_tensors(Tensor):
            tensor.data = to_device(tensor.data, device)
            if tensor.grad is not None:
                tensor.grad = to_device(tensor.grad, device)
        return self

    def astype(self, dtype: Any) -> Self:
        """Cast all floating-point parameters and constant tensors of this module, and drop the gradients."""
        for _, tensor in self._named_tensors(Tensor):
            if tensor.dtype.kind == "f":
                tensor.data, tensor.grad = native(tensor.data.astype(dtype)), None
        return self

    # -- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the parameter arrays by name, on the CPU. Names and layouts are PyTorch's. A shared parameter is
        listed under all its names. The arrays share memory with the parameters; to keep their values, copy them.
        """
        arrays: dict[int, np.ndarray] = {}
        return {
            name: arrays.setdefault(id(parameter), parameter.numpy())
            for name, parameter in self._named_tensors(Parameter)
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy each array into the parameter of the same name. Raises ValueError, before any change, unless all names
        and shapes agree, and all arrays for a shared parameter are equal.
        """
        own = dict(self._named_tensors(Parameter))
        problems = [f"{name} is missing" for name in own if name not in state]
        problems += [f"{name} is not part of this {type(self).__name__}" for name in state if name not in own]
        for name, parameter in own.items():
            if name in state and tuple(np.shape(state[name])) != parameter.shape:
                problems.append(f"{name} has shape {tuple(np.shape(state[name]))} instead of {parameter.shape}")
        first: dict[int, str] = {}
        for name, parameter in own.items() if not problems else ():
            other = first.setdefault(id(parameter), name)
            if state[name] is not state[other] and not np.array_equal(state[name], state[other], equal_nan=True):
                problems.append(f"{other} and {name} differ, but are one parameter here")
        if problems:
            more = f", and {len(problems) - 3} more" if len(problems) > 3 else ""
            raise ValueError(f"these weights don't fit this model: {'; '.join(problems[:3])}{more}")
        arrays = {name: np.asarray(state[name]).astype(own[name].dtype, copy=False) for name in own}
        held = [parameter.data for parameter in own.values() if isinstance(parameter.data, np.ndarray)]
        for name, array in arrays.items():
            if array is not own[name].data and any(np.may_share_memory(array, other) for other in held):
                arrays[name] = array.copy()  # or loading another parameter might change it
        for name, parameter in own.items():
            parameter.data[...] = to_device(arrays[name], parameter.device)
            parameter.mark_changed()

    # -- display -------------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Return the text of the module's options for `repr`."""
        return ""

    def __repr__(self) -> str:
        children = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self.named_children()]
        inside = ([self.extra_repr()] if self.extra_repr() else []) + children
        if not children:
            return f"{type(self).__name__}({self.extra_repr()})"
        return f"{type(self).__name__}(\n  " + "\n  ".join(inside) + "\n)"


def _holds_modules(value: Any) -> bool:
    """Return whether a value is a module or a parameter, or a collection that holds one."""
    if isinstance(value, _COLLECTIONS):
        return any(map(_holds_modules, (*value, *value.values()) if isinstance(value, dict) else value))
    return isinstance(value, Module | Parameter)


class ModuleList(Module):
    """A sequence of submodules, named "0", "1", ... Raises TypeError for what is not a Module."""

    def __init__(self, modules: Sequence[Module] = ()):
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> None:
        if not isinstance(module, Module):
            kind = getattr(module, "__name__", type(module).__name__)
            raise TypeError(f"{type(self).__name__} needs modules, not {kind}: give an instance of a Module")
        setattr(self, str(len(self)), module)

    def __len__(self) -> int:
        return sum(1 for _ in self.named_children())

    def __iter__(self) -> Iterator[Any]:
        return (module for _, module in self.named_children())

    def __getitem__(self, index: int) -> Any:
        return list(self)[index]


class Sequential(ModuleList):
    """A sequence of submodules that are applied one after the other. Raises TypeError for what is not a Module."""

    def __init__(self, *modules: Module):
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        for module in self:
            x = module(x)
        return x
