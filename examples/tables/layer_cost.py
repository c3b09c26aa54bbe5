"""Counts the cost of layers: multiply-adds, parameters, and bytes of attention weights and of activations. Measures
memory and time of the methods of attention.

The news report's Table 12 states n^2 d + n d^2 per layer, d^2 L parameters, attention weights of n^2 h and activations
of n d L, for n tokens, d features, h heads and L layers; and n m d + n d^2 for cross-attention to m tokens.
"""

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd import Function, Observer, Tensor, no_grad, plain
from ...autograd.backend import import_cupy, to_device, use_device
from ...autograd.ops.attention import attention_plain
from ...autograd.ops.registry import unsupported_reason
from ...nn import Module, MultiHeadAttention, TransformerEncoder, TransformerEncoderLayer
from .stated import Table

#: Counted values and formulas, where w is the width within the feed-forward network.
COST_COLUMNS = {
    "tokens": "n:,d",
    "features": "d:,d",
    "heads": "h:d",
    "layers": "L:d",
    "products": "multiply-adds:,d",
    "products_stated": "L (2 n² d + 4 n d² + 2 n d w):,d",
    "weights": "attention weights (bytes):,d",
    "weights_stated": "4 n² h L:,d",
    "activations": "activations (bytes):,d",
    "activations_share": "numbers, of n d L:.2f",
    "parameters": "parameters:,d",
}
CROSS_COLUMNS = {
    "queries": "n, that attend:,d",
    "keys": "m, attended to:,d",
    "products": "multiply-adds:,d",
    "products_stated": "2 n m d + 2 n d² + 2 m d²:,d",
    "report": "the report's n m d + n d²:,d",
}


class Products(Observer):
    """A counter of the multiply-adds of matrix products, in plain implementations: (m, k) by (k, n) takes m k n."""

    count = 0

    def forward(self, call: Function, arrays: list[Any]) -> Any:
        if call.name in ("MatMul", "Linear"):
            x, y = arrays[:2]
            self.count += x.size * (y.shape[-1] if call.name == "MatMul" else len(y))
        return super().forward(call, arrays)


def multiply_adds(module: Module, *inputs: Tensor) -> int:
    """Count the multiply-adds of the module's forward pass."""
    with Products() as products, plain(), no_grad():  # attention's products are calls of their own then
        module(*inputs)
    return products.count


def held_bytes(encoder: TransformerEncoder, x: Tensor) -> int:
    """Count the bytes that the forward pass keeps for the backward pass, including its output, with tracemalloc."""
    encoder(x)  # so that everything that is created only once exists
    tracemalloc.start()
    try:
        out = encoder(x)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    del out
    return held


def layer_cost(tokens: int, features: int, heads: int, layers: int, wide: int) -> dict[str, Any]:
    """Return the cost of this number of layers for one text, without dropout, as a row for `COST_COLUMNS`.

    `wide` is the width within the feed-forward network. Attention weights are those that standard attention keeps for
    the backward pass; blocked attention never stores all of them.
    """
    x = Tensor(np.random.default_rng(0).standard_normal((1, tokens, features), dtype=np.float32), requires_grad=True)
    standard, blocked = (
        TransformerEncoder([TransformerEncoderLayer(features, heads, wide, 0.0, method=method) for _ in range(layers)])
        for method in ("standard", "blocked")
    )
    activations = held_bytes(blocked, x)
    return {
        "tokens": tokens,
        "features": features,
        "heads": heads,
        "layers": layers,
        "products": multiply_adds(standard, x),
        "products_stated": layers * 2 * tokens * features * (tokens + 2 * features + wide),
        "weights": held_bytes(standard, x) - activations,
        "weights_stated": 4 * layers * tokens * tokens * heads,
        "activations": activations,
        "activations_share": activations / (4 * layers * tokens * features),
        "parameters": standard.parameter_count(),
    }


def cross_cost(queries: int, keys: int, features: int, heads: int) -> dict[str, Any]:
    """Return the cost of cross-attention, projections included, as a row for `CROSS_COLUMNS`."""
    rng = np.random.default_rng(0)
    x, y = (Tensor(rng.standard_normal((1, length, features), dtype=np.float32)) for length in (queries, keys))
    products = queries * keys * features
    return {
        "queries": queries,
        "keys": keys,
        "products": multiply_adds(MultiHeadAttention(features, heads, method="standard"), x, y),
        "products_stated": 2 * products + 2 * (queries + keys) * features**2,
        "report": products + queries * features**2,
    }


def cost_rows(features: int, heads: int, wide: int) -> list[dict[str, Any]]:
    """Return the rows for `COST_COLUMNS` of a layer with these sizes, and of layers with one size changed.

    The feed-forward network grows with the features.
    """
    base = {"tokens": 256, "features": features, "heads": heads, "layers": 1}
    ways = {
        "tokens": (128, 256, 512, 1024),
        "features": (2 * features, 4 * features),
        "heads": tuple(number for number in (1, 16) if features % number == 0),
        "layers": (4,),
    }
    cells = [{**base, size: value} for size, values in ways.items() for value in values]
    return [layer_cost(**cell, wide=wide * cell["features"] // features) for cell in cells]


def cost_tables(features: int, heads: int, wide: int) -> dict[str, Table]:
    """Return the tables of layers and of cross-attention, with these numbers of features and heads."""
    cross = [cross_cost(n, m, features, heads) for n, m in ((32, 64), (64, 64), (64, 512), (512, 64))]
    return {"costs": (cost_rows(features, heads, wide), COST_COLUMNS), "cross": (cross, CROSS_COLUMNS)}


def peak_bytes(run: Callable[[], Any], device: str) -> int:
    """Return the peak memory of a call of `run`, without the memory already in use before the call."""
    if device == "cpu":
        tracemalloc.start()
        try:
            run()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    cupy = import_cupy()
    pool = cupy.get_default_memory_pool()
    cupy.cuda.Device().synchronize()
    pool.free_all_blocks()
    before = pool.total_bytes()
    run()
    cupy.cuda.Device().synchronize()
    return pool.total_bytes() - before


def methods_on(device: str) -> tuple[str, str]:
    """Return the standard method and either the fused method, if the device can run it, or the blocked method."""
    use_device(device)
    small = (to_device(np.zeros((1, 1, 1, 8), np.float16), device),) * 3
    missing = unsupported_reason(attention_plain, "fused", small, method="fused", return_weights=False)
    return "standard", "blocked" if missing else "fused"


def seconds(run: Callable[[], Any], repeats: int, device: str) -> float:
    """Return the median time of several calls of `run`, after one call for warm-up."""

    def once() -> float:
        start = time.perf_counter()
        run()
        if device != "cpu":
            import_cupy().cuda.Device().synchronize()
        return time.perf_counter() - start

    once()
    return sorted(once() for _ in range(repeats))[repeats // 2]
