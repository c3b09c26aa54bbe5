"""One update after the other: passes, gradients of all ranks, clipping, loss scale, optimiser, average of weights.

`HostUpdates` reads the loss and the gradient's norm of every step; `DeviceUpdates`, with the same interface, leaves all
of it on the device until it is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..autograd import Generator
from ..autograd.backend import is_array, to_device
from ..autograd.engine import backward
from ..autograd.graphs import GraphError, Graphs
from ..autograd.kernels.attention import device_kernels
from ..autograd.kernels.update import read_state
from ..errors import InputError
from ..nn import Module, MultiHeadAttention
from .distributed import GradientSum, Ranks
from .optim.averaging import ExponentialAverage
from .optim.flat_adam import FlatAdam, flat_form
from .optim.loss_scaling import HalfPrecision, LossScaler, first_overflow, float_constants
from .optim.optimizers import Optimizer, clip_grad_norm

# With several batches an update, each one's gradient is of its summed loss over this many tokens; what is missing to
# the mean is made up for at the end. A power of two: it rounds nothing.
_TOKEN_UNIT = 1024

#: A batch -> its loss, its tokens and, if one likes, further means over them by name: see `trainer.Loss`.
Compute = Callable[[Any], tuple[Any, ...]]
#: What happens before each batch: generators are seeded for its place in the data.
Prepare = Callable[["MicroBatch"], None]


class MicroBatch(NamedTuple):
    """A batch and its place in the data."""

    epoch: int
    position: int
    batch: Any


def check_counted(count: float, what: str) -> None:
    """Raise InputError for a batch whose loss is a mean over nothing: it is no number, and would train nothing."""
    if not count:
        raise InputError(f"{what} has no targets, so that its loss is a mean over nothing: leave such batches out.")


class Reading(NamedTuple):
    """What has happened since the last reading.

    Attributes:
        norm: of the last gradient, before clipping.
        steps: each step's tokens and the means over them.
        overflowed: the parameter whose gradient was the first to overflow, the last time that one did, if it is known.
        failed: a gradient overflowed at the least loss scale, or in float32: there is nothing left to try.
    """

    norm: float
    steps: list[tuple[float, dict[str, float]]]
    overflowed: str | None
    failed: bool


class HostUpdates:
    """Updates that know at once how they went.

    Args:
        model, optimizer, scaler, ema, ranks: the Trainer's.
        name_overflows: find the parameter whose gradient overflowed first in each step that is skipped.
    """

    def __init__(
        self,
        model: Module,
        optimizer: Optimizer,
        scaler: LossScaler | None,
        ema: ExponentialAverage | None,
        ranks: Ranks,
        name_overflows: bool = False,
    ):
        self.model, self.optimizer, self.scaler, self.ema, self.ranks = model, optimizer, scaler, ema, ranks
        self.name_overflows = name_overflows
        self.half = None if scaler is None else HalfPrecision(model)
        self.gradient_sum = GradientSum(optimizer.parameters, ranks) if ranks.size > 1 else None
        self.norm, self.failed = math.nan, False
        self.overflowed: str | None = None
        self.steps: list[tuple[float, dict[str, float]]] = []

    def update(
        self, batches: Sequence[MicroBatch], prepare: Prepare, compute: Compute, lr: float, clip_norm: float | None
    ) -> None:
        """One update from `batches`, unless a gradient overflows.

        Args:
            prepare, compute: what happens before each batch; what gives its loss.
            lr, clip_norm: learning rate, and the bound on the gradient's norm.
        """
        self.optimizer.zero_grad()
        sums, tokens, scale = self._gradients(batches, prepare, compute)
        self.norm = clip_grad_norm(self.optimizer.parameters, clip_norm, scale=scale)
        means = {name: value / tokens for name, value in sums.items()}
        self.steps.append((tokens, means))
        finite = math.isfinite(self.norm) and math.isfinite(means["loss"])
        self.failed = not finite and (self.scaler is None or self.scaler.scale <= self.scaler.least)
        if not finite and (self.failed or self.name_overflows):
            self.overflowed = first_overflow(self.model.named_parameters())
        self.optimizer.lr = lr
        if self.scaler is not None and not self.failed:
            self.scaler.update(finite)
        if finite:
            self.optimizer.step()
            if self.ema is not None:
                self.ema.update()

    def _gradients(
        self, batches: Sequence[MicroBatch], prepare: Prepare, compute: Compute
    ) -> tuple[dict[str, float], float, float]:
        """Leave in the parameters the gradient of the batches of all ranks, but for a factor.

        Returns the sums over tokens by name, the tokens, and the factor that is missing to the gradient of the mean.
        """
        alone = len(batches) * self.ranks.size == 1
        loss_scale = 1.0 if self.scaler is None else float(self.scaler.scale)
        tokens, sums = 0.0, {"loss": 0.0}
        if self.half is not None:
            self.half.cast()
        for batch in batches:
            ready = None
            if self.gradient_sum is not None and self.half is None and batch is batches[-1]:
                self.gradient_sum.begin()
                ready = self.gradient_sum.ready
            with nullcontext() if self.half is None else self.half.passes():
                prepare(batch)
                loss, count, *more = compute(batch.batch)
                count = float(count)  # a NumPy number would widen what it is multiplied with
                check_counted(count, f"Batch {batch.position + 1} of epoch {batch.epoch + 1}")
                share = 1.0 if alone else count / _TOKEN_UNIT
                # In float16 an overflow is what the loss scale is there for: no warning.
                with np.errstate(over="ignore", invalid="ignore") if self.half else nullcontext():
                    backward(loss, loss_scale * share, ready=ready)
            tokens += count
            for name, mean in {"loss": loss.item(), **(more[0] if more else {})}.items():
                sums[name] = sums.get(name, 0.0) + float(mean) * count
        if self.gradient_sum is not None:
            if self.half is not None:
                self.gradient_sum.begin()
            self.gradient_sum.finish()
        tokens, *values = self.ranks.sum([tokens, *sums.values()])
        return dict(zip(sums, values, strict=True)), tokens, (1.0 if alone else _TOKEN_UNIT / tokens) / loss_scale

    def read(self) -> Reading:
        """What has happened since the last call."""
        steps, self.steps = self.steps, []
        return Reading(self.norm, steps, self.overflowed, self.failed)

    def write(self) -> None:
        """Follow weights, `optimizer` and `scaler`, which a save may have set: nothing to do."""


class DeviceUpdates:
    """Updates that stay on the device: `read` alone waits for it.

    `optimizer`, `scaler` and `ema` keep what a save needs: `read` brings them up to date, `write` follows them. Several
    ranks sum their gradients in one piece, after the backward pass.

    Args:
        flat: all parameters, in flat arrays.
        model, optimizer, scaler, ema, ranks: the Trainer's.
        name_overflows: find out in each step whose gradient overflowed first; costs three launches a parameter.
        generators: what the passes draw random numbers from.
        graphs: launch each pass and each update as a CUDA graph, see `autograd.graphs`. The loss gets its batch on the
            device.
    """

    failed = False

    def __init__(
        self,
        flat: FlatAdam,
        model: Module,
        optimizer: Optimizer,
        scaler: LossScaler | None,
        ema: ExponentialAverage | None,
        ranks: Ranks,
        name_overflows: bool = False,
        generators: Sequence[Generator] = (),
        graphs: bool = False,
    ):
        self.flat, self.optimizer, self.scaler, self.ema, self.ranks = flat, optimizer, scaler, ema, ranks
        self.name_overflows, self.generators = name_overflows, generators
        self.graphs = Graphs() if graphs else None
        self.steps: list[list[dict[str, Any]]] = []  # since the last reading, batch by batch: `count`, means by name
        self.names: list[str | None] = [name for name, _ in reversed(list(model.named_parameters()))]
        # For each of the flat form's parameters, how early its gradient comes: they come from the model's end.
        places = {id(p): place for place, (_, p) in enumerate(reversed(list(model.named_parameters())))}
        self.places = flat.xp.asarray(np.array([places[id(p)] for p in flat.parameters]))
        self.culprit = flat.xp.asarray(len(self.names))
        self.names.append(None)
        self.tokens = flat.xp.zeros(1, np.float32)  # of the gradient so far
        if ema is not None:
            self.average = flat.weights.copy()
            own = {id(p): view for p, view in zip(flat.parameters, flat.views(self.average), strict=True)}
            ema.averages = [own[id(p)] for p in ema.parameters]
        self.write()

    def update(
        self, batches: Sequence[MicroBatch], prepare: Prepare, compute: Compute, lr: float, clip_norm: float | None
    ) -> None:
        """As `HostUpdates.update`."""
        flat, alone = self.flat, len(batches) * self.ranks.size == 1
        run: Callable[..., dict[str, Any]] = self.graphs or (lambda name, function, given: function(given))
        found = []
        for micro in batches:
            prepare(micro)
            seeds = None
            if self.graphs is not None:
                seeds = np.array([[generator.begin_calls()] for generator in self.generators], np.uint64)
            passed = partial(self._pass, compute, alone)
            found.append(run(("pass", alone), passed, (seeds, micro.batch)))
            count = found[-1]["count"]
            if not is_array(count):  # else `read` knows it
                check_counted(count, f"Batch {micro.position + 1} of epoch {micro.epoch + 1}")
        self.steps.append(found)
        if self.ranks.size > 1:
            self.tokens.fill(*self.ranks.sum([sum(batch["count"] for batch in found)]))
            self.ranks.finish_sum(self.ranks.start_sum(flat.gradient))
        self.optimizer.lr = lr
        name = "update", alone, clip_norm, flat.interval, flat.least
        run(name, partial(self._apply, alone, clip_norm), np.array([lr], np.float32))
        flat.mark_changed()

    def _pass(self, compute: Compute, alone: bool, given: tuple[Any, Any]) -> dict[str, Any]:
        """Add a batch's gradient to the others'; returns its tokens, as `count`, and the means over them.

        With several batches an update, each one's gradient is of its summed loss.
        """
        seeds, batch = given
        if seeds is not None:
            for generator, seed in zip(self.generators, seeds, strict=True):
                generator.keep_seed_in(seed)
        states = [] if seeds is None else [generator.get_state()["state"] for generator in self.generators]
        with self.flat.passes():
            loss, count, *more = compute(batch)
            self.flat.backward(loss, 1.0 if alone else count / _TOKEN_UNIT)
        if not alone:
            self.tokens += count
        if seeds is not None and states != [generator.get_state()["state"] for generator in self.generators]:
            raise GraphError("the passes draw random numbers on the host, which a graph would freeze")
        return {"count": count, "loss": loss.data, **(more[0] if more else {})}

    def _apply(self, alone: bool, clip_norm: float | None, lr: Any) -> dict[str, Any]:
        """The update, from what the passes have left on the device."""
        flat, xp = self.flat, self.flat.xp
        flat.settings[:1] = xp.asarray(lr)
        flat.settings[1:] = 1.0 if alone else np.float32(_TOKEN_UNIT) / self.tokens
        self.tokens.fill(0)
        if self.name_overflows:
            overflowed = flat.overflowed()
            first = xp.where(overflowed, self.places, len(self.names) - 1).min()
            self.culprit[...] = xp.where(overflowed.any(), first, self.culprit)
        flat.apply(clip_norm)
        if self.ema is not None:
            self._average_weights(self.ema.decay)
        return {}

    def _average_weights(self, decay: float) -> None:
        """ExponentialAverage.update on the flat arrays; nothing changes in a step that was skipped."""
        flat, xp = self.flat, self.flat.xp
        updates = flat.state.view(np.int32)[4].astype(np.float32)
        share = 1 - xp.minimum(np.float32(decay), (1 + updates) / (10 + updates))
        self.average += (flat.weights - self.average) * xp.where(flat.state[1] == 0, np.float32(0), share)

    def read(self) -> Reading:
        """What has happened since the last call; waits for the device, once."""
        flat, xp = self.flat, self.flat.xp
        values = [value for step in self.steps for batch in step for value in batch.values() if is_array(value)]
        # One transfer for all: the bits of the state, the culprit, counts and means.
        parts = [flat.state, self.culprit.astype(np.float32).reshape(1)]
        if values:
            parts.append(xp.concatenate([value.astype(np.float32).reshape(1) for value in values]))
        host, size = to_device(xp.concatenate(parts), "cpu"), len(flat.state)
        state, found = read_state(host[:size]), iter(host[size + 1 :].tolist())
        steps = []
        for step in self.steps:
            tokens, sums = 0.0, {"loss": 0.0}
            for batch in step:
                known = {name: next(found) if is_array(value) else value for name, value in batch.items()}
                count = known.pop("count")
                check_counted(count, "A batch of the last steps")
                tokens += count
                for name, value in known.items():
                    sums[name] = sums.get(name, 0.0) + value * count
            tokens, *totals = self.ranks.sum([tokens, *sums.values()])
            steps.append((tokens, {name: total / tokens for name, total in zip(sums, totals, strict=True)}))
        self.steps = []
        self.failed = state["failed"] > 0
        self.optimizer.steps = int(state["steps"])
        if self.ema is not None:
            self.ema.updates = self.optimizer.steps
        if self.scaler is not None:
            self.scaler.load_state_dict(
                {"scale": state["loss_scale"], "good": state["good"], "skipped": state["skipped"]}
            )
        return Reading(state["norm"], steps, self.names[int(host[size])], self.failed)

    def write(self) -> None:
        """Follow weights, `optimizer` and `scaler`, which a save may have set."""
        values: dict[str, float] = {"steps": self.optimizer.steps}
        if self.scaler is not None:
            own = self.scaler.state_dict()
            values |= {"loss_scale": own["scale"], "good": own["good"], "skipped": own["skipped"]}
            self.flat.interval, self.flat.least = self.scaler.interval, self.scaler.least
        self.flat.write_state(**values)
        self.flat.weights_changed()


def choose_updates(
    model: Module,
    optimizer: Optimizer,
    scaler: LossScaler | None,
    ema: ExponentialAverage | None,
    ranks: Ranks,
    name_overflows: bool,
    generators: Sequence[Generator] = (),
    graphs: bool = False,
) -> HostUpdates | DeviceUpdates:
    """Updates that stay on the device, if the model lies on one and Adam or AdamW trains all of it; else the host's.

    Raises InputError where `graphs` are asked for and can't be had.
    """
    rest = model, optimizer, scaler, ema, ranks, name_overflows
    every = {id(parameter) for parameter in optimizer.parameters} == set(map(id, model.parameters()))
    device = optimizer.parameters[0].device
    if graphs and (device == "cpu" or ranks.size > 1):
        where = "on the CPU" if device == "cpu" else f"with {ranks.size} processes"
        raise InputError(f"There are no CUDA graphs {where}: leave out --graphs, or train on --device cuda, alone.")
    if graphs and any(isinstance(module, MultiHeadAttention) for module in model.modules()):
        missing = device_kernels(int(device.partition(":")[2])).why_not_here()
        if missing:
            raise InputError(f"CUDA graphs hold only attention's fused kernel, and {missing}: leave out --graphs.")
    if every and device != "cpu":
        flat = flat_form(optimizer, half=scaler is not None, constants=float_constants(model))
        if flat is not None:
            return DeviceUpdates(flat, *rest, generators, graphs)
    if graphs:
        raise InputError(
            "CUDA graphs need Adam or AdamW over all parameters, with one learning rate and weight decay: leave out "
            "--graphs, or choose --optimizer adam."
        )
    return HostUpdates(*rest)
