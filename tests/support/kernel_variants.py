"""The kernels of the package: with which constants each file is compiled, and which kernels use tensor cores."""

from __future__ import annotations

from typing import Any

_TYPES: list[dict[str, Any]] = [{"HALF": False}, {"HALF": True}]


def _each(name: str, values: range) -> list[dict[str, Any]]:
    return [{**kind, name: value} for kind in _TYPES for value in values]


# Every .cu file of autograd/kernels with the sets of constants that the package loads it with.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "adam.cu": _TYPES,
    "columns.cu": _TYPES,
    "cross_entropy.cu": _each("GRADIENT", range(2)),
    "dropout.cu": [*_each("RESIDUAL", range(2)), *_each("ACTIVATION", range(1, 4))],
    "embedding.cu": _TYPES,
    "normalization.cu": _each("RESIDUAL", range(2)),
}

# Names of kernels that must hold tensor-core instructions.
TENSOR_CORE_KERNELS: set[str] = set()
