"""Input specifications for every public op: what the tests and `python -m handloom.autograd.gradcheck` draw from."""

from . import elementwise, indexing, neural, products, reductions, shapes
from .draw import CATALOGUE, Draw, OpSpec, Sample

__all__ = ["CATALOGUE", "Draw", "OpSpec", "Sample"]
