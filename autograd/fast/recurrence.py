"""Recurrent layers for NumPy arrays: the backward pass needs one product per position, and one product of all positions
for the gradient of the weight.

A rule computes position t for all rows of the batch. A forward rule gets the product W h, which it may overwrite, the
bias, x and the state; it writes the next h into `out`, and returns the rest of the state and the values that the
backward rule needs. A backward rule gets the gradients of the next state and these values; it writes the gradients of x
and of W h + b into `dx` and `d_own` (one array unless the two differ), and returns the gradients of the state apart
from its path through the product.
"""

from typing import Any, ClassVar

import numpy as np

from ..ops.linalg import product, rows_of
from ..ops.recurrence import gru_step, lstm_step, recurrence_plain, rnn_step
from ..ops.registry import QuickImplementation, implements, on_cpu
from ..sums import summed
from .buffers import buffer


def sigmoids(a):
    """Replace a by its sigmoids."""
    a *= 0.5
    np.tanh(a, out=a)
    a *= 0.5
    a += 0.5


def by_gate(a, width):
    """Return a view (gates, batch, width) of an array (batch, gates width)."""
    return a.reshape(len(a), a.shape[1] // width, width).swapaxes(0, 1)


def rnn(own, bias, x, out, t, h):
    own += bias
    own += x[:, t]
    np.tanh(own, out=out[:, t])
    return (), (out[:, t],)


def rnn_backward(dx, d_own, t, dh, after):
    np.multiply(dh, 1 - after * after, out=dx[:, t])
    return [0]


def lstm(own, bias, x, out, t, h, c):
    own += bias
    own += x[:, t]
    gates = i, f, g, o = by_gate(own, h.shape[1])
    np.tanh(g, out=g)
    sigmoids(gates[:2])
    sigmoids(o)
    c_next = f * c
    c_next += i * g
    np.multiply(o, np.tanh(c_next), out=out[:, t])
    return (c_next,), (own, c, c_next)


def lstm_backward(dx, d_own, t, dh, dc, gates, c, c_next):
    i, f, g, o = by_gate(gates, c.shape[1])
    tanh_c = np.tanh(c_next)
    dc = dc + dh * o * (1 - tanh_c * tanh_c)
    d = dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g * g), dh * tanh_c * o * (1 - o)
    np.concatenate(d, 1, out=dx[:, t])
    return [0, dc * f]


def gru(own, bias, x, out, t, h):
    own += bias
    (r, z, n), width = by_gate(own, h.shape[1]), 2 * h.shape[1]
    own[:, :width] += x[:, t, :width]
    sigmoids(own[:, :width])
    candidate = np.tanh(x[:, t, width:] + r * n)
    np.add(candidate, z * (h - candidate), out=out[:, t])
    return (), (own, candidate, h)


def gru_backward(dx, d_own, t, dh, gates, candidate, h):
    r, z, n = by_gate(gates, h.shape[1])
    dn = dh * (1 - z) * (1 - candidate * candidate)
    dr, dz = dn * n * r * (1 - r), dh * (h - candidate) * z * (1 - z)
    np.concatenate((dr, dz, dn), 1, out=dx[:, t])
    np.concatenate((dr, dz, dn * r), 1, out=d_own[:, t])
    return [dh * z]


RULES: dict[Any, Any] = {rnn_step: (rnn, rnn_backward), lstm_step: (lstm, lstm_backward), gru_step: (gru, gru_backward)}


@implements(recurrence_plain, "cpu", lambda a, o: on_cpu(a, o) if o["step"] in RULES else "the step has no rules")
class RecurrenceOnCPU(QuickImplementation):
    rules: ClassVar[Any] = RULES

    def forward(self, x, weight, bias, h, *state):
        self.save(x, weight, bias, h, *state)
        rule, transposed, kept = self.rules[self.step][0], np.ascontiguousarray(weight.T), []
        x, state = np.ascontiguousarray(x), tuple(map(np.ascontiguousarray, state))
        out = np.empty((*x.shape[:2], weight.shape[1]), x.dtype)
        products = buffer((x.shape[1], len(x), len(weight)), x.dtype)
        for t in range(x.shape[1]):
            state, needed = rule(product(h, transposed, out=products[t]), bias, x, out, t, h, *state)
            h = out[:, t]
            kept += needed
        self.keep(out, *kept)
        return out, h.copy(), *state

    def backward(self, g, *last):
        (x, weight, _, h, *_), (out, *kept) = self.saved, self.kept
        d = [np.zeros_like(h) if part is None else np.ascontiguousarray(part) for part in last]
        dx, each, rule = buffer(x.shape, x.dtype), len(kept) // x.shape[1], self.rules[self.step][1]
        d_own = buffer(x.shape, x.dtype) if self.step is gru_step else dx
        for t in reversed(range(x.shape[1])):
            d[0] = d[0] if g is None else d[0] + g[:, t]
            d = rule(dx, d_own, t, *d, *kept[t * each : (t + 1) * each])
            d[0] = d[0] + product(d_own[:, t], weight)
        rows, before = rows_of(d_own), rows_of(np.concatenate((h[:, None], out[:, :-1]), 1))
        return dx, product(rows.T, before), summed(rows, 0), *d
