"""Recurrent layers over a whole sequence, with one step of each in small ops."""

from typing import Any

from ..half import in_float32
from ..tensor import Tensor
from .activation import sigmoid
from .elementwise import promoted
from .joining import split, stack
from .linear import linear
from .registry import declare, dispatch
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
    return _recurrence(x, weight, bias, *state, step=step)


@in_float32
def _recurrence(*operands: Any, step: Any) -> tuple[Tensor, ...]:
    return dispatch(recurrence_plain, operands, step=step)
