"""Optimisers: they change parameters in place from the gradients that backward left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..autograd import Parameter
from ..autograd.backend import array_module

# Elements updated at a time: the block and its scratch stay in the processor's cache between the passes over it.
_BLOCK = 1 << 15


class Adam:
    """Adam with bias correction; with `weight_decay` its decoupled form, AdamW.

    m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  w -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps), and
    before it w -= lr weight_decay w for matrices (not for biases and norms, which are vectors).

    Args:
        parameters: what to update. One without a gradient is left alone.
        lr: learning rate; a schedule may set the attribute before each step.
        betas, eps, weight_decay: as above.

    Source: Kingma and Ba 2015, arXiv 1412.6980, algorithm 1; Loshchilov and Hutter 2019, arXiv 1711.05101.
    Raises ValueError for no parameters or values out of range.
    """

    def __init__(
        self,
        parameters: Iterable[Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ):
        self.parameters = list(parameters)
        if not self.parameters:
            raise ValueError("Adam: there are no parameters to update")
        if not (lr >= 0 and 0 <= betas[0] < 1 and 0 <= betas[1] < 1 and eps >= 0 and weight_decay >= 0):
            raise ValueError(f"Adam: a value is out of range in {lr=}, {betas=}, {eps=}, {weight_decay=}")
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.steps = 0
        self._m = [array_module(p.data).zeros_like(p.data) for p in self.parameters]
        self._v = [array_module(p.data).zeros_like(p.data) for p in self.parameters]

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        self.steps += 1
        b1, b2 = self.betas
        # Both bias corrections fold into the step size and eps: two divisions less for each element.
        correction = (1 - b2**self.steps) ** 0.5
        size = self.lr * correction / (1 - b1**self.steps)
        eps = self.eps * correction
        for parameter, m, v in zip(self.parameters, self._m, self._v, strict=True):
            if parameter.grad is None:
                continue
            decay = self.lr * self.weight_decay if parameter.ndim > 1 else 0.0
            if not all(array.flags.c_contiguous for array in (parameter.data, m, v)):
                # A transposed array, say, can't be seen as flat: its blocks would be copies, and the update lost.
                self._update(parameter.data, parameter.grad, m, v, size, eps, decay)
            else:
                arrays = [array.reshape(-1) for array in (parameter.data, parameter.grad, m, v)]
                for start in range(0, parameter.size, _BLOCK):
                    w, g, m_block, v_block = (array[start : start + _BLOCK] for array in arrays)
                    self._update(w, g, m_block, v_block, size, eps, decay)
            parameter.mark_changed()

    def _update(self, w: Any, g: Any, m: Any, v: Any, size: float, eps: float, decay: float) -> None:
        b1, b2 = self.betas
        m *= b1
        scratch = g * (1 - b1)
        m += scratch
        xp = array_module(g)
        xp.multiply(g, g, out=scratch)
        scratch *= 1 - b2
        v *= b2
        v += scratch
        xp.sqrt(v, out=scratch)
        scratch += eps
        xp.divide(m, scratch, out=scratch)
        scratch *= size
        if decay:
            w *= 1 - decay
        w -= scratch

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on beside the parameters: step count and moments, by position."""
        moments = {f"m.{i}": m for i, m in enumerate(self._m)} | {f"v.{i}": v for i, v in enumerate(self._v)}
        return {"steps": self.steps, "moments": moments}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state_dict`. Raises ValueError, and changes nothing, if it is of other parameters."""
        moments, own = state["moments"], self.state_dict()["moments"]
        if {k: np.shape(m) for k, m in moments.items()} != {k: m.shape for k, m in own.items()}:
            raise ValueError("Adam: this state belongs to parameters of other number or shapes")
        self.steps = int(state["steps"])
        for name, moment in own.items():
            moment[...] = array_module(moment).asarray(moments[name])


def clip_grad_norm(parameters: Iterable[Parameter], max_norm: float | None) -> float:
    """Scale all gradients, in place, so that their joint Euclidean norm is at most `max_norm`; None only measures.

    Returns the norm before clipping, nan or inf if a gradient is. Source: Pascanu et al. 2013, arXiv 1211.5063.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    # The square of a float16 norm would overflow from 256 on.
    wide = [g.astype(np.float32) if g.dtype == np.float16 else g for g in gradients]
    squares = [float(array_module(g).vdot(g, g)) for g in wide]
    norm = float(np.sqrt(sum(squares)))
    if max_norm is not None and norm > max_norm:
        for g in gradients:
            g *= max_norm / norm
    return norm
