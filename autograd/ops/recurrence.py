"""Recurrent layers over a whole sequence: one step of each in small ops, then quick rules for the CPU, whose backward
pass needs one product per position, and one product of all positions for the gradient of the weight.
"""

from typing import Any

import numpy as np

from ..sums import summed
from ..tensor import Tensor
from .activation import sigmoid
from .elementwise import promoted
from .joining import split, stack
from .linalg import product, rows_of
from .linear import linear
from .reduction import narrowed, widened
from .registry import QuickImplementation, declare, dispatch, implements, on_cpu
from .trigonometric import tanh


def rnn_step(from_input: Any, state: Any, weight: Any, bias: Any) -> tuple[Tensor, ...]:
    return (tanh(from_input + linear(state[0], weight, bias)),)


def lstm_step(from_input: Any, state: Any, weight: Any, bias: Any) -> tuple[Tensor, ...]:
    h, c = state
    i, f, g, o = split(from_input + linear(h, weight, bias), 4, axis=1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


def gru_step(from_input: Any, state: Any, weight: Any, bias: Any) -> tuple[Tensor, ...]:
    (h,) = state
    r, z, n = split(from_input, 3, axis=1)
    own_r, own_z, own_n = split(linear(h, weight, bias), 3, axis=1)
    candidate = tanh(n + sigmoid(r + own_r) * own_n)
    return (candidate + sigmoid(z + own_z) * (h - candidate),)


def recurrence_plain(x: Any, weight: Any, bias: Any, *state: Any, step: Any) -> tuple[Tensor, ...]:
    outputs = []
    for from_input in split(x, x.shape[1], axis=1):
        state = step(from_input.reshape(x.shape[0], x.shape[2]), state, weight, bias)
        outputs.append(state[0])
    return stack(outputs, axis=1), *state


@declare(lambda *arrays, step: tuple(part.data for part in recurrence_plain(*arrays, step=step)), composed=True)
def recurrence(x: Any, weight: Any, bias: Any, *state: Any, step: Any) -> tuple[Tensor, ...]:
    """Call step(x[:, t], state, weight, bias) for each position of x (batch, length, features), to get the next state:
    a tuple of arrays (batch, hidden_size). Return the first arrays of all states (batch, length, hidden_size), then the
    last state. float16 is computed in float32. Raises ValueError for an empty sequence or shapes that don't fit.
    """
    if any(part is None for part in (x, weight, bias, *state)):
        raise TypeError("x, weight, bias and the arrays of the state must be arrays, not None")
    x, weight, bias, *state = promoted(x, weight, bias, *state)  # type: ignore[assignment]
    fits = x.shape[2:] == weight.shape[:1] == bias.shape and {part.shape for part in state} == {
        (len(x), weight.shape[1])
    }
    if not fits or not x.shape[1]:
        raise ValueError(f"x is empty or does not fit the state {[part.shape for part in state]}")
    found = dispatch(recurrence_plain, tuple(map(widened, (x, weight, bias, *state))), step=step)
    return tuple(narrowed(part, x) for part in found)


# Forward rules get the product W h + b, x and the state, and return the next state and the values that the backward
# rules need. These return the gradients of x, of the product, and of the state apart from its path through the product.


def sigmoids(a):
    return np.tanh(a * 0.5) * 0.5 + 0.5


def rnn(own, x, h):
    after = np.tanh(own + x)
    return (after,), (after,)


def rnn_backward(dh, after):
    d = dh * (1 - after * after)
    return d, d, [0]


def lstm(own, x, h, c):
    a = (own + x).reshape(len(x), 4, h.shape[1]).swapaxes(0, 1)
    g, (i, f, _, o) = np.tanh(a[2]), sigmoids(a)
    c_next = f * c + i * g
    tanh_c = np.tanh(c_next)
    return (o * tanh_c, c_next), (i, f, g, o, c, tanh_c)


def lstm_backward(dh, dc, i, f, g, o, c, tanh_c):
    dc = dc + dh * o * (1 - tanh_c * tanh_c)
    gates = dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g * g), dh * tanh_c * o * (1 - o)
    d = np.concatenate(gates, 1)
    return d, d, [0, dc * f]


def gru(own, x, h):
    (r, z, n), (x_r, x_z, x_n) = (a.reshape(len(x), 3, h.shape[1]).swapaxes(0, 1) for a in (own, x))
    r, z = sigmoids(r + x_r), sigmoids(z + x_z)
    candidate = np.tanh(x_n + r * n)
    return (candidate + z * (h - candidate),), (r, z, n, candidate, h)


def gru_backward(dh, r, z, n, candidate, h):
    dn = dh * (1 - z) * (1 - candidate * candidate)
    dr, dz = dn * n * r * (1 - r), dh * (h - candidate) * z * (1 - z)
    return np.concatenate((dr, dz, dn), 1), np.concatenate((dr, dz, dn * r), 1), [dh * z]


RULES: dict[Any, Any] = {rnn_step: (rnn, rnn_backward), lstm_step: (lstm, lstm_backward), gru_step: (gru, gru_backward)}


@implements(recurrence_plain, "cpu", lambda a, o: on_cpu(a, o) if o["step"] in RULES else "the step has no rules")
class Recurrence(QuickImplementation):
    def forward(self, x, weight, bias, *state):
        self.save(x, weight, bias, *state)
        transposed, hidden, kept = np.ascontiguousarray(weight.T), [state[0]], []
        for t in range(x.shape[1]):
            state, needed = RULES[self.step][0](product(hidden[t], transposed) + bias, x[:, t], *state)
            hidden.append(state[0])
            kept += needed
        self.keep(*kept, np.stack(hidden[:-1], 1))
        return np.stack(hidden[1:], 1), *state

    def backward(self, g, *last):
        (x, weight, *_), (*kept, hidden), d = self.saved, self.kept, [0 if part is None else part for part in last]
        dx, each = np.empty_like(x), len(kept) // x.shape[1]
        d_own = np.empty_like(x) if self.step is gru_step else dx
        for t in reversed(range(x.shape[1])):
            d[0] = d[0] if g is None else d[0] + g[:, t]
            dx[:, t], own, d = RULES[self.step][1](*d, *kept[t * each : (t + 1) * each])
            d_own[:, t] = own
            d[0] = d[0] + product(own, weight)
        rows = rows_of(d_own)
        return dx, product(rows.T, rows_of(hidden)), summed(rows, 0), *d
