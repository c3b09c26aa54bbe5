"""Compute all layers of a decoding step as one sequence of compiled jobs.

A step of a small model consists of dozens of computations of 5 to 100 microseconds. Calling each of them from Python
takes 20 to 50 microseconds more, in which the other threads wait. Here the computations of a step are a table, with a
row of sizes and addresses for each job. The sizes and the addresses of the cache are entered anew in each step, and the
team computes all jobs without returning to Python.

The formulas are the ones of `raw_layers.RawLayer`, for one new token per sequence, ReLU, and scores that do not depend
on positions. `raw_layers.RawLayer` computes all other layers.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....autograd.fast.loops import inlined
from ....nn import LayerNorm
from ..cache import TreeCache
from ..raw_layers import RawAttention
from .few_queries import attention, bias_in_memory
from .few_rows import linear
from .team import FLOAT, INTEGER, PARTS, floats, integers, job, run_all

_WIDTH = 20  # arguments of a job, at most


@inlined
def _normalise(x, weight, bias, eps, y):
    """Compute the layer norm y of one row x; y can be x."""
    features = x.size
    total, squares = np.float32(0), np.float32(0)
    for j in range(features):
        total += x[j]
    mean = total / np.float32(features)
    for j in range(features):
        squares += (x[j] - mean) * (x[j] - mean)
    r = np.float32(1) / np.sqrt(squares / np.float32(features) + eps)
    for j in range(features):
        y[j] = (x[j] - mean) * r * weight[j] + bias[j]


@job
def norm(arguments, part):
    """Compute the layer norm of some rows; the arguments are sizes and addresses."""
    rows, features, x_at, weight_at, bias_at, eps_at, y_at = integers(arguments, 7)
    weight, bias, eps = floats(weight_at, features), floats(bias_at, features), floats(eps_at, 1)[0]
    for row in range(rows * part // PARTS, rows * (part + 1) // PARTS):
        place = row * features * FLOAT
        _normalise(floats(x_at + place, features), weight, bias, eps, floats(y_at + place, features))


@job
def remember(arguments, part):
    """Copy new keys and values of some sentences into the cache, as nodes from `first` on.

    The arguments are sizes, the address of the first key, the bytes from one row to the next, the addresses of the
    cache's keys and values, and their bytes from one sentence and head to the next.
    """
    sentences, heads, width, head_dim, first, new_at, step = integers(arguments, 7)
    for which in range(2):
        cache_at = integers(arguments + (7 + which) * INTEGER, 1)[0]
        steps = integers(arguments + (9 + 2 * which) * INTEGER, 2)
        for sentence in range(sentences * part // PARTS, sentences * (part + 1) // PARTS):
            for i in range(width):
                row_at = new_at + (sentence * width + i) * step
                for head in range(heads):
                    new = floats(row_at + (which * heads + head) * head_dim * FLOAT, head_dim)
                    node_at = cache_at + sentence * steps[0] + head * steps[1] + (first + i) * head_dim * FLOAT
                    node = floats(node_at, head_dim)
                    for k in range(head_dim):
                        node[k] = new[k]


class Layers:
    """The layers of a decoder that `supported` accepts as a table of jobs, for one DecodingState."""

    def __init__(self, decoder: Any):
        self.decoder, self.rows = decoder, 0
        # Copies, because the jobs read addresses: a parameter's array can have another dtype, or be replaced later.
        norms = (one.norm for layer in decoder.layers for one in layer.norms)
        given = ((norm.weight.data, norm.bias.data, [norm.eps]) for norm in norms)
        self._norms = [[np.array(numbers, np.float32, order="C") for numbers in norm] for norm in given]

    def __call__(
        self, x: np.ndarray, cache: TreeCache, cross: Sequence[tuple[Any, Any]], bias: Any, cross_bias: Any
    ) -> np.ndarray:
        """Return the output (rows, d_model) of the last layer for the embeddings x of one new token of each sequence.

        The cache already contains the new nodes. `cross` are keys and values (sentences or more, heads, length,
        head_dim) of each layer with cross-attention; for the biases see `raw_layers.attend`.
        """
        rows = len(x)
        if rows > self.rows:
            self._lay_out(rows)
        self.x[:rows] = x
        self.table[self.by_rows, 0] = rows
        own = list(zip(cache.keys, cache.values, strict=True))
        arrays = [self._enter(self.own, own, cache, cache.length, bias)]
        first = cache.length - cache.width
        for row in self.own:  # the job before it writes the new keys and values into the same cache
            self.table[row - 1, [0, 2, 4]] = cache.sentences, cache.width, first
            self.table[row - 1, 7:13] = self.table[row, [9, 10, 13, 14, 15, 16]]
        if self.cross:
            arrays.append(self._enter(self.cross, cross, cache, cross[0][0].shape[2], cross_bias))
        run_all(self.functions, self.table)
        del arrays  # not earlier: the jobs read them
        return self.x[:rows]

    def _enter(
        self, places: list[int], pairs: Sequence[tuple[Any, Any]], cache: TreeCache, length: int, bias: Any
    ) -> np.ndarray:
        """Enter what the `attention` jobs at these places of the table read in this step; return the bias."""
        heads = self.decoder.layers[0].own.heads
        bias_at, bias_steps, array = bias_in_memory(bias, cache.sentences, heads, cache.width, length)
        for row, (keys, values) in zip(places, pairs, strict=True):
            self.table[row, [0, 2, 3]] = cache.sentences, cache.width, length
            self.table[row, 9:12] = keys.ctypes.data, values.ctypes.data, bias_at
            self.table[row, 13:20] = *keys.strides[:2], *values.strides[:2], *bias_steps
        return array

    def _lay_out(self, rows: int) -> None:
        """Allocate the intermediate arrays for this number of rows, and write the table."""
        self.rows = 0  # until the table is complete, which an interrupt can prevent
        layers, norms = self.decoder.layers, iter(self._norms)
        own = layers[0].own
        d_model, inner = own.project_new.in_features, own.heads * own.head_dim
        self.x, self.y = (np.empty((rows, d_model), np.float32) for _ in range(2))
        self.new = np.empty((rows, own.project_new.out_features), np.float32)
        self.merged = np.empty((rows, inner), np.float32)
        self.hidden = np.empty((rows, layers[0].linear1.out_features), np.float32)
        self._jobs: list[tuple[Callable[[], Any], tuple[int, ...]]] = []
        self.own: list[int] = []
        self.cross: list[int] = []
        for layer in layers:
            for attend in (layer.own, layer.cross):
                if attend is not None:
                    start = self._before(next(norms)) if layer.norm_first else self.x
                    self._linear(attend.project_new, start, self.new)
                    self._attend(attend, cross=attend is layer.cross)
                    self._linear(attend.project_out, self.merged, self.x, add=True)
                    if not layer.norm_first:
                        self._norm(next(norms), self.x)
            start = self._before(next(norms)) if layer.norm_first else self.x
            self._linear(layer.linear1, start, self.hidden, relu=True)
            self._linear(layer.linear2, self.hidden, self.x, add=True)
            if not layer.norm_first:
                self._norm(next(norms), self.x)
        self.functions = np.array([function().address for function, _ in self._jobs], np.int64)
        self.table = np.array([[*given, *[0] * (_WIDTH - len(given))] for _, given in self._jobs], np.int64)
        self.by_rows = np.array([i for i, (function, _) in enumerate(self._jobs) if function in (linear, norm)])
        self.rows = rows

    def _before(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        self._norm(arrays, self.y)
        return self.y

    def _norm(self, arrays: Sequence[np.ndarray], y: np.ndarray) -> None:
        places = (array.ctypes.data for array in (self.x, *arrays, y))
        self._jobs.append((norm, (0, self.x.shape[1], *places)))

    def _linear(self, layer: Any, x: np.ndarray, y: np.ndarray, *, relu: bool = False, add: bool = False) -> None:
        sizes = 0, layer.in_features, len(layer.blocks), layer.out_features, y.shape[1]
        places = (array.ctypes.data for array in (x, layer.blocks, layer.bias, y))
        self._jobs.append((linear, (*sizes, *places, relu, add)))

    def _attend(self, layer: RawAttention, cross: bool) -> None:
        """Add the jobs that write the cache and attend to it; `__call__` enters what changes from step to step."""
        step, inner = self.new.strides[0], layer.heads * layer.head_dim
        at, group = self.new.ctypes.data, layer.heads // layer.kv_heads
        if not cross:
            new_keys = at + inner * FLOAT
            self._jobs.append((remember, (0, layer.kv_heads, 0, layer.head_dim, 0, new_keys, step)))
        (self.cross if cross else self.own).append(len(self._jobs))
        sizes = 0, layer.heads, 0, 0, layer.head_dim, group, step, True
        self._jobs.append((attention, (*sizes, at, 0, 0, 0, self.merged.ctypes.data)))


def supported(decoder: Any) -> bool:
    """Return whether `Layers` computes what the layers of this decoder, whose weights are packed, compute."""
    layers = decoder.layers
    packed = [[one.blocks is not None for one in layer.affines()] for layer in layers]
    if not all(blocks and all(blocks) for blocks in packed):
        return False  # layers of one's own
    # The jobs read and write at addresses, in arrays with the sizes of the first layer.
    sizes = {(layer.own.heads, *((one.in_features, one.out_features) for one in layer.affines())) for layer in layers}
    norms = [one.norm for layer in layers for one in layer.norms]
    return (
        len(sizes) == 1
        and all(layer.activation == "relu" and layer.own.position_scores is None for layer in layers)
        and all(type(one) is LayerNorm and one.by_op for one in norms)
    )
