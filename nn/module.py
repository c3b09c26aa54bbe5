"""Module: named parameters and submodules, with a state dict for saving and loading.

A module's parameters are its attributes of type Parameter, and its submodules are its attributes of type Module, in the
order in which they were set; they need no registration. A constant Tensor that belongs to the state, such as a running
mean, is registered by `register_buffer`.
"""

import functools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self, TypeGuard, TypeVar

import numpy as np

from ..autograd import Parameter, Tensor
from ..autograd.backend import native, to_device
from ..autograd.tensor import HookHandle
from ..kinds import checked, checked_op
from .summary import rows_of, summary

_PACKAGE = __name__.partition(".")[0] + "."
_COLLECTIONS = (list, tuple, dict, set, frozenset, deque)


_FLOAT64 = np.dtype(np.float64)


class IncompatibleKeys(NamedTuple):
    """The names that `load_state_dict(strict=False)` ignored."""

    missing_keys: list[str]
    unexpected_keys: list[str]


@checked
class Module:
    """The base class of layers and models, which set parameters in `__init__` and define `forward`."""

    training: bool = True
    #: Whether a layer with its own `forward` treats each position alone; then generation calls it with new tokens only.
    position_wise: bool = False
    _forward_hooks: tuple[HookHandle, ...] = ()
    _buffers: frozenset[str] = frozenset()  # names of Tensors that belong to the state
    _handloom: ClassVar[tuple[type["Module"], Any]]  # the nearest base class that is handloom's, and its `forward`

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith(_PACKAGE):
            cls._handloom = cls, cls.forward
            if "__init__" in vars(cls):
                cls.__init__ = checked_op(cls.__init__, always=True)  # type: ignore[method-assign]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self.forward(*args, **kwargs)
        for handle in self._forward_hooks:
            result = handle.hook(self, args, output)
            output = output if result is None else result
        first = output[0] if type(output) is tuple and output else output
        if type(first) is Tensor and first.data.dtype == _FLOAT64:
            self._refuse_float64(args)
        return output

    def _refuse_float64(self, args: tuple[Any, ...]) -> None:
        """Raise TypeError if the layer's own parameters are narrower than its float64 result."""
        dtype = next((p.dtype for p in vars(self).values() if isinstance(p, Parameter) and p.dtype != _FLOAT64), None)
        if dtype is not None:
            given = " and ".join(
                dict.fromkeys(str(getattr(x, "dtype", type(x).__name__)) for x in args if x is not None)
            )
            raise TypeError(
                f"{type(self).__name__}: {given} with parameters of {dtype} would give a float64 result: cast the "
                f"input, x.astype('{dtype}'), or the layer, layer.astype('float64')"
            )

    def register_forward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call `hook(module, args, output)` after each call of `forward`; a result that is not None replaces the
        output. The hook ends with `remove()` of the returned handle.
        """

        def remove() -> None:
            self._forward_hooks = tuple(one for one in self._forward_hooks if one is not handle)

        handle = HookHandle(hook, remove)
        self._forward_hooks = (*self._forward_hooks, handle)
        return handle

    def register_buffer(self, name: str, value: Any, persistent: bool = True) -> None:
        """Set the attribute `name` to `value`, a Tensor, an array or None, as a part of the state that is not trained.

        A persistent buffer is in `state_dict`. Other constant Tensors move with the module and are not saved. A later
        Tensor assigned to the attribute is the buffer's new value. Raises ValueError for a name that is in use.
        """
        if hasattr(self, name) or not name.isidentifier():
            raise ValueError(f"register_buffer: {type(self).__name__} can't have a new attribute {name!r}")
        if persistent:
            self._buffers = self._buffers | {name}
        setattr(self, name, value if value is None or isinstance(value, Tensor) else Tensor(value))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._buffers and not isinstance(value, Tensor | None):
            raise TypeError(
                f"{type(self).__name__}.{name} is a buffer: assign a Tensor or None, not {type(value).__name__}"
            )
        if isinstance(vars(self).get(name), Parameter) and not isinstance(value, Parameter | Module | None):
            raise TypeError(
                f"{type(self).__name__}.{name} is a Parameter, and a value of type {type(value).__name__} in its place "
                "would be neither trained nor saved: change the Parameter under no_grad(), or assign a new Parameter"
            )
        if isinstance(value, Module) and _contains(value, self):
            raise ValueError(
                f"{type(self).__name__}.{name} contains this {type(self).__name__}: a module can't be part of itself. "
                "Hold the outer module by a weakref.ref or a function"
            )
        if isinstance(value, Module) and (lost := _positions(vars(self).get(name))) and not _positions(value):
            raise ValueError(
                f"{type(self).__name__}.{name} has {lost} in its attention, which the {type(value).__name__} in its "
                "place has not: set the attribute position_scores of the new module and apply it, or set the old one "
                "to None first"
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

    def children(self) -> Iterator["Module"]:
        return (child for _, child in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, "Module"]]:
        """Yield a dotted name and the module for this module (its name is "") and all modules below it."""
        yield prefix, self
        for name, child in self.named_children():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator["Module"]:
        return (module for _, module in self.named_modules())

    def apply(self, function: Callable[["Module"], Any]) -> Self:
        """Call `function` with each module below this one and then with this one; return this module."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def _named_tensors(self, kind: type[Tensor], buffers: bool = False) -> Iterator[tuple[str, Any]]:
        """Yield the Tensors of a kind and, if `buffers` is true, persistent buffers, with their names."""
        for prefix, module in self.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, kind) or (buffers and name in module._buffers and value is not None):
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

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Train all parameters of this module, or keep them fixed; return this module."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

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
        """Cast all floating-point parameters and constant tensors of this module, and drop the gradients.
        Raises TypeError unless `dtype` is a floating dtype.
        """
        if np.dtype(dtype).kind != "f":
            raise TypeError(f"astype: {np.dtype(dtype)} is no floating dtype")
        for _, tensor in self._named_tensors(Tensor):
            if tensor.dtype.kind == "f":
                tensor.data, tensor.grad = native(tensor.data.astype(dtype)), None
        return self

    # -- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the arrays of the parameters and buffers by name, on the CPU. Names and layouts are PyTorch's. A
        shared parameter is listed under all its names. The arrays share memory with the parameters; to keep their
        values, copy them.
        """
        arrays: dict[int, np.ndarray] = {}
        return {
            name: arrays.setdefault(id(tensor), tensor.numpy())
            for name, tensor in self._named_tensors(Parameter, buffers=True)
        }

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Copy each array into the parameter or buffer of the same name. Raises ValueError, before any change, unless
        all names and shapes agree, and all arrays for a shared parameter are equal. If `strict` is false, names that
        only one side has are ignored and returned.
        """
        tensors = dict(self._named_tensors(Parameter, buffers=True))
        ignored = IncompatibleKeys(
            [name for name in tensors if name not in state], [name for name in state if name not in tensors]
        )
        problems = [f"{name} is missing" for name in ignored.missing_keys if strict]
        problems += [f"{name} is not part of this {type(self).__name__}" for name in ignored.unexpected_keys if strict]
        tensors = {name: tensor for name, tensor in tensors.items() if name in state or strict}
        for name, parameter in tensors.items():
            if name in state and tuple(np.shape(state[name])) != parameter.shape:
                problems.append(f"{name} has shape {tuple(np.shape(state[name]))} instead of {parameter.shape}")
        first: dict[int, str] = {}
        for name, parameter in tensors.items() if not problems else ():
            other = first.setdefault(id(parameter), name)
            if state[name] is not state[other] and not np.array_equal(state[name], state[other], equal_nan=True):
                problems.append(f"{other} and {name} differ, but are one parameter here")
        if problems:
            more = f", and {len(problems) - 3} more" if len(problems) > 3 else ""
            raise ValueError(f"these weights don't fit this model: {'; '.join(problems[:3])}{more}")
        arrays = {name: np.asarray(state[name]).astype(tensors[name].dtype, copy=False) for name in tensors}
        held = [parameter.data for parameter in tensors.values() if isinstance(parameter.data, np.ndarray)]
        for name, array in arrays.items():
            if array is not tensors[name].data and any(np.may_share_memory(array, other) for other in held):
                arrays[name] = array.copy()  # or loading another parameter might change it
        for name, parameter in tensors.items():
            array = to_device(arrays[name], parameter.device)
            if isinstance(parameter, Parameter):
                parameter.data[...] = array
            else:  # a buffer's array can be read-only, as results of operations are
                parameter.data = array.copy()
            parameter.mark_changed()
        return ignored

    # -- display -------------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Return the text of the module's options for `repr`."""
        return ""

    def summary(self) -> str:
        """Return a tree of the modules below this one, with the shapes and sizes of their parameters, and totals."""
        return summary(self)

    def _repr_html_(self) -> str:
        from ..notebook import tree

        return tree(rows_of(self))

    def __repr__(self) -> str:
        children = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self.named_children()]
        if type(self).extra_repr is Module.extra_repr:  # a layer that describes itself implies its Parameters
            tensors = {name: tensor for name, tensor in vars(self).items() if isinstance(tensor, Tensor)}
            children = [f"({name}): {type(x).__name__}{x.shape}" for name, x in tensors.items()] + children
        inside = ([self.extra_repr()] if self.extra_repr() else []) + children
        if not children:
            return f"{type(self).__name__}({self.extra_repr()})"
        return f"{type(self).__name__}(\n  " + "\n  ".join(inside) + "\n)"


