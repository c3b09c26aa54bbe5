"""Specifications of every public op's inputs. The tests and `handloom.autograd.gradcheck` draw inputs from them."""

from . import elementwise, indexing, neural, products, reductions, shapes
from .draw import CATALOGUE, Draw, OpSpec, Sample

__all__ = ["CATALOGUE", "Draw", "OpSpec", "Sample"]
