"""What encoder layers cost, counted: multiply-adds, bytes of attention weights and of activations, over their sizes.

The news report's Table 12 states n^2 d + n d^2 a layer, attention weights of n^2 h and activations of n d L, for n
tokens, d features, h heads and L layers.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np

from ...autograd import Function, Observer, Tensor, no_grad, plain, start_observing, stop_observing
from ...nn import TransformerEncoder, TransformerEncoderLayer

SIZES = {"n": "tokens n", "d": "features d", "h": "heads h", "L": "layers L"}
POINT_COLUMNS = {
    **{name: f"{words}:,d" for name, words in SIZES.items()},
    "products": "multiply-adds (10^6):,.2f",
    "products_stated": "by formula:,.2f",
    "weights": "attention weights (MB):.3f",
    "weights_stated": "by formula:.3f",
    "activations": "activations (MB):.3f",
    "activations_stated": "by formula:.3f",
}
EXPONENT_COLUMNS = {"what": "exponent of", **{name: f"in {name}:.2f" for name in SIZES}}
QUANTITIES = {
    "products": "multiply-adds",
    "weights": "bytes of attention weights",
    "activations": "bytes of activations",
}


class Products(Observer):
    """Multiply-adds of the matrix products of plain forms, by their operands' shapes: (m, k) by (k, n) has m k n."""

    count = 0

    def forward(self, call: Function, arrays: list[Any]) -> Any:
        if call.name in ("matmul", "linear"):
            x, y = arrays[:2]
            self.count += x.size * (y.shape[-1] if call.name == "matmul" else len(y))
        return super().forward(call, arrays)


def multiply_adds(encoder: TransformerEncoder, x: Tensor) -> int:
    """Of the encoder's forward pass."""
    products = start_observing(Products())
    try:
        with plain(), no_grad():  # its products are calls of their own, in attention too
            encoder(x)
    finally:
        stop_observing(products)
    return products.count


def held_bytes(encoder: TransformerEncoder, x: Tensor) -> int:
    """What the forward pass keeps for the backward pass, its output included, counted by tracemalloc."""
    encoder(x)  # so that what is made once is there
    tracemalloc.start()
    try:
        out = encoder(x)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    del out
    return held


def layer_cost(n: int, d: int, h: int, layers: int, wide: int) -> dict[str, Any]:
    """The costs of `layers` layers on one text of n tokens, without dropout, beside the formulas.

    Attention weights are what standard attention keeps and blocked attention, which never holds them, does not. By
    the formulas a layer makes 2 n^2 d + 4 n d^2 + 2 n d `wide` multiply-adds, `wide` the features within its
    feed-forward network, and keeps n^2 h weights of four bytes and 6 n d + n `wide` activations: the inputs of its
    two sublayers, queries, keys, values and attention's output; what the two norms keep comes to 2 n d more.
    """
    x = Tensor(np.random.default_rng(0).standard_normal((1, n, d), dtype=np.float32), requires_grad=True)
    standard, blocked = (
        TransformerEncoder([TransformerEncoderLayer(d, h, wide, 0.0, method=method) for _ in range(layers)])
        for method in ("standard", "blocked")
    )
    without = held_bytes(blocked, x)
    return {
        "n": n, "d": d, "h": h, "L": layers,
        "products": multiply_adds(standard, x) / 1e6,
        "products_stated": layers * (2 * n * n * d + 4 * n * d * d + 2 * n * d * wide) / 1e6,
        "weights": (held_bytes(standard, x) - without) / 1e6,
        "weights_stated": layers * 4 * n * n * h / 1e6,
        "activations": without / 1e6,
        "activations_stated": layers * 4 * (8 * n * d + n * wide) / 1e6,
    }  # fmt: skip
