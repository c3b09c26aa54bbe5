"""Modules that hold a list or a dictionary of modules or parameters, and a chain of modules."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from ..autograd import Parameter
from .module import Module


class ModuleList(Module):
    """A sequence of submodules, named "0", "1", ... Raises TypeError for what is not a Module."""

    def __init__(self, modules: Sequence[Any] = ()):
        for module in modules:
            self.append(module)

    def _entry(self, value: Any) -> Any:
        if not isinstance(value, Module):
            given = getattr(value, "__name__", type(value).__name__)
            raise TypeError(f"{type(self).__name__} needs modules, not {given}: give an instance of a Module")
        return value

    def append(self, module: Any) -> None:
        setattr(self, str(len(self)), self._entry(module))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Any]:
        return (value for name, value in vars(self).items() if name.isdecimal())

    def __getitem__(self, index: int) -> Any:
        return list(self)[index]

    def __setitem__(self, index: int, module: Any) -> None:
        setattr(self, str(range(len(self))[index]), self._entry(module))


class ParameterList(ModuleList):
    """A sequence of Parameters, named "0", "1", ...; other values are converted to Parameters."""

    def __init__(self, values: Sequence[Any] = ()):
        super().__init__(values)

    def _entry(self, value: Any) -> Parameter:
        return value if isinstance(value, Parameter) else Parameter(value)


class Lambda(Module):
    """A plain function as a module."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)

    def extra_repr(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


class Sequential(ModuleList):
    """A sequence of submodules or functions that are applied one after the other. Raises TypeError for other values."""

    def __init__(self, *modules: Module | Callable[..., Any]):
        super().__init__(modules)

    def _entry(self, value: Any) -> Any:
        function = callable(value) and not isinstance(value, Module | type)
        return Lambda(value) if function else super()._entry(value)

    def forward(self, x: Any) -> Any:
        for module in self:
            x = module(x)
        return x


class ModuleDict(Module, MutableMapping[str, Any]):
    """A dictionary of submodules, whose names are its keys. Raises TypeError for what is not a Module, and KeyError for
    a key that is not a text or is the name of a method.
    """

    __eq__, __hash__ = Module.__eq__, Module.__hash__

    def __init__(self, modules: Mapping[str, Module] | None = None):
        self.update(modules or {})

    def __setitem__(self, key: str, module: Module) -> None:
        if not isinstance(module, Module):
            raise TypeError(f"ModuleDict needs modules, not {type(module).__name__}: give an instance of a Module")
        if not isinstance(key, str) or not key or "." in key or hasattr(type(self), key):
            raise KeyError(f"ModuleDict: {key!r} can't be the name of a module: choose another text without dots")
        setattr(self, key, module)

    def __getitem__(self, key: str) -> Any:
        return dict(self.named_children())[key]

    def __delitem__(self, key: str) -> None:
        self[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(dict(self.named_children()))

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.named_children())
