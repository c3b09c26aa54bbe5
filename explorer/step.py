"""A recorded training step on one text, with the calls that lead to the loss, their modules, values and gradients."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..autograd import Generator, Tensor, default_generator, no_grad
from ..autograd.origin import Leaf
from ..nn import Module
from .recording import RecordedCall, record, running_modules


@dataclass
class StepCall:
    """One call that leads to the loss.

    Attributes:
        number: index of the call in the step, in the order of the forward pass.
        seen: record of the call.
        module: names of the call's module and of the modules that contain it, outermost first, such as ("encoder",
            "layers.0", "norm1").
        sources: for each operand that requires a gradient, the number of the call that computed it, or the name of a
            parameter; None for other operands.
    """

    number: int
    seen: RecordedCall
    module: tuple[str, ...]
    sources: list[int | str | None]

    @property
    def name(self) -> str:
        return self.seen.call.name

    @property
    def parameters(self) -> list[str]:
        return [source for source in self.sources if isinstance(source, str)]


@dataclass
class RecordedStep:
    """A recorded step.

    It has the calls, the loss in nats per token, the gradient of each parameter that was used, and the loss without
    dropout.
    """

    calls: list[StepCall]
    loss: float
    gradients: dict[str, np.ndarray]
    evaluated: float


def recorded_step(model: Module, loss_of: Callable[[], Tensor]) -> RecordedStep:
    """Run forward and backward pass of `loss_of()` in training mode; the random generators keep their states."""
    layers = [value for module in model.modules() for value in vars(module).values()]
    generators = [default_generator, *(value for value in layers if isinstance(value, Generator))]
    held = [generator.get_state() for generator in generators]
    names: dict[int, list[str]] = {}
    for module_name, module in model.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor) and value.requires_grad:
                names.setdefault(id(value), []).append(f"{module_name}.{name}" if module_name else name)
    model.zero_grad()
    model.train()
    try:
        with running_modules(model) as running, record(lambda: running[-1] if running else "") as recording:
            loss = loss_of()
            loss.backward(retain_graph=True)
        own = model.named_parameters()
        gradients = {name: tensor.grad.copy() for name, tensor in own if tensor.grad is not None}
    finally:
        model.eval().zero_grad()
        for generator, state in zip(generators, held, strict=True):
            generator.set_state(state)
    # The backward pass does not reach calls that do not lead to the loss, such as an accuracy.
    reached = (one for one in recording.calls if one.output_gradients is not None)
    seen = sorted(reached, key=lambda one: one.call.number)
    numbers = {id(one.call): number for number, one in enumerate(seen)}
    calls = [StepCall(number, one, (), _sources(one, numbers, names)) for number, one in enumerate(seen)]
    for call in calls:
        call.module = _module_of(model, call, names)
    with no_grad():
        return RecordedStep(calls, loss.item(), gradients, loss_of().item())


def _sources(seen: RecordedCall, numbers: dict[int, int], names: dict[int, list[str]]) -> list[int | str | None]:
    sources: list[int | str | None] = []
    for origin in seen.call.inputs:
        if origin is None:
            sources.append(None)
        elif isinstance(origin, Leaf):
            sources.append(names.get(id(origin.tensor()), ["a tensor"])[0])
        else:
            sources.append(numbers[id(origin.node)])
    return sources


def _module_of(model: Module, call: StepCall, names: dict[int, list[str]]) -> tuple[str, ...]:
    """Return the module that made the call, or the module in it to which most of the call's parameters belong.

    A module can use parameters of modules in it without calling them, as in `norm.after` or a fused feed-forward
    network.
    """
    running = call.seen.label
    inside = f"{running}." if running else ""
    owners: Counter[str] = Counter()
    for origin in call.seen.call.inputs:
        if isinstance(origin, Leaf):
            for name in names.get(id(origin.tensor()), []):
                owner = name.rpartition(".")[0]
                if owner.startswith(inside):
                    owners[owner] += 1
    # The last of several names counts: a table that is tied to the output layer comes first under another name.
    most = max(owners.values(), default=0)
    several = len({name.rpartition(".")[0] for name in call.parameters}) > 1
    best = next((name for name, count in reversed(owners.items()) if count == most), running)
    name = running if several and running else best
    return tuple(re.split(r"\.(?!\d)", name)) if name else ()  # a number stays with the name before it: layers.0
