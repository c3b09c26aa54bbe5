"""The matrix products of a training step; their time is a lower bound for frameworks that use the same libraries.

If MKL is installed (the extra `mkl`), a product is timed with NumPy and with MKL, and the shorter time is used. For a
product with MKL, handloom's threads each compute a part of the columns.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.train_step_models import Size
from handloom.autograd.fast import mkl
from handloom.autograd.fast.mkl import multiply
from handloom.autograd.fast.parallel import FLOPS, parallel_for
from handloom.autograd.fast.products import divided_product

#: (number of independent products, rows, inner dimension, columns)
Product = tuple[int, int, int, int]
Multiply = Callable[[np.ndarray, np.ndarray, np.ndarray], Any]


def forward_products(size: Size) -> Counter[Product]:
    """Return each product of the forward pass with its number of occurrences. Masked scores are computed too."""
    d, wide, heads, head_dim = size.d_model, size.dim_feedforward, size.heads, size.d_model // size.heads
    found: Counter[Product] = Counter()

    def linear(rows: int, inner: int, columns: int, times: int) -> None:
        found[1, rows, inner, columns] += times

    def attend(queries: int, keys: int, times: int) -> None:
        found[size.batch * heads, queries, head_dim, keys] += times  # query times key
        found[size.batch * heads, queries, keys, head_dim] += times  # weights times value

    source, target, n = size.batch * size.source, size.batch * size.target, size.layers
    for rows, length, own in ((source, size.source, True), (target, size.target, size.kind == "seq2seq")):
        if own:
            linear(rows, d, 3 * d, n)
            attend(length, length, n)
            linear(rows, d, d, n)
            linear(rows, d, wide, n)
            linear(rows, wide, d, n)
    if size.kind == "seq2seq":
        linear(target, d, d, 2 * n)  # the query and output projections of cross-attention
        linear(source, d, 2 * d, n)
        attend(size.target, size.source, n)
    rows = {"seq2seq": target, "language model": source, "classifier": size.batch}[size.kind]
    linear(rows, d, size.classes or size.vocabulary, 1)
    return found


def step_products(size: Size) -> Counter[Product]:
    """Return the products of both passes; the gradients of A @ B need two more products of the same size."""
    found: Counter[Product] = Counter()
    for (batch, m, k, n), times in forward_products(size).items():
        for product in ((batch, m, k, n), (batch, m, n, k), (batch, k, m, n)):
            found[product] += times
    return found


def seconds(products: Counter[Product], repeat: int = 3) -> float:
    """Return the time of all products in float32: for each the shortest of `repeat` times, with the same arrays."""
    return sum(
        times * min(_time(product, by, repeat) for by in _libraries(product)) for product, times in products.items()
    )


def _by_mkl(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    def part(start: int, stop: int) -> None:
        multiply(a, b[:, start:stop], out[:, start:stop])

    parallel_for(np, b.shape[1], part, cost=a.size / FLOPS)


def _libraries(product: Product) -> list[Multiply]:
    return [divided_product, _by_mkl] if mkl.missing() is None and product[0] == 1 else [divided_product]


def _time(product: Product, by: Multiply, repeat: int) -> float:
    """Return the seconds of a product: the shortest of `repeat` times, after one run that is not timed."""
    batch, m, k, n = product
    generator = np.random.default_rng(0)
    lead = () if batch == 1 else (batch,)
    a, b = (generator.standard_normal((*lead, *shape), dtype=np.float32) for shape in ((m, k), (k, n)))
    out, best = np.ones((*lead, m, n), np.float32), float("inf")
    by(a, b, out)
    for _ in range(repeat):
        begin = time.perf_counter()
        by(a, b, out)
        best = min(best, time.perf_counter() - begin)
    return best
