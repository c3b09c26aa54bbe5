"""Optimisers: they update parameters in place from their gradients."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar

import numpy as np

from ...autograd import Parameter, Tensor
from ...autograd.backend import array_module, to_device
from ...autograd.quick import replaceable
from ...autograd.row_gradient import RowGradient
from ...kinds import argument, checked
from ...models.fields import Bounds, Fraction, NotNegative

#: Parameters, or groups of them: see `Optimizer`. They are checked by `_listed`, which says where to find them.
Parameters = Annotated[Parameter | Iterable[Parameter] | Iterable[Mapping[str, Any]], "checked later"]
#: A parameter to update, its moments, and the other arguments of `Optimizer._update`.
Work = tuple[Parameter, list[Any], dict[str, Any]]
Norm = Annotated[float, Bounds(0, infinite=True)]
Factor = Annotated[float, Bounds(-math.inf)]
#: A parameter's name down to the first number, or else the first part of it.
_LAYER = re.compile(r"(?:[^.]+\.)*?\d+(?=\.|$)|[^.]+")
NORM_PART = 1 << 10  # elements of a gradient whose squares are added in the gradient's own dtype
NORM_COST = 0.2  # nanoseconds for each element of a gradient: its sum of squares, or its scaling


@checked
class Optimizer:
    """The base class of optimisers, which handles parameter groups, learning rates, weight decay and the state.

    Args:
        parameters: the parameters to update, or one parameter; parameters without a gradient are not changed. Or
            groups, each a dict with "parameters" (or "params") and optionally "lr_scale" (a factor on the learning
            rate) and "weight_decay" (for all parameters of the group).
        lr: learning rate; a schedule may set the attribute before each step.
        weight_decay: w -= lr weight_decay w before each update (Loshchilov and Hutter 2019, arXiv 1711.05101). It
            applies to matrices, not to biases and norms, which are vectors. A group's own value applies to all its
            parameters. None means the default of the class.

    Raises ValueError without parameters, the same parameter twice, an unknown key or values out of range. Raises
    TypeError for what is not a number, or not a Parameter or another leaf, such as the result of an operation.
    """

    #: Names of the arrays that are kept for each parameter; they have its shape and start as zeros. Those of a float16
    #: parameter are float32: the square of a small gradient would be 0 in float16.
    moments: ClassVar[tuple[str, ...]] = ()
    default_decay: ClassVar[float] = 0.0

    def __init__(self, parameters: Parameters, lr: NotNegative, weight_decay: NotNegative | None = None):
        name, weight_decay = type(self).__name__, self.default_decay if weight_decay is None else weight_decay
        self.parameters: list[Parameter] = []
        self._lr_scales: list[float] = []
        self._decays: list[float] = []
        for group in _listed(parameters):
            group = group if isinstance(group, Mapping) else {"parameters": [group]}
            if "params" in group and "parameters" not in group:
                group = {"parameters": group["params"], **{key: group[key] for key in group if key != "params"}}
            if group.keys() - {"parameters", "lr_scale", "weight_decay"} or "parameters" not in group:
                raise ValueError(f"{name}: a group has keys parameters, lr_scale and weight_decay, not {sorted(group)}")
            for parameter in _listed(group["parameters"]):
                if not parameter.is_leaf:
                    cure = "give Parameters, such as model.parameters()"
                    raise TypeError(f"{name}: the result of an operation can't be updated: {cure}")
                self.parameters.append(parameter)
                self._lr_scales.append(argument(f"{name}: lr_scale", group.get("lr_scale", 1.0), NotNegative))
                decay = group.get("weight_decay", weight_decay if parameter.ndim > 1 else 0.0)
                self._decays.append(argument(f"{name}: weight_decay", decay, NotNegative))
        if not self.parameters:
            raise ValueError(f"{name}: there are no parameters to update")
        if len(set(map(id, self.parameters))) < len(self.parameters):
            raise ValueError(f"{name}: a parameter is in two groups; it would be updated twice")
        self.lr, self.steps = lr, 0
        self._missed = [0] * len(self.parameters)  # number of steps in which a parameter had no gradient
        self._state = [
            [array_module(p.data).zeros_like(p.data, np.promote_types(p.dtype, np.float32)) for p in self.parameters]
            for _ in self.moments
        ]  # moment, parameter

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lr={self.lr:g}, {len(self.parameters)} parameters, {self.steps:,} steps)"

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set all gradients to None, or the arrays that there are to zeros."""
        for parameter in self.parameters:
            there = not set_to_none and parameter.grad_or_rows is not None
            parameter.grad = array_module(parameter.data).zeros_like(parameter.data) if there else None

    def step(self) -> None:
        """Update every parameter that has a gradient. Raises TypeError or ValueError if `lr` is not a number."""
        self.lr = argument(f"{type(self).__name__}: lr", self.lr, NotNegative)
        self.steps += 1
        work: list[Work] = []
        rows = zip(self.parameters, self._lr_scales, self._decays, *self._state, strict=True)
        for index, (parameter, scale, weight_decay, *moments) in enumerate(rows):
            if parameter.grad_or_rows is None:
                self._missed[index] += 1
                continue
            lr, updates = self.lr * scale, self.steps - self._missed[index]
            work.append((parameter, moments, {"lr": lr, "decay": lr * weight_decay, "updates": updates}))
        try:
            update_all(self, work)
        finally:
            for parameter, *_ in work:
                parameter.mark_changed()

    def _update(self, w: Any, g: Any, *moments: Any, lr: float, decay: float, updates: int) -> None:
        """Change `w` and the moments in place; `decay` is lr times the weight decay, `updates` counts this update."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the state on which the next step depends, without the parameters: the step count, the moments, and for
        each parameter the number of steps without a gradient. On the CPU its arrays are the optimiser's own.
        """
        moments = {name: to_device(moment, "cpu") for name, moment in self._named_moments().items()}
        state = {"kind": type(self).__name__, "steps": self.steps, "moments": moments}
        return {**state, "missed": list(self._missed)} if any(self._missed) else state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`. Raises ValueError, and changes nothing, if the state belongs to other parameters."""
        saved, own = state.get("moments", {}), self._named_moments()
        missed = list(state.get("missed", [0] * len(self.parameters)))
        alike = {k: np.shape(m) for k, m in saved.items()} == {k: m.shape for k, m in own.items()}
        if not alike or len(missed) != len(self.parameters):
            raise ValueError(
                f"{type(self).__name__}: this state, of {state.get('kind', 'an optimiser')}, belongs to another "
                f"optimiser, or to parameters of another number or shape"
            )
        self.steps, self._missed = int(state["steps"]), missed
        for name, moment in own.items():
            moment[...] = array_module(moment).asarray(saved[name])

    def numbers(self) -> dict[str, Any]:
        """Return the numbers of the formula by name, without the learning rate."""
        own = {name: value for name, value in vars(self).items() if isinstance(value, int | float | tuple)}
        own = {name: value for name, value in own.items() if name not in ("lr", "steps", "moments")}
        return {**own, "weight_decay": self._decays, "lr_scale": self._lr_scales}

    def _named_moments(self) -> dict[str, Any]:
        rows = zip(self.moments, self._state, strict=True)
        return {f"{name}.{i}": moment for name, row in rows for i, moment in enumerate(row)}


@checked
class SGD(Optimizer):
    """Stochastic gradient descent with momentum: v = momentum v + g; w -= lr v, or lr (g + momentum v) if `nesterov`.

    Without momentum it has no state. Source: Sutskever et al. 2013 (ICML), in PyTorch's form.
    Raises ValueError as `Optimizer`, or for a momentum outside [0, 1), or nesterov without momentum.
    """

    def __init__(
        self,
        parameters: Parameters,
        lr: NotNegative = 0.1,
        momentum: Fraction = 0.0,
        weight_decay: NotNegative | None = None,
        nesterov: bool = False,
    ):
        if nesterov and not momentum:
            raise ValueError(f"{type(self).__name__}: {momentum=} must be above 0 for {nesterov=}")
        self.momentum, self.nesterov = momentum, nesterov
        self.moments = ("v",) if momentum else ()  # type: ignore[misc]
        super().__init__(parameters, lr, weight_decay)

    def _update(self, w: Any, g: Any, *moments: Any, lr: float, decay: float, updates: int) -> None:
        if decay:
            w *= 1 - decay
        direction = g
        for v in moments:
            v *= self.momentum
            v += g
            direction = g + self.momentum * v if self.nesterov else v
        w -= lr * direction


@checked
class Adam(Optimizer):
    """Adam with bias correction; `weight_decay` is decoupled, which makes it AdamW.

    m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  w -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps), where t
    is the number of the parameter's updates.

    Args:
        parameters, lr, weight_decay: see `Optimizer`.
        betas, eps: b1, b2 and eps in the formula.

    Source: Kingma and Ba 2015, arXiv 1412.6980, algorithm 1; Loshchilov and Hutter 2019, arXiv 1711.05101.
    Raises ValueError without parameters or values out of range.
    """

    moments = ("m", "v")

    def __init__(
        self,
        parameters: Parameters,
        lr: NotNegative = 1e-3,
        betas: tuple[Fraction, Fraction] = (0.9, 0.999),
        eps: NotNegative = 1e-8,
        weight_decay: NotNegative | None = None,
    ):
        self.betas, self.eps = betas, eps
        super().__init__(parameters, lr, weight_decay)

    def _update(self, w: Any, g: Any, *moments: Any, lr: float, decay: float, updates: int) -> None:
        b1, b2 = self.betas
        # Both bias corrections are merged into the step size and eps, which saves two divisions for each element.
        correction = (1 - b2**updates) ** 0.5
        rate = lr * correction / (1 - b1**updates)
        m, v = moments
        adam(w, g, m, v, (b1, 1 - b1, b2, 1 - b2, self.eps * correction, rate, 1 - decay))


@replaceable
def adam(w: Any, g: Any, m: Any, v: Any, numbers: tuple[float, ...]) -> None:
    """Compute m = b1 m + c1 g;  v = b2 v + c2 g^2;  w = keep w - rate m / (sqrt(v) + eps), in place."""
    b1, c1, b2, c2, eps, rate, keep = numbers
    g = g.astype(m.dtype, copy=False)
    m *= b1
    m += g * c1
    v *= b2
    v += g * g * c2
    w *= keep
    w -= m / (array_module(v).sqrt(v) + eps) * rate


@replaceable
def update_all(optimizer: Optimizer, work: Sequence[Work]) -> None:
    """Update the parameters one by one."""
    for parameter, moments, numbers in work:
        optimizer._update(parameter.data, parameter.grad, *moments, **numbers)


@replaceable
def flat_form(optimizer: Optimizer, **options: Any) -> Any:
    """Return None: this optimiser can't update flat arrays on a device. See `fast/flat_adam.py`."""
    return None


class AdamW(Adam):
    """Adam with a decoupled weight decay of 0.01 by default."""

    default_decay = 0.01


@checked
def clip_grad_norm(parameters: Parameters, max_norm: Norm | None, *, scale: Factor = 1.0) -> float:
    """Scale the gradients, in place, so that their joint Euclidean norm is at most `max_norm`.
    None only measures the norm.

    `scale` multiplies the gradients first, for example to average over tokens or to undo a loss scale. Returns the norm
    between scaling and clipping; if it is nan or inf, nothing is changed. Source: Pascanu et al. 2013, arXiv 1211.5063.
    Raises ValueError unless max_norm >= 0, and TypeError for what is not a number.
    """
    gradients = _arrays(dict.fromkeys(_listed(parameters)))  # one that two models share is scaled once
    norm = _norm(gradients) * scale
    if max_norm is not None and norm > max_norm and np.isfinite(norm):
        scale *= max_norm / norm
    if scale != 1 and np.isfinite(norm):

        def rescale(gradient: Any) -> None:
            gradient *= scale

        in_blocks(rescale, [(gradient,) for gradient in gradients], NORM_COST)
    return norm


def _norm(gradients: Sequence[Any]) -> float:
    """Return the joint Euclidean norm of the arrays, also where squares overflow or are too small for the dtype."""
    total = sum(squared_norms(gradients))
    if 1e-30 < total < math.inf:
        return math.sqrt(total)
    top = max((float(abs(gradient).max()) for gradient in gradients if gradient.size), default=0.0)
    if not 0 < top < math.inf or math.isnan(total):
        return total if math.isnan(total) else top
    return top * math.sqrt(sum(squared_norms([gradient.astype(np.float64) / top for gradient in gradients])))


@replaceable
def squared_norms(gradients: Sequence[Any]) -> list[float]:
    """Return the sum of squares of each array."""
    return [squared_norm(gradient) for gradient in gradients]


def squared_norm(gradient: Any) -> float:
    """Return the sum of the squares of an array's elements.

    On a CPU, the sums of short parts are added in float64. BLAS adds a whole array in a few float32 sums, and for the
    25 million elements of a large embedding such a sum has a relative error of 4e-4 to 2e-3.
    """
    wide = gradient.astype(np.float32) if gradient.dtype == np.float16 else gradient  # a float16 would overflow
    flat, xp = wide.reshape(-1), array_module(wide)
    whole = flat.size // NORM_PART * NORM_PART if xp is np else 0
    parts, rest = flat[:whole].reshape(-1, NORM_PART), flat[whole:]
    with np.errstate(over="ignore"):
        total = float(np.vecdot(parts, parts).sum(dtype=np.float64) if whole else 0) + float(xp.vdot(rest, rest))
    if wide.dtype == np.float32 and math.isinf(total):  # the square of 1.9e19 overflows
        return squared_norm(wide.astype(np.float64))
    return total


@replaceable
def in_blocks(function: Callable[..., None], rows: Sequence[Sequence[Any]], cost: float) -> None:
    """Call the elementwise function, which works in place, for each row of arrays that have the same shape.

    `cost` is its time in nanoseconds for each element, which the quick form needs to divide the work among threads.
    """
    for arrays in rows:
        function(*arrays)


def _listed(parameters: Any) -> Any:
    """Return a parameter as a list with one item. Iterating over it would yield its rows, which have no gradients."""
    found = [parameters] if isinstance(parameters, Tensor) or not isinstance(parameters, Iterable) else list(parameters)
    if wrong := [one for one in found if not isinstance(one, Tensor | Mapping)]:
        raise TypeError(f"give Parameters, such as model.parameters(), not {type(wrong[0]).__name__}")
    return found


def _arrays(parameters: Iterable[Parameter]) -> list[Any]:
    """Return the gradients. For a table, return only the used rows if they are few."""
    found = [p.grad_or_rows for p in parameters if p.grad_or_rows is not None]
    return [gradient.rows if isinstance(gradient, RowGradient) else gradient for gradient in found]


def layer_norms(named_parameters: Iterable[tuple[str, Parameter]], norm: float) -> dict[str, float]:
    """Return the norm of each layer's gradient, such as "encoder.layers.0"; their joint norm is `norm`."""
    found = [(name, p) for name, p in named_parameters if p.grad_or_rows is not None]
    squares: dict[str, float] = {}
    for (name, _), square in zip(found, squared_norms(_arrays(p for _, p in found)), strict=True):
        layer = _LAYER.match(name)[0]  # type: ignore[index]
        squares[layer] = squares.get(layer, 0.0) + square
    total = float(np.sqrt(sum(squares.values())))
    factor = norm / total if total > 0 and np.isfinite(total) else 1.0
    return {layer: float(np.sqrt(square)) * factor for layer, square in squares.items()}


@checked
class ExponentialAverage:
    """An exponential average of weights: average = d average + (1 - d) weights.

    At update n, d = min(decay, (1 + n) / (10 + n)). The smaller d of the first updates lets the average forget the
    initial weights. Source: Polyak and Juditsky 1992 (SIAM J. Control Optim. 30); the ramp comes from TensorFlow's
    ExponentialMovingAverage.

    Args:
        parameters: one or more parameters, whose weights are averaged; the average starts as a copy. It is float32 for
            float16 parameters, which could not represent its small changes.
        decay: a number in [0, 1).

    Raises ValueError for a decay out of range.
    """

    def __init__(self, parameters: Parameters, decay: Fraction = 0.999):
        # Each parameter once, even if two models share it.
        self.parameters, self.decay, self.updates = list(dict.fromkeys(_listed(parameters))), decay, 0
        self.averages = [p.data.astype(np.promote_types(p.dtype, np.float32)) for p in self.parameters]

    def update(self) -> None:
        """Update the average with the current weights."""
        self.updates += 1
        share = 1 - min(self.decay, (1 + self.updates) / (10 + self.updates))

        def mix(weights: Any, average: Any) -> None:
            difference = weights - average
            difference *= share
            average += difference

        arrays = [(parameter.data, own) for parameter, own in zip(self.parameters, self.averages, strict=True)]
        in_blocks(mix, arrays, cost=0.5)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the weights of the parameters by the average within the block. Then restore the weights."""
        weights = [parameter.data.copy() for parameter in self.parameters]
        self._set(self.averages)
        try:
            yield
        finally:
            self._set(weights)

    def _set(self, arrays: Sequence[Any]) -> None:
        for parameter, array in zip(self.parameters, arrays, strict=True):
            parameter.data[...] = array
            parameter.mark_changed()

    def state_dict(self) -> dict[str, Any]:
        averages = {str(i): to_device(average, "cpu") for i, average in enumerate(self.averages)}
        return {"updates": self.updates, "averages": averages}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`. Raises ValueError if the state belongs to other parameters."""
        saved = [state["averages"].get(str(i)) for i in range(len(self.averages))]
        if [getattr(array, "shape", None) for array in saved] != [average.shape for average in self.averages]:
            raise ValueError("ExponentialAverage: the parameters of this state differ in number or shape")
        self.updates = state["updates"]
        for average, array in zip(self.averages, saved, strict=True):
            average[...] = array_module(average).asarray(array)
