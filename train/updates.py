"""An update of the weights (passes, sum of the gradients of all ranks, clipping, optimiser, average), and mean losses.

`Updates` reads the loss and the gradient's norm of every step. On a device `device_updates.DeviceUpdates` is used
instead, which has the same methods and does not wait for the device.
"""

import ctypes
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ..autograd import Generator, Parameter, Tensor, bfloat16_products, early, no_grad
from ..autograd.backend import is_array
from ..autograd.engine import backward
from ..errors import InputError, short
from ..kinds import argument, checked
from ..models.fields import NotNegative
from ..models.hyperparameters import Settings
from ..nn import Module
from .data.sources import Batches, listed
from .distributed import GradientSum, ProcessGroup
from .optim.loss_scaling import HalfPrecision, first_overflow
from .optim.optimizers import ExponentialAverage, Optimizer, clip_grad_norm
from .runs.progress import add_means, means_of

#: If an update uses several batches, the gradients of their summed losses, divided by this number, are added up. A
#: factor at the end turns the sum into the gradient of the mean. This number is a power of two: division is exact.
TOKEN_UNIT = 1024

#: A function (model, batch) that returns the loss, a Tensor with one element. It may also return a tuple: the loss; the
#: number of items (tokens) over which it is the mean, 1 by default; and further means over these items by name, such as
#: {"accuracy": 0.5}. On a device the number and the means may be 0-d arrays, so that nothing waits for them.
Loss = Callable[[Any, Any], Any]


class MicroBatch(NamedTuple):
    """A batch and its position in the data."""

    epoch: int
    position: int
    batch: Any

    @property
    def name(self) -> str:
        return f"Batch {self.position + 1} of epoch {self.epoch + 1}"

    def seed(self, generators: Sequence[Generator], seed: int) -> None:
        """Seed the generators for the batch; `seed` is that of the run."""
        for index, generator in enumerate(generators):
            # Four numbers each time, so NumPy's entropy of several numbers is not ambiguous here.
            entropy = np.random.SeedSequence([seed, self.epoch, self.position, index])
            generator.set_state(Generator(entropy).get_state())


def check_counted(count: float, what: str) -> None:
    """Raise InputError for a batch without targets: its loss would be NaN, and it would train nothing."""
    if not count:
        raise InputError(f"{what} has no targets, so its loss would be a mean over nothing: leave such batches out.")


def measured(found: Any) -> tuple[Tensor, Any, Mapping[str, Any]]:
    """Return what a `Loss` has returned as (loss, number of items, perhaps on a device, further means by name)."""
    given: tuple[Any, ...] = found if isinstance(found, tuple) and 1 < len(found) < 4 else (found,)
    value, count, means = given + (None, 1.0, {})[len(given) :]
    if not isinstance(value, Tensor) or value.size != 1 or not isinstance(means, Mapping):
        wrong = f"a Tensor of shape {value.shape}" if isinstance(value, Tensor) else short(found)
        raise TypeError(
            "the loss must return a Tensor with one number; or a tuple of it, the number of items over which it is a "
            f"mean, and optionally a dict of further means; not {wrong}"
        )
    if isinstance(count, np.ndarray) or not is_array(count):  # a NumPy scalar would change the dtype of products
        count = argument("the loss: its number of items", count, NotNegative)
    check_names("the loss", means, {"loss", "tokens"})
    return value if value.ndim == 0 else value.reshape(()), count, means


def check_names(what: str, names: Iterable[Any], taken: Collection[str]) -> None:
    """Raise ValueError if a further number would replace one of the names in the log that are `taken`."""
    if wrong := [name for name in names if name in taken]:
        raise ValueError(f"{what}: the name {wrong[0]!r} has another meaning in the log: choose another one")


def updated_parameters(model: Module, optimizer: Optimizer) -> list[tuple[str, Parameter]]:
    """Return the names and the parameters that the optimiser updates. The gradients of others are never set to zero."""
    updated = set(map(id, optimizer.parameters))
    return [(name, parameter) for name, parameter in model.named_parameters() if id(parameter) in updated]


class Reading(NamedTuple):
    """The results since the last reading."""

    norm: float  # of the last gradient, before clipping
    steps: list[tuple[float, dict[str, float]]]  # the number of tokens of each step, and the means over them
    overflowed: str | None  # the parameter whose gradient overflowed first at the last overflow, if it is known
    failed: bool  # whether a gradient overflowed at the minimum loss scale, or in float32, which ends the training


