"""The kernels of the package: with which constants each file is compiled, and which kernels use tensor cores."""

from __future__ import annotations

from typing import Any

# Every .cu file of autograd/kernels with the sets of constants that the package loads it with.
VARIANTS: dict[str, list[dict[str, Any]]] = {}

# Names of kernels that must hold tensor-core instructions.
TENSOR_CORE_KERNELS: set[str] = set()
