"""Reverse-mode automatic differentiation on NumPy and CuPy arrays."""
