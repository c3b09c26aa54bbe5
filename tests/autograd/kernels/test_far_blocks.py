"""Offsets have 64 bits: a block whose elements begin some 2^32 elements later computes the same as the first block.

Only that block runs. Its pointers are moved back by the same distance, so the arrays stay small.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from handloom.autograd.kernels import attention, fused
from handloom.autograd.kernels.attention import AttentionOptions, device_kernels
from tests.support.fake_cupy.array import unwrap

ROW = (1 << 22) + 3  # number of a row with 1,024 or more elements
HEAD = 70 * 65535 + 3  # head 3 of batch row 70; a head has 1,024 or more elements


@dataclass
class Far:
    """A block number and, by argument, the bytes from one block to the next and the values for the far launch."""

    number: int
    steps: dict[int, int]
    values: dict[int, Any] = field(default_factory=dict)


def compare(where: Any, cases: dict[str, Far], call: Callable[[], Any]) -> None:
    """For each launch of these kernels in `call`, check that one block computes equal arrays near and far."""
    compared = set()

    def launch(kernel: Any, grid: Any, block: Any, args: Any, shared: int = 0) -> None:
        near = [unwrap(x) for x in args]
        far = [x.copy() if isinstance(x, np.ndarray) else x for x in near]
        emulated = kernel._module.emulated().get_function(kernel.name)
        emulated.max_dynamic_shared_size_bytes = kernel.max_dynamic_shared_size_bytes
        emulated(grid, block, near, shared_mem=shared)
        if kernel.name not in cases:
            return
        case = cases[kernel.name]
        for place, value in case.values.items():
            far[place] = value
        back = {place: -case.number * step for place, step in case.steps.items()}
        only = (case.number, 0, 0) if case.number == ROW else (0, case.number % 65535, case.number // 65535)
        whole = (ROW + 1,) if case.number == ROW else (1, 65535, 65535)
        emulated(whole, block, far, shared_mem=shared, only=only, moved=back)
        for found, wanted in zip(far, near, strict=True):
            if isinstance(wanted, np.ndarray):
                np.testing.assert_array_equal(found, wanted)
        compared.add(kernel.name)

    with mock.patch.object(where, "launch", launch):
        call()
    assert compared == set(cases)


def test_rows_far_down(fake_cupy) -> None:
    def drawn(*shape: int) -> Any:
        return fake_cupy.asarray(np.random.default_rng(0).standard_normal(shape).astype(np.float32))

    def norm(rows: int, width: int) -> Callable[[], Any]:
        return lambda: fused.layer_norm(drawn(rows, width), drawn(width), drawn(width), 1e-5)

    target, none = fake_cupy.asarray(np.array([7])), fused.NO_DROPOUT
    for far, call in (
        (
            {"cross_entropy_rows": Far(ROW, {0: 4160, 2: 8, 3: 4})},
            lambda: fused.cross_entropy_rows(drawn(1, 1040), None, target, -1, 0.1, gradient=True),
        ),
        ({"layer_norm_forward": Far(ROW, {0: 6016, 3: 6016, 4: 4, 5: 4})}, norm(1, 1504)),
        (
            {"layer_norm_forward": Far(ROW, {0: 16384, 3: 16384, 4: 16, 5: 16}, {6: np.int32(4 * ROW + 4)})},
            norm(4, 1024),
        ),
        (
            {"dropout_add": Far(ROW, {0: 8192, 1: 8192}, {2: np.int64(2048 * ROW + 99)})},
            lambda: fused.dropout_add(drawn(99), none),
        ),
        ({"embedding_forward": Far(ROW, {1: 8, 2: 4160})}, lambda: fused.embedding(drawn(9, 1040), target)),
    ):
        compare(fused, far, call)


def test_an_id_far_down_the_table(fake_cupy) -> None:
    table, out = np.random.default_rng(0).standard_normal((3, 1024)).astype(np.float32), np.zeros((1, 1024), np.float32)
    kernel = fused.load_kernel("embedding.cu", "embedding_forward", HALF=False)._module.emulated()
    ids, numbers = np.array([ROW + 1]), (np.int32(ROW + 3), np.int32(1024), np.float32(1))
    kernel.get_function("embedding_forward")((1,), (128,), (table, ids, out, *numbers), moved={0: -4096 * ROW})
    np.testing.assert_array_equal(out, table[1:2])


def test_batch_rows_and_heads_far_down(fake_cupy) -> None:
    """Offsets of dQ's sums, each query's numbers and delta; `test_rows_that_lie_gigabytes_apart` checks the strides."""
    rng = np.random.default_rng(0)
    query, key, value, g = (fake_cupy.asarray(rng.standard_normal((1, 1, 3, 32)).astype(np.float16)) for _ in range(4))
    own = device_kernels(0)
    out, totals = own.forward(query, key, value, AttentionOptions(scale=0.3))
    # All batch rows and heads share memory (their strides are 0), except in the arrays that the kernels lay out.
    strides = {10 + 3 * array + axis: np.int64(0) for array in range(6) for axis in range(2)}
    of_keys = Far(HEAD, {4: 24, 5: 12, 8: 4 * 32 * 32}, {**strides, 33: np.int32(65535)})
    of_queries = Far(HEAD, {0: 4 * 32 * 32}, {2: np.int64(0), 3: np.int64(0)})
    cases = {"attention_backward_keys": of_keys, "attention_query_gradient": of_queries}
    compare(attention, cases, lambda: own.backward(query, key, value, AttentionOptions(scale=0.3), out, totals, g))
