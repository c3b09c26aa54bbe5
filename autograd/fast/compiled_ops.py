"""The large ops of a training step, with compiled loops in place of the NumPy calls between matrix products.

The base classes define the products, threads and formulas; loops.py contains the loops. These implementations support
large float32 arrays if Numba is installed (the extra `fast`). docs/log.md lists their speedups.
"""

from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..ops.attention import attention_plain
from ..ops.erf import coefficients, erf_array
from ..ops.linear import linear_activation_plain
from ..ops.linear_cross_entropy import linear_cross_entropy_plain
from ..ops.normalization import LayerNorm, residual_layer_norm_plain
from ..ops.recurrence import lstm_step, recurrence_plain
from ..ops.registry import all_of, implements
from ..quick import replaces
from ..sums import BLOCK
from .attention import StandardAttention, standard
from .compiled import loops, unsupported_reason
from .linear import LinearReLUOnCPU, only_relu
from .linear_cross_entropy import LinearCrossEntropyOnCPU
from .normalization import LayerNormOnCPU, Normalization, ResidualLayerNormOnCPU
from .parallel import parallel_for
from .recurrence import RecurrenceOnCPU


class CompiledNormalization(Normalization):
    """Layer norm in one pass over the rows forward and two backward; with NumPy calls there are about ten each."""

    longest = BLOCK * BLOCK  # it adds sums of BLOCK rows one after another

    def normalize(self, *arguments):
        loops().normalize(*arguments)

    def gradients(self, *arguments):
        loops().normalize_backward(*arguments)


@implements(LayerNorm, "compiled", unsupported_reason)
class LayerNormCompiled(CompiledNormalization, LayerNormOnCPU):
    pass


@implements(residual_layer_norm_plain, "compiled", unsupported_reason)
class ResidualLayerNormCompiled(CompiledNormalization, ResidualLayerNormOnCPU):
    pass


def no_class_weights(arrays: list[Any], options: dict[str, Any]) -> str | None:
    """Condition: there are no class weights."""
    return None if options["class_weight"] is None else "there are class weights"


@implements(linear_cross_entropy_plain, "compiled", all_of(unsupported_reason, no_class_weights))
class LinearCrossEntropyCompiled(LinearCrossEntropyOnCPU):
    """Cross-entropy that reads and writes each row of logits once: the row stays in the cache until its gradient."""

    def softmax(self, z, target, bias, terms, losses, factor, start, stop):
        own, each, total_each, count = terms
        one, factor = z.dtype.type, factor if self.record else None
        loops().cross_entropy(
            z, bias, target.astype(np.int64, copy=False), own, one(each), one(total_each), one(count), losses, factor,
            start, stop,
        )  # fmt: skip


@implements(linear_activation_plain, "compiled", all_of(unsupported_reason, only_relu))
class LinearReLUCompiled(LinearReLUOnCPU):
    """Bias, ReLU and dropout in one pass over the product, their gradient in another, with the same bits as NumPy."""

    def finish(self, y, bias, start, stop):
        keep_mask = None if self.mask is None else self.mask[start:stop]
        loops().relu_dropout(y, bias, keep_mask, y.dtype.type(self.scale))

    def mask_gradient(self, g, out, d):
        loops().relu_backward(np.ascontiguousarray(g), out, d.dtype.type(self.scale), d)


@implements(attention_plain, "compiled", all_of(unsupported_reason, standard))
class StandardAttentionCompiled(StandardAttention):
    """Attention with the softmax in one compiled loop, and with the memory layout of `StandardAttention`."""

    def weigh(self, xp, scores, changes, factor, weights, keep_mask):
        one = scores.dtype.type
        scale = one(1 if changes else self.scale)
        if changes:
            scores *= one(self.scale)
            for change, operand in changes:
                change(scores, operand, out=scores)
        dropped = None if keep_mask is None else np.empty_like(scores)
        loops().attention_weights(columns(scores), scale, one(factor), columns(keep_mask), columns(dropped))
        return scores if dropped is None else dropped

    def scores_gradient(self, d_scores, weights, keep_mask, dots, unscaled):
        loops().attention_backward(
            columns(d_scores), columns(weights), columns(keep_mask), dots.reshape(len(dots), -1),
            d_scores.dtype.type(self.scale), columns(unscaled),
        )  # fmt: skip


def columns(x: Any) -> Any:
    """Reshape (batch, keys, heads, queries) to (batch, keys, heads * queries). For None, return None."""
    return None if x is None else x.reshape(*x.shape[:2], x.shape[2] * x.shape[3])


_erf_by_numpy: Any = erf_array.now  # type: ignore[attr-defined]


@replaces(erf_array)
def erf_by_loop(x: Any) -> Any:
    """Compute the error function. By NumPy's calls, which read and write large arrays fifty times, it takes twenty
    times as long.
    """
    if not isinstance(x, np.ndarray) or unsupported_reason([x], {}):
        return _erf_by_numpy(x)
    out, (series, tail, *line) = np.empty(x.shape, np.float32), coefficients(False)
    constants = tuple(map(np.float32, series)), tuple(map(np.float32, tail)), *map(np.float32, line)
    flat = np.ascontiguousarray(x).reshape(-1), out.reshape(-1)
    parallel_for(np, x.size, partial(loops().erf, *flat, *constants), cost=0.7)
    return out


def lstm_forward(own, bias, x, out, t, h, c):
    c_next = np.empty_like(c)
    loops().lstm_scale(own, bias, x, t)
    np.tanh(own, out=own)  # by NumPy, whose loop has a quicker tanh than Numba's
    loops().lstm(own, c, c_next)
    np.multiply(own[:, -c.shape[1] :], np.tanh(c_next), out=out[:, t])
    return (c_next,), (own, c, c_next)


def lstm_backward(dx, d_own, t, dh, dc, gates, c, c_next):
    before = np.empty_like(c)
    loops().lstm_backward(dx, t, dh, dc, gates, c, np.tanh(c_next), before)
    return [0, before]


def is_lstm(arrays: list[Any], options: dict[str, Any]) -> str | None:
    """Condition: the step is that of an LSTM."""
    return None if options["step"] is lstm_step else "only the LSTM's rules are compiled"


@implements(recurrence_plain, "compiled", all_of(is_lstm, unsupported_reason))
class LSTMCompiled(RecurrenceOnCPU):
    """An LSTM with three passes over a position's gates forward, and one backward."""

    rules: ClassVar[Any] = {lstm_step: (lstm_forward, lstm_backward)}
