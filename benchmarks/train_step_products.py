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
from handloom.autograd.fast.parallel import FLOPS, parallel_for
from handloom.autograd.fast.products import divided_product

#: (number of independent products, rows, inner dimension, columns)
Product = tuple[int, int, int, int]
Multiply = Callable[[np.ndarray, np.ndarray, np.ndarray], Any]


def forward_products(size: Size) -> list[Product]:
    """Return the products of the forward pass. Masked scores are computed too."""
    d, wide, head_dim = size.d_model, size.dim_feedforward, size.d_model // size.heads
    source, target = size.batch * size.source, size.batch * size.target

    def attention(queries: int, keys: int) -> list[Product]:
        count = size.batch * size.heads
        return [(count, queries, head_dim, keys), (count, queries, keys, head_dim)]

    def layer(length: int) -> list[Product]:
        rows = size.batch * length
        projections = [(1, rows, d, 3 * d), (1, rows, d, d)]
        return [*projections, *attention(length, length), (1, rows, d, wide), (1, rows, wide, d)]

    layers = layer(size.source)
    if size.kind == "seq2seq":
        cross_attention = [(1, target, d, d), (1, source, d, 2 * d), *attention(size.target, size.source)]
        layers += [*layer(size.target), *cross_attention, (1, target, d, d)]
    rows = {"seq2seq": target, "language model": source, "classifier": size.batch}[size.kind]
    return [*layers * size.layers, (1, rows, d, size.classes or size.vocabulary)]


def step_products(size: Size) -> Counter[Product]:
    """Count the products of both passes; the gradients of A @ B need two more products of the same size."""
    forward = forward_products(size)
    return Counter(each for b, m, k, n in forward for each in ((b, m, k, n), (b, m, n, k), (b, k, m, n)))


def seconds(products: Counter[Product]) -> float:
    """Return the time of all products in float32: for each the shortest of three times, with the same arrays."""

    def fastest(product: Product) -> float:
        with_mkl = mkl.missing() is None and product[0] == 1
        libraries: list[Multiply] = [divided_product, _multiply_by_mkl] if with_mkl else [divided_product]
        return min(shortest_time(product, multiply, 3) for multiply in libraries)

    return sum(times * fastest(product) for product, times in products.items())


def _multiply_by_mkl(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    def part(start: int, stop: int) -> None:
        mkl.multiply(a, b[:, start:stop], out[:, start:stop])

    parallel_for(np, b.shape[1], part, cost=a.size / FLOPS)


def shortest_time(product: Product, multiply: Multiply, repeat: int) -> float:
    """Return the seconds of a product: the shortest of `repeat` times, after one run that is not timed."""
    batch, m, k, n = product
    generator = np.random.default_rng(0)
    lead = () if batch == 1 else (batch,)
    a, b = (generator.standard_normal((*lead, *shape), dtype=np.float32) for shape in ((m, k), (k, n)))
    out, best = np.ones((*lead, m, n), np.float32), float("inf")
    multiply(a, b, out)
    for _ in range(repeat):
        begin = time.perf_counter()
        multiply(a, b, out)
        best = min(best, time.perf_counter() - begin)
    return best


def gflops(multiply: Multiply) -> int:
    """Return the speed of a product of two matrices of 1024 x 1024."""
    return round(2 * 1024**3 / shortest_time((1, 1024, 1024, 1024), multiply, 12) / 1e9)
