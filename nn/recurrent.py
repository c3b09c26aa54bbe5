"""Recurrent layers: RNN, LSTM and GRU. Parameter names and layouts are PyTorch's.

One matrix product per layer computes all products with the inputs. The op `recurrence` computes the products with the
previous state, one position at a time.
"""

import math
from typing import Any

import numpy as np

from ..autograd import Parameter, Tensor, ops
from ..autograd.backend import to_device
from ..autograd.ops.recurrence import gru_step, lstm_step, rnn_step
from . import init
from .dropout import Dropout
from .module import Module

State = tuple[Tensor, ...]


class Recurrent(Module):
    """The base class of RNN, LSTM and GRU, a stack of recurrent layers. A subclass defines one step.

    Parameters of layer k: `weight_ih_lk` (gates hidden_size, input features), `weight_hh_lk` (gates hidden_size,
    hidden_size), `bias_ih_lk` and `bias_hh_lk` (gates hidden_size,). All initial values are uniform in
    +-1/sqrt(hidden_size). `dropout` applies to the output of every layer but the last. If `input_size` is None, the
    first layer has neither `weight_ih_l0` nor `bias_ih_l0`. Its inputs (batch, length, gates hidden_size) must then be
    the products, for example rows of a table.

    Raises ValueError for sizes below 1.
    """

    gates: int  # blocks in the weights, in PyTorch's order
    states: int = 1  # arrays that a layer carries from step to step
    weight_hh_l0: Parameter
    step: Any  # function of W_ih x + b_ih (batch, gates hidden_size), the state with h first, W_hh and b_hh: next state

    def __init__(self, input_size: int | None, hidden_size: int, num_layers: int = 1, dropout: float = 0.0):
        if min(1 if input_size is None else input_size, hidden_size, num_layers) < 1:
            raise ValueError(f"sizes must be at least 1, not {input_size=}, {hidden_size=}, {num_layers=}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.dropout = Dropout(dropout)
        bound = 1 / math.sqrt(hidden_size)
        rows = self.gates * hidden_size
        for layer in range(num_layers):
            columns = hidden_size if layer else input_size
            shapes = {"weight_ih": (rows, columns), "weight_hh": (rows, hidden_size), "bias_ih": rows, "bias_hh": rows}
            for name, shape in shapes.items():
                if columns is not None or name.endswith("hh"):
                    parameter = Parameter(np.empty(shape, np.float32))
                    init.uniform_(parameter, -bound, bound)
                    setattr(self, f"{name}_l{layer}", parameter)

    def forward(self, x: Tensor, state: list[State] | None = None) -> tuple[Tensor, list[State]]:
        """Map x (batch, length, input_size) to the last layer's outputs (batch, length, hidden_size), and the state.

        Args:
            state: the initial state, such as the state that an earlier call returned; None means zeros. The state is a
                list with one entry per layer: h (batch, hidden_size) for RNN and GRU, h and c for LSTM.

        Raises ValueError for an empty sequence, or for x or a state of another form.
        """
        if len(x.shape) != 3 or x.shape[1] < 1:
            wanted = "(batch, length, input_size) with at least one position"
            raise ValueError(f"{type(self).__name__}: x must have the shape {wanted}, not {x.shape}")
        form = [[(x.shape[0], self.hidden_size)] * self.states] * self.num_layers
        if state is not None and [[getattr(x, "shape", None) for x in of_layer] for of_layer in state] != form:
            raise ValueError(f"{type(self).__name__}: the state must be a list of tuples of Tensors with shapes {form}")
        if state is None:
            zeros = ops.zeros_like(x[:, 0, :1]) * ops.zeros_like(self.weight_hh_l0[:1])  # (batch, hidden_size)
            state = [(zeros,) * self.states] * self.num_layers
        final: list[State] = []
        for layer, of_layer in enumerate(state):
            weight_hh, bias_hh = getattr(self, f"weight_hh_l{layer}"), getattr(self, f"bias_hh_l{layer}")
            if layer or self.input_size is not None:
                x = ops.linear(x, getattr(self, f"weight_ih_l{layer}"), getattr(self, f"bias_ih_l{layer}"))
            x, *following = ops.recurrence(x, weight_hh, bias_hh, *of_layer, step=self.step)
            final.append(tuple(following))
            if layer < self.num_layers - 1:
                x = self.dropout(x)
        return x, final

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}"


class RNN(Recurrent):
    """The simple recurrent network: h' = tanh(W_ih x + b_ih + W_hh h + b_hh).
    Source: Elman 1990, "Finding structure in time".
    """

    gates = 1
    step = staticmethod(rnn_step)


class LSTM(Recurrent):
    """With (i, f, g, o) = W_ih x + b_ih + W_hh h + b_hh: c' = s(f) c + s(i) tanh(g), h' = s(o) tanh(c'), s the sigmoid.
    Source: Hochreiter and Schmidhuber 1997; forget gate: Gers et al. 2000.
    """

    gates, states = 4, 2
    step = staticmethod(lstm_step)


class GRU(Recurrent):
    """With (r, z, n) = W_ih x + b_ih and (r', z', n') = W_hh h + b_hh, s the sigmoid: the candidate is
    m = tanh(n + s(r + r') n'), and h' = m + s(z + z') (h - m).

    Source: Cho et al. 2014, arXiv 1406.1078, with the reset gate after the product, as in PyTorch.
    """

    gates = 3
    step = staticmethod(gru_step)


def select_rows(state: list[State], rows: Any) -> list[State]:
    """Return the state of the batch rows `rows`, in this order."""
    return [tuple(Tensor(x.data[to_device(rows, x.device)]) for x in of_layer) for of_layer in state]
