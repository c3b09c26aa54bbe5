"""Specifications of inputs for every public op, from which the tests and `handloom.autograd.gradcheck` draw."""

from . import elementwise, indexing, neural, products, reductions, shapes
from .draw import CATALOGUE, Draw, OpSpec, Sample

__all__ = ["CATALOGUE", "Draw", "OpSpec", "Sample"]