Module._handloom = Module, Module.forward
M = TypeVar("M", bound=Module)


@checked
def functional_call(
    module: Module, parameters: Mapping[str, Any], args: Any = (), kwargs: Mapping[str, Any] | None = None
) -> Any:
    """Return `module(*args, **kwargs)`, computed with the Tensors `parameters` instead of the parameters and buffers of
    these names, to which gradients flow. A shared parameter is replaced in all its places; `args` that is no tuple is
    the only argument. Raises ValueError for a name or shape that the module does not have, or for two values for a
    shared parameter.
    """
    own = dict(module._named_tensors(Parameter, buffers=True))
    given: dict[int, tuple[str, Any]] = {}
    for name, value in parameters.items():
        if name not in own or tuple(np.shape(value)) != own[name].shape:
            known = f"has the shape {own[name].shape}, not {np.shape(value)}" if name in own else "does not exist"
            raise ValueError(f"functional_call: {name} of {type(module).__name__} {known}")
        other, first = given.setdefault(id(own[name]), (name, value))
        if value is not first:
            raise ValueError(f"functional_call: {other} and {name} are one parameter here, but have two values")
    new = {key: value if isinstance(value, Tensor) else Tensor(value) for key, (_, value) in given.items()}
    places = [(vars(part), key, old) for part in module.modules() for key, old in vars(part).items() if id(old) in new]
    try:
        for values, key, old in places:
            values[key] = new[id(old)]
        return module(*args if isinstance(args, tuple) else (args,), **kwargs or {})
    finally:
        for values, key, old in places:
            values[key] = old


