"""Optimisers: they update parameters in place from their gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ...autograd import Parameter
from ...autograd.backend import array_module, to_device
from ...autograd.quick import PIECE, blocks, one_blas_thread, parallel_for, replaceable
from ...autograd.row_gradient import RowGradient, as_dense

_NORM_COST = 0.2  # nanoseconds for each element of a gradient: its sum of squares, or its scaling


class Optimizer:
    """Base class of optimisers: parameter groups, learning rates, weight decay, updates in blocks, the state.

    Args:
        parameters: what to update; one without a gradient is left alone. Or groups, each a dict with "parameters" and
            any of "lr_scale" (a factor on the learning rate) and "weight_decay" (for all parameters of the group).
        lr: learning rate; a schedule may set the attribute before each step.
        weight_decay: w -= lr weight_decay w before each update (Loshchilov and Hutter 2019, arXiv 1711.05101). Applies
            to matrices, not to biases and norms, which are vectors; a group's own value applies as it is.

    Raises ValueError for no parameters, the same parameter twice, an unknown key or values out of range.
    """

    #: Names of the arrays kept for each parameter, shaped like it and zero at first.
    moments: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, parameters: Iterable[Parameter] | Iterable[Mapping[str, Any]], lr: float, weight_decay: float = 0.0
    ):
        name = type(self).__name__
        self.parameters: list[Parameter] = []
        self._lr_scales: list[float] = []
        self._decays: list[float] = []
        for group in parameters:
            group = group if isinstance(group, Mapping) else {"parameters": [group]}
            unknown = group.keys() - {"parameters", "lr_scale", "weight_decay"}
            if unknown or "parameters" not in group:
                raise ValueError(
                    f"{name}: a group has the keys parameters, lr_scale and weight_decay, not {sorted(group)}"
                )
            for parameter in group["parameters"]:
                self.parameters.append(parameter)
                self._lr_scales.append(group.get("lr_scale", 1.0))
                self._decays.append(group.get("weight_decay", weight_decay if parameter.ndim > 1 else 0.0))
        if not self.parameters:
            raise ValueError(f"{name}: there are no parameters to update")
        if len(set(map(id, self.parameters))) < len(self.parameters):
            raise ValueError(f"{name}: a parameter is in two groups; it would be updated twice")
        if not (lr >= 0 and min(self._lr_scales) >= 0 and min(self._decays) >= 0 and weight_decay >= 0):
            raise ValueError(f"{name}: learning rates, their scales and weight decays can't be negative")
        self.lr, self.steps = lr, 0
        self._state = [
            [array_module(p.data).zeros_like(p.data) for p in self.parameters] for _ in self.moments
        ]  # moment, parameter

    def common_decay(self) -> float | None:
        """The weight decay of all matrices, if no group has its own rate or decay; else None."""
        decay = max(self._decays)
        usual = [decay if parameter.ndim > 1 else 0.0 for parameter in self.parameters]
        return decay if set(self._lr_scales) == {1.0} and self._decays == usual else None

    def share_moment(self, name: str, arrays: list[Any]) -> None:
        """Store a moment in these arrays from now on, one for each of `parameters`; its values are copied there."""
        row = self._state[self.moments.index(name)]
        for own, shared in zip(row, arrays, strict=True):
            shared[...] = own
        row[:] = arrays

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        self.steps += 1
        parts: list[tuple[list[Any], Any, slice, float, float]] = []
        for parameter, scale, weight_decay, *moments in zip(
            self.parameters, self._lr_scales, self._decays, *self._state, strict=True
        ):
            if parameter.grad_or_rows is None:
                continue
            lr = self.lr * scale
            decay = lr * weight_decay
            gradient, arrays = parameter.grad_or_rows, [parameter.data, *moments]
            if not all(array.flags.c_contiguous for array in arrays):
                # A transposed array, say, can't be seen as flat: its blocks would be copies, and the update lost.
                self._update(parameter.data, parameter.grad, *moments, lr=lr, decay=decay)
            else:
                length = PIECE  # elements of a block, which stay in the processor's cache between the passes over them
                if isinstance(gradient, RowGradient):  # in blocks of whole rows
                    length = max(PIECE // max(parameter.shape[1], 1), 1)
                else:
                    gradient, *arrays = (array.reshape(-1) for array in (gradient, *arrays))
                parts += [
                    (arrays, gradient, slice(start, start + length), lr, decay)
                    for start in range(0, len(arrays[0]), length)
                ]
            parameter.mark_changed()

        def update(first: int, last: int) -> None:
            for arrays, gradient, block, lr, decay in parts[first:last]:
                w, *moments = (array[block] for array in arrays)
                self._update(w, gradient[block], *moments, lr=lr, decay=decay)

        parallel_for(array_module(self.parameters[0].data), len(parts), update, cost=PIECE)

    def _update(self, w: Any, g: Any, *moments: Any, lr: float, decay: float) -> None:
        """Change `w` and the moments in place; `decay` is lr times the weight decay.

        `g` is shaped like `w`: an array, or a RowGradient where w is a table of which few rows were used.
        """
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Everything except the parameters that the next step depends on: step count and moments, by index."""
        moments = {
            f"{name}.{i}": to_device(moment, "cpu")
            for name, row in zip(self.moments, self._state, strict=True)
            for i, moment in enumerate(row)
        }
        return {"kind": type(self).__name__, "steps": self.steps, "moments": moments}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`. Raises ValueError, and changes nothing, if it is of other parameters."""
        saved = state.get("moments", {})
        own = {
            f"{name}.{i}": moment
            for name, row in zip(self.moments, self._state, strict=True)
            for i, moment in enumerate(row)
        }
        if {k: np.shape(m) for k, m in saved.items()} != {k: m.shape for k, m in own.items()}:
            raise ValueError(
                f"{type(self).__name__}: this state, of {state.get('kind', 'an optimiser')}, belongs to another "
                "optimiser or to parameters of other number or shapes"
            )
        self.steps = int(state["steps"])
        for name, moment in own.items():
            moment[...] = array_module(moment).asarray(saved[name])


class SGD(Optimizer):
    """Stochastic gradient descent with momentum: v = momentum v + g; w -= lr v, or lr (g + momentum v) if `nesterov`.

    Without momentum it has no state. Source: Sutskever et al. 2013 (ICML), in PyTorch's form.
    Raises ValueError as `Optimizer`, or for a momentum outside [0, 1), or nesterov without momentum.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter] | Iterable[Mapping[str, Any]],
        lr: float = 0.1,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ):
        if not 0 <= momentum < 1 or (nesterov and not momentum):
            raise ValueError(f"SGD: {momentum=} must be in [0, 1), and above 0 for {nesterov=}")
        self.momentum, self.nesterov = momentum, nesterov
        self.moments = ("v",) if momentum else ()  # type: ignore[misc]
        super().__init__(parameters, lr, weight_decay)

    def _update(self, w: Any, g: Any, *moments: Any, lr: float, decay: float) -> None:
        if decay:
            w *= 1 - decay
        direction = g = as_dense(g)
        for v in moments:
            v *= self.momentum
            v += g
            direction = g + self.momentum * v if self.nesterov else v
        w -= lr * direction


class Adam(Optimizer):
    """Adam with bias correction; `weight_decay` is decoupled, which makes it AdamW.

    m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  w -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps).

    Args:
        parameters, lr, weight_decay: as of `Optimizer`.
        betas, eps: as above.

    Source: Kingma and Ba 2015, arXiv 1412.6980, algorithm 1; Loshchilov and Hutter 2019, arXiv 1711.05101.
    Raises ValueError for no parameters or values out of range.
    """

    moments = ("m", "v")

    def __init__(
        self,
        parameters: Iterable[Parameter] | Iterable[Mapping[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        if not (0 <= betas[0] < 1 and 0 <= betas[1] < 1 and eps >= 0):
            raise ValueError(f"Adam: a value is out of range in {betas=}, {eps=}")
        self.betas, self.eps = betas, eps
        super().__init__(parameters, lr, weight_decay)

    def _update(self, w: Any, g: Any, *moments: Any, lr: float, decay: float) -> None:
        b1, b2 = self.betas
        # Both bias corrections fold into the step size and eps: two divisions less for each element.
        correction = (1 - b2**self.steps) ** 0.5
        rate = lr * correction / (1 - b1**self.steps)
        m, v = moments
        adam(w, g, m, v, (b1, 1 - b1, b2, 1 - b2, self.eps * correction, rate, 1 - decay))


@replaceable
def adam(w: Any, g: Any, m: Any, v: Any, numbers: tuple[float, ...]) -> None:
    """m = b1 m + c1 g;  v = b2 v + c2 g^2;  w = keep w - rate m / (sqrt(v) + eps), in place.

    `numbers` are b1, c1, b2, c2, eps, rate and keep.
    """
    b1, c1, b2, c2, eps, rate, keep = numbers
    m *= b1
    v *= b2
    if isinstance(g, RowGradient):
        m[g.ids] += g.rows * c1
        v[g.ids] += g.rows * g.rows * c2
        scratch = np.sqrt(v)
    else:
        xp = array_module(g)
        scratch = g * c1
        m += scratch
        xp.multiply(g, g, out=scratch)
        scratch *= c2
        v += scratch
        xp.sqrt(v, out=scratch)
    scratch += eps
    array_module(m).divide(m, scratch, out=scratch)
    scratch *= rate
    if keep != 1:
        w *= keep
    w -= scratch


@replaceable
def flat_form(optimizer: Optimizer, **options: Any) -> Any:
    """See `fast/flat_adam.py`: all parameters in flat arrays on a device. This optimiser has none."""
    return None


class AdamW(Adam):
    """Adam with a decoupled weight decay of 0.01 by default."""

    def __init__(
        self,
        parameters: Iterable[Parameter] | Iterable[Mapping[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ):
        super().__init__(parameters, lr, betas, eps, weight_decay)


def clip_grad_norm(parameters: Iterable[Parameter], max_norm: float | None, *, scale: float = 1.0) -> float:
    """Scale all gradients, in place, so that their joint Euclidean norm is at most `max_norm`; None only measures.

    `scale` multiplies the gradients first, to average over tokens or undo a loss scale. Returns the norm after that and
    before clipping; if it is nan or inf, nothing is changed. Source: Pascanu et al. 2013, arXiv 1211.5063.
    """
    found = [p.grad_or_rows for p in parameters if p.grad_or_rows is not None]
    gradients = [gradient.rows if isinstance(gradient, RowGradient) else gradient for gradient in found]
    norm = float(np.sqrt(sum(squared_norms(gradients)))) * scale
    if max_norm is not None and norm > max_norm and np.isfinite(norm):
        scale *= max_norm / norm
    if scale != 1 and np.isfinite(norm):
        _rescale(gradients, scale)
    return norm


def squared_norms(gradients: Sequence[Any]) -> list[float]:
    """The sum of squares of each array. Threads share the arrays; the sum of one does not depend on their number."""
    squares = [0.0] * len(gradients)

    def part(first: int, last: int) -> None:
        for number in range(first, last):
            g = gradients[number]
            wide = g.astype(np.float32) if g.dtype == np.float16 else g  # the square of a float16 norm would overflow
            squares[number] = float(array_module(wide).vdot(wide, wide))

    if gradients:
        mean_size = sum(g.size for g in gradients) / len(gradients)
        with one_blas_thread():  # which divides a sum, too
            parallel_for(array_module(gradients[0]), len(gradients), part, cost=_NORM_COST * mean_size)
    return squares


def _rescale(gradients: Sequence[Any], scale: float) -> None:
    parts = []
    for g in gradients:
        whole = array_module(g) is not np or not g.flags.c_contiguous
        parts += [g] if whole else [g.reshape(-1)[block] for block in blocks(0, g.size)]

    def part(first: int, last: int) -> None:
        for block in parts[first:last]:
            block *= scale

    parallel_for(array_module(gradients[0]), len(parts), part, cost=_NORM_COST * PIECE)


def layer_norms(named_parameters: Iterable[tuple[str, Parameter]], norm: float) -> dict[str, float]:
    """The Euclidean norm of each layer's gradient, rescaled so that their joint norm is `norm` (before clipping).

    A layer is named by the beginning of its parameters' names, down to the first number: "encoder.layers.0".
    """
    found = [(_layer_of(name), p.grad_or_rows) for name, p in named_parameters if p.grad_or_rows is not None]
    gradients = [gradient.rows if isinstance(gradient, RowGradient) else gradient for _, gradient in found]
    squares: dict[str, float] = {}
    for (layer, _), square in zip(found, squared_norms(gradients), strict=True):
        squares[layer] = squares.get(layer, 0.0) + square
    total = float(np.sqrt(sum(squares.values())))
    factor = norm / total if total > 0 and np.isfinite(total) else 1.0
    return {layer: float(np.sqrt(square)) * factor for layer, square in squares.items()}


def _layer_of(name: str) -> str:
    parts = name.split(".")
    number = next((i for i, part in enumerate(parts) if part.isdecimal()), 0)
    return ".".join(parts[: number + 1])