class Updates:
    """An implementation of updates in which loss and gradient norm are available immediately.

    The passes draw from the `generators`. `scaler` is the loss scale of fp16, `ema` the average of weights, or None.
    """

    def __init__(
        self,
        model: Module,
        optimizer: Optimizer,
        settings: Settings,
        group: ProcessGroup,
        generators: Sequence[Generator],
    ):
        self.model, self.optimizer, self.settings, self.group = model, optimizer, settings, group
        self.generators = generators
        self.half = HalfPrecision(model) if settings.precision == "fp16" else None
        self.scaler = self.half.scaler if self.half else None
        self.ema = None if settings.ema is None else ExponentialAverage(model.parameters(), settings.ema)
        self.gradient_sum = GradientSum(optimizer.parameters, group) if group.size > 1 else None
        self.norm, self.failed = math.nan, False
        self.overflowed: str | None = None
        self.steps: list[tuple[float, dict[str, float]]] = []

    def update(self, batches: Sequence[MicroBatch], loss: Loss, seed: int, lr: float) -> None:
        """Make one update from `batches` with the learning rate `lr`, unless a gradient overflows."""
        self.optimizer.zero_grad()
        sums, tokens, scale = self._gradients(batches, loss, seed)
        self.norm = clip_grad_norm(self.optimizer.parameters, self.settings.clip_norm, scale=scale)
        means = {name: value / tokens for name, value in sums.items()}
        self.steps.append((tokens, means))
        largest = 1.8e19 if self.settings.clip_norm is None else math.inf  # unclipped, Adam's squares would overflow
        finite = self.norm < largest and math.isfinite(means["loss"])
        self.failed = not finite and (self.scaler is None or self.scaler.scale <= self.scaler.least)
        if self.scaler is not None and not self.failed:
            self.scaler.update(finite)
        if not finite and (self.failed or self.settings.name_overflows):
            self.overflowed = first_overflow(updated_parameters(self.model, self.optimizer))
        self.optimizer.lr = lr
        if finite:
            self.optimizer.step()
            if self.ema is not None:
                self.ema.update()

    def _gradients(self, batches: Sequence[MicroBatch], loss: Loss, seed: int) -> tuple[dict[str, float], float, float]:
        """Compute the gradient of the batches of all ranks, up to a factor, and store it in the parameters.

        Returns the sums over tokens by name, the number of tokens, and the factor that gives the gradient of the mean.
        """
        alone, half = len(batches) * self.group.size == 1, self.half
        sums = {"tokens": 0.0, "loss": 0.0}
        scale = 1.0
        if half is not None:
            scale = float(half.scaler.scale)
            half.cast()
        for batch in batches:
            with half.passes() if half else bfloat16_products(self.settings.precision == "bf16"):
                batch.seed(self.generators, seed)
                value, count, means = measured(loss(self.model, batch.batch))
                check_counted(count, batch.name)
                share = 1.0 if alone else count / TOKEN_UNIT
                if half is not None:
                    half.backward(value, share)
                elif self.gradient_sum is not None and batch is batches[-1]:
                    self.gradient_sum.begin()  # the sums over the ranks begin during the backward pass
                    early.backward(value, share, self.gradient_sum.ready)
                else:
                    backward(value, share)
            add_means(sums, count, {"loss": value.item(), **means})
        if self.gradient_sum is not None:
            if half is not None:  # whose gradients are final, in float32, after the passes only
                self.gradient_sum.begin()
            self.gradient_sum.finish()
        sums = dict(zip(sums, self.group.sum(list(sums.values())), strict=True))
        tokens = sums.pop("tokens")
        factor = (1.0 if alone else TOKEN_UNIT / tokens) / scale
        return sums, tokens, factor

    def read(self) -> Reading:
        """Return the results since the last call."""
        steps, self.steps = self.steps, []
        return Reading(self.norm, steps, self.overflowed, self.failed)

    def write(self) -> None:
        """Do nothing. It is called after a save was loaded into weights, `optimizer` and `scaler`."""


# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def keep_freed_memory() -> None:
    """Make the C library keep freed memory in this process instead of returning it to the system.

    By default, glibc maps new pages for every large array, on which a training step can spend a quarter of its time.
    After this call, the process keeps its peak memory. Without glibc, the call has no effect.
    """
    if sys.platform.startswith("linux"):
        with suppress(AttributeError):  # another C library
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_M_MMAP_MAX, 0)
            mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


@checked
def mean_losses(
    model: Module, loss: Loss, batches: Iterable[Any] | Batches, group: ProcessGroup | None = None
) -> dict[str, float]:
    """Return the mean loss and the further means of the loss over all batches, in evaluation mode.

    Args:
        batches: an iterable of batches, or `Batches`, of which the first epoch is taken.
        group: processes that compute a share of the batches each, and get the means over all of them.

    Raises InputError without batches, or for a batch without items; TypeError as `measured`.
    """
    group = group or ProcessGroup()
    was_training = model.training
    model.eval()
    sums = {"tokens": 0.0, "loss": 0.0}
    with no_grad():
        for batch in listed(batches)[group.rank :: group.size]:
            value, count, means = measured(loss(model, batch))
            check_counted(count, "A validation batch")
            add_means(sums, float(count), {"loss": value.item(), **means})
    model.train(was_training)
    total: dict[str, float] = {}
    for own in group.gather(sums):  # a rank may have had no batch
        for name, value in own.items():
            total[name] = total.get(name, 0.0) + value
    return means_of(total)
