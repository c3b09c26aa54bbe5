"""Updates that never wait for the device (flat arrays, device seeds, CUDA graphs), and their selection."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..autograd import Generator
from ..autograd.backend import GraphError, cuda_graphs, is_array, to_device
from ..autograd.ops.attention import attention_plain
from ..autograd.ops.registry import unsupported_reason
from ..autograd.quick import PLAIN
from ..errors import InputError
from ..models.hyperparameters import Settings
from ..nn import Module, MultiHeadAttention
from .distributed import ProcessGroup
from .optim.loss_scaling import LossScaler, float_constants
from .optim.optimizers import ExponentialAverage, Optimizer, flat_form
from .runs.progress import add_means, means_of
from .updates import TOKEN_UNIT, Loss, MicroBatch, Reading, Updates, check_counted, measured


class DeviceUpdates:
    """Updates that run on the device. Only `read` waits for the device.

    `optimizer`, `scaler` and `ema` hold the state that a save needs: `read` copies it from the device, and `write`
    copies it to the device. Several ranks sum their gradients in one operation, after the backward pass. `flat` is a
    FlatAdam of all parameters. `name_overflows` costs three launches for each parameter.
    """

    failed = False

    def __init__(
        self,
        flat: Any,
        model: Module,
        optimizer: Optimizer,
        settings: Settings,
        group: ProcessGroup,
        generators: Sequence[Generator],
    ):
        self.flat, self.optimizer, self.settings, self.group = flat, optimizer, settings, group
        self.model, self.generators = model, generators
        self.scaler = LossScaler() if settings.precision == "fp16" else None
        self.ema = None if settings.ema is None else ExponentialAverage(model.parameters(), settings.ema)
        self.graphs = cuda_graphs() if settings.graphs else None
        self.steps: list[list[dict[str, Any]]] = []  # since the last reading, batch by batch: `count`, means by name
        parameters = list(model.named_parameters())[::-1]  # the gradients of the last layer are computed first
        self.names: list[str | None] = [*(name for name, _ in parameters), None]
        order = {id(p): number for number, (_, p) in enumerate(parameters)}
        self.order = flat.xp.asarray(np.array([order[id(p)] for p in flat.parameters]))
        self.culprit = flat.xp.asarray(len(parameters))  # index in `names`
        self.tokens = flat.xp.zeros(1, np.float32)  # of the gradient so far
        if self.ema is not None:
            self.average = flat.weights.copy()
            own = {id(p): view for p, view in zip(flat.parameters, flat.views(self.average), strict=True)}
            self.ema.averages = [own[id(p)] for p in self.ema.parameters]
        self.write()

    def update(self, batches: Sequence[MicroBatch], loss: Loss, seed: int, lr: float) -> None:
        """Update the parameters once. See `Updates.update`."""
        flat, alone, clip_norm = self.flat, len(batches) * self.group.size == 1, self.settings.clip_norm
        run: Callable[..., dict[str, Any]] = self.graphs or (lambda name, function, given: function(given))
        found = []
        for micro in batches:
            micro.seed(self.generators, seed)
            seeds = None
            if self.graphs is not None:
                seeds = np.array([[generator.begin_calls()] for generator in self.generators], np.uint64)
            passed = partial(self._pass, loss, alone)
            found.append(run(("pass", alone), passed, (seeds, micro.batch)))
            count = found[-1]["count"]
            if not is_array(count):  # on the device: checked by `read`
                check_counted(count, micro.name)
        self.steps.append(found)
        if self.group.size > 1:
            self.tokens.fill(*self.group.sum([sum(batch["count"] for batch in found)]))
            self.group.finish_sum(self.group.start_sum(flat.gradient))
        self.optimizer.lr = lr
        name = "update", alone, clip_norm, flat.interval, flat.least
        run(name, partial(self._apply, alone, clip_norm), np.array([lr], np.float32))
        flat.mark_changed()

    def _pass(self, loss: Loss, alone: bool, given: tuple[Any, Any]) -> dict[str, Any]:
        """Add the gradient of a batch, of the sum of its losses if not `alone`; return its `count` and means."""
        seeds, batch = given
        if seeds is not None:
            for generator, seed in zip(self.generators, seeds, strict=True):
                generator.keep_seed_in(seed)
        states = [] if seeds is None else [generator.get_state()["state"] for generator in self.generators]
        with self.flat.passes():
            value, count, means = measured(loss(self.model, batch))
            self.flat.backward(value, 1.0 if alone else count / TOKEN_UNIT)
        if not alone:
            self.tokens += count
        if seeds is not None and states != [generator.get_state()["state"] for generator in self.generators]:
            raise GraphError("the passes draw random numbers on the host, which a graph would freeze")
        return {"count": count, "loss": value.data, **means}

    def _apply(self, alone: bool, clip_norm: float | None, lr: Any) -> dict[str, Any]:
        """Make the update from the gradient and token count that are on the device after the passes."""
        flat, xp = self.flat, self.flat.xp
        flat.settings[:1] = xp.asarray(lr)
        flat.settings[1:] = 1.0 if alone else np.float32(TOKEN_UNIT) / self.tokens
        self.tokens.fill(0)
        if self.settings.name_overflows:
            overflowed = flat.overflowed()
            first = xp.where(overflowed, self.order, len(self.names) - 1).min()
            self.culprit[...] = xp.where(overflowed.any(), first, self.culprit)
        flat.apply(clip_norm)
        if self.ema is not None:
            self._average_weights(self.ema.decay)
        return {}

    def _average_weights(self, decay: float) -> None:
        """Update the exponential average on the flat arrays. A step that was skipped changes nothing."""
        flat, xp = self.flat, self.flat.xp
        updates = flat.state.view(np.int32)[4].astype(np.float32)
        share = 1 - xp.minimum(np.float32(decay), (1 + updates) / (10 + updates))
        self.average += (flat.weights - self.average) * xp.where(flat.state[1] == 0, np.float32(0), share)

    def read(self) -> Reading:
        """Return the results of the steps since the last call. This waits for the device once."""
        flat, xp = self.flat, self.flat.xp
        values = [value for step in self.steps for batch in step for value in batch.values() if is_array(value)]
        # One transfer for the bits of the state, the culprit, counts and means.
        parts = [flat.state, self.culprit.astype(np.float32).reshape(1)]
        if values:
            parts.append(xp.concatenate([value.astype(np.float32).reshape(1) for value in values]))
        host, size = to_device(xp.concatenate(parts), "cpu"), len(flat.state)
        state, found = flat.read(host[:size]), iter(host[size + 1 :].tolist())
        steps = []
        for step in self.steps:
            sums = {"tokens": 0.0, "loss": 0.0}
            for batch in step:
                known = {name: next(found) if is_array(value) else value for name, value in batch.items()}
                count = known.pop("count")
                check_counted(count, "A batch of the last steps")
                add_means(sums, count, known)
            sums = dict(zip(sums, self.group.sum(list(sums.values())), strict=True))
            steps.append((sums["tokens"], means_of(sums)))
        self.steps = []
        self.failed = state["failed"] > 0
        self.optimizer.steps = int(state["steps"])
        if self.ema is not None:
            self.ema.updates = self.optimizer.steps
        if self.scaler is not None:
            scaler = self.scaler
            scaler.scale, scaler.good, scaler.skipped = state["loss_scale"], state["good"], state["skipped"]
        return Reading(state["norm"], steps, self.names[int(host[size])], self.failed)

    def write(self) -> None:
        """Copy the state of `optimizer` and `scaler` to the device, and cast the weights, as after loading a save."""
        values: dict[str, float] = {"steps": self.optimizer.steps}
        if self.scaler is not None:
            values |= {"loss_scale": self.scaler.scale, "good": self.scaler.good, "skipped": self.scaler.skipped}
            self.flat.interval, self.flat.least = self.scaler.interval, self.scaler.least
        self.flat.write_state(**values)
        self.flat.weights_changed()


def choose_updates(
    model: Module, optimizer: Optimizer, settings: Settings, group: ProcessGroup, generators: Sequence[Generator]
) -> Updates | DeviceUpdates:
    """Return DeviceUpdates if the model is on a device and Adam or AdamW trains all parameters, else `Updates`."""
    every = {id(parameter) for parameter in optimizer.parameters} == set(map(id, model.parameters()))
    device = optimizer.parameters[0].device
    if settings.precision == "bf16" and (device != "cpu" or all(p.dtype != np.float32 for p in optimizer.parameters)):
        why = "on the CPU, but the model's are float64" if device == "cpu" else "on the CPU; a GPU computes in fp16"
        raise InputError(f"precision=bf16 rounds float32 products {why}: choose another precision.")
    if settings.graphs and (device == "cpu" or group.size > 1 or PLAIN):
        where = "with HANDLOOM_PLAIN=1" if PLAIN else f"with {group.size} processes"
        where = "on the CPU" if device == "cpu" else where
        raise InputError(f"There are no CUDA graphs {where}: leave out graphs=True, or train on device=cuda, alone.")
    if settings.graphs and any(isinstance(module, MultiHeadAttention) for module in model.modules()):
        small = (to_device(np.zeros((1, 1, 1, 8), np.float16), device),) * 3
        missing = unsupported_reason(attention_plain, "fused", small, method="fused", return_weights=False)
        if missing:
            raise InputError(f"CUDA graphs need attention's fused kernel, but {missing}: leave out graphs=True.")
    if every and device != "cpu":
        flat = flat_form(optimizer, half=settings.precision == "fp16", constants=float_constants(model))
        if flat is not None:
            return DeviceUpdates(flat, model, optimizer, settings, group, generators)
    if settings.graphs:
        raise InputError(
            "CUDA graphs need Adam or AdamW over all parameters, none with requires_grad=False, with one learning rate "
            "and weight decay: leave out graphs=True, or choose the optimizer adam."
        )
    return Updates(model, optimizer, settings, group, generators)
