"""The kernels of the package: the constants that each file is compiled with, and the kernels with tensor cores."""

from collections.abc import Callable
from itertools import product
from typing import Any

from handloom.autograd.kernels.attention import backward_constants, backward_shared, forward_constants, forward_shared

_TYPES: list[dict[str, Any]] = [{"HALF": False}, {"HALF": True}]


def _each(name: str, values: range) -> list[dict[str, Any]]:
    return [{**kind, name: value} for kind in _TYPES for value in values]


def attention_constants(direction: str, half: int, padded: int, extras: int, small: bool = False) -> dict[str, int]:
    """Return the constants of attention_DIRECTION.cu; if `small`, for GPUs with 99 KiB of shared memory per block."""
    if direction == "forward":
        return forward_constants(half, padded, extras, small)
    return backward_constants(half, padded, extras, small)


_ATTENTION = [*product((1,), (64, 128), (0, 1)), (1, 96, 0), (0, 64, 1), (0, 128, 1)]  # half, head_dim, extras
# The cases that have other block sizes on GPUs with less shared memory.
_SMALL = [(1, 64, 0), (1, 64, 1), (1, 96, 0), (1, 128, 0), (1, 128, 1), (0, 128, 1)]

# Every .cu file of autograd/kernels with the sets of constants that the package loads it with.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "adam.cu": _TYPES,
    "attention_backward.cu": [
        *(attention_constants("backward", *case) for case in _ATTENTION),
        *(attention_constants("backward", *case, small=True) for case in _SMALL),
    ],
    "attention_forward.cu": [
        *(attention_constants("forward", *case) for case in _ATTENTION),
        attention_constants("forward", 1, 128, 0, small=True),
    ],
    "columns.cu": _TYPES,
    "cross_entropy.cu": _each("GRADIENT", range(2)),
    "dropout.cu": [*_each("RESIDUAL", range(2)), *_each("ACTIVATION", range(1, 4))],
    "embedding.cu": _TYPES,
    "normalization.cu": _each("RESIDUAL", range(2)),
    "normalization_warps.cu": [{**x, "EIGHTS": eights} for x in _each("RESIDUAL", range(2)) for eights in range(1, 5)],
}

# Names of kernels that must contain tensor-core instructions, unless they are compiled with HALF = 0.
TENSOR_CORE_KERNELS = {"attention_forward", "attention_backward_keys", "attention_backward_queries"}

# Bytes of shared memory that a block gets at its launch, by file and constants.
SHARED_MEMORY: dict[str, Callable[[dict[str, int]], int]] = {
    "attention_backward.cu": backward_shared,
    "attention_forward.cu": forward_shared,
}