def computes_as(module: Any, kind: type[M], hooks: bool = True) -> TypeGuard[M]:
    """Return whether a call of `module` computes exactly what handloom's class `kind` defines, so that an op may use
    its parameters instead of calling it: no class, object or (unless `hooks` is false) hook has replaced `forward`.
    """
    cls = type(module)
    return (
        isinstance(module, kind)
        and cls.forward is kind._handloom[1]
        and cls.__call__ is Module.__call__
        and ("forward" not in vars(module) or getattr(module.forward, "only_observes", False))
        and not (hooks and module._forward_hooks)
    )


@functools.cache
def _methods(base: type[Module]) -> frozenset[str]:
    """Return the names of the methods that one of handloom's classes has in addition to those of Module."""
    return frozenset(name for name in dir(base) if not hasattr(Module, name) and callable(getattr(base, name)))


def replaced_methods(module: Module, hooks: bool = True) -> set[str]:
    """Return the names of the methods of handloom's class that a class derived from it, or the object, replaces; among
    them "forward" unless `computes_as` is true.
    """
    cls = type(module)
    base, _ = cls._handloom
    methods = _methods(base)  # type: ignore[arg-type]
    replaced = set(methods.intersection(vars(module)))
    for derived in cls.__mro__[: cls.__mro__.index(base)]:
        replaced |= methods.intersection(vars(derived))
    return replaced if computes_as(module, base, hooks) else {*replaced, "forward"}


def _positions(module: Any) -> str:
    """Return the kind of positions in the attention of a module or of a module below it, or "" if there are none."""
    modules = module.modules() if isinstance(module, Module) else ()
    positions = (getattr(inner, "position_scores", None) for inner in modules)
    return next((type(scores).__name__ for scores in positions if scores is not None), "")


def _contains(module: Module, other: Module) -> bool:
    """Return whether `other` is `module` or a module below it."""
    return module is other or any(_contains(x, other) for x in vars(module).values() if isinstance(x, Module))


def _holds_modules(value: Any) -> bool:
    """Return whether a value is a module or a parameter, or a collection that holds one."""
    if isinstance(value, _COLLECTIONS):
        return any(map(_holds_modules, (*value, *value.values()) if isinstance(value, dict) else value))
    return isinstance(value, Module | Parameter)
