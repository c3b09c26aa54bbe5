"""Einstein summation."""

import itertools
import re
import string
from typing import Any

import numpy as np

from ..backend import array_module
from ..function import Function, run
from ..half import widened
from ..quick import replaceable
from ..sums import summed
from ..tensor import Tensor, shape_of
from .diagonal import diagonal
from .registry import declare
from .shape import moveaxis


class Einsum(Function):
    """A sum of products in which no index occurs twice in an operand.

    The gradient of an operand is the einsum of g and the other operands, with the operand's indices as output. If an
    index occurs only in this operand, or has size 1 in the others, the gradient is broadcast along it.
    """

    broadcasts = True

    def __init__(self, inputs, output):
        self.subscripts, self.output = inputs, output

    @property
    def name(self):
        return "einsum"

    def forward(self, *arrays):
        self.save(*arrays)
        xp, output = array_module(*arrays), self.output
        # NumPy sums float16 in float16, unlike CuPy, and a product of two of three operands may overflow float16.
        wide = list(map(widened, arrays)) if xp is np or len(arrays) > 2 else list(arrays)
        # NumPy's einsum adds one product after another: sums of one operand, or of products by elements, are `summed`.
        subscripts = list(self.subscripts)
        _sum_out(wide, subscripts, output)
        while (pair := _factor(subscripts)) is not None:
            small, large = pair
            factor, letters = wide[small], subscripts[small]
            aligned = factor.transpose([letters.index(x) for x in subscripts[large] if x in letters])
            wide[large] = wide[large] * aligned[tuple(slice(None) if x in letters else None for x in subscripts[large])]
            del wide[small], subscripts[small]
            _sum_out(wide, subscripts, output)
        equation = ",".join(subscripts) + "->" + output
        if len(wide) > 2 or (len(wide) == 2 and set(subscripts[0]) & set(subscripts[1])):
            out = product(equation, *wide)
        else:
            out = xp.einsum(equation, *wide)
        return out.astype(np.result_type(*arrays), copy=False)

    def backward(self, g):
        operands = self.saved
        needs = self.needs
        return tuple(self._gradient(g, i, operands) if needs[i] else None for i in range(len(operands)))

    def _gradient(self, g, position, operands):
        own = self.subscripts[position]
        others = [i for i in range(len(operands)) if i != position]
        subscripts = [self.output, *(self.subscripts[i] for i in others)]
        found = [letter for letter in own if any(letter in s for s in subscripts)]
        result = run(Einsum(subscripts, "".join(found)), g, *(operands[i] for i in others))
        result = result[tuple(slice(None) if letter in found else None for letter in own)]
        full = np.broadcast_shapes(result.shape, operands[position].shape)
        return result if result.shape == full else array_module(result).broadcast_to(result, full)


def _sum_out(arrays: list[Any], subscripts: list[str], output: str) -> None:
    """Sum each array over the axes whose letters occur neither in another array nor in the output, in the lists."""
    for i, letters in enumerate(subscripts):
        others = "".join([output, *subscripts[:i], *subscripts[i + 1 :]])
        if axes := tuple(axis for axis, letter in enumerate(letters) if letter not in others):
            arrays[i] = summed(arrays[i], axes)
            subscripts[i] = "".join(letter for letter in letters if letter in others)


def _factor(subscripts: list[str]) -> tuple[int, int] | None:
    """Return the positions of an operand and of another that has all its letters, and with which it is multiplied by
    elements; None if there are no such operands. For two operands with different letters, BLAS is faster.
    """
    for i, k in itertools.permutations(range(len(subscripts)), 2):
        if set(subscripts[i]) <= set(subscripts[k]) and (
            len(subscripts) > 2 or len(subscripts[i]) == len(subscripts[k])
        ):
            return i, k
    return None


@replaceable
def product(equation: str, *arrays: Any) -> Any:
    """Compute the sum of products of operands that share indices, for which NumPy's `optimize` uses BLAS."""
    return array_module(*arrays).einsum(equation, *arrays, optimize=True)


def _parse(equation: str, ndims: list[int]) -> tuple[list[str], str]:
    """Return the subscripts of the operands and of the output, with unused letters in place of each ellipsis."""
    text = equation.replace(" ", "")
    left, arrow, output = text.partition("->")
    inputs = left.split(",")
    if not re.fullmatch(r"[A-Za-z.,]*(->[A-Za-z.]*)?", text) or any(
        part.replace("...", "", 1).count(".") for part in (*inputs, output)
    ):
        raise ValueError(f"einsum: {equation!r} is not of the form 'ij,jk->ik', where '...' can be leading axes")
    if len(inputs) != len(ndims):
        raise ValueError(f"einsum: {equation!r} names {len(inputs)} operands, {len(ndims)} were given")
    spare = [letter for letter in string.ascii_letters if letter not in text]
    widths = []
    for part, ndim in zip(inputs, ndims, strict=True):
        width = ndim - len(part.replace("...", ""))
        if width < 0 or (width and "..." not in part):
            raise ValueError(f"einsum: {part!r} in {equation!r} does not fit its operand, which has {ndim} dimensions")
        widths.append(width)
    widest = max(widths, default=0)
    dots = "".join(spare[:widest])
    inputs = [part.replace("...", dots[widest - width :]) for part, width in zip(inputs, widths, strict=True)]
    if not arrow:
        letters = "".join(inputs)
        output = dots + "".join(sorted(x for x in set(letters) if letters.count(x) == 1 and x not in dots))
    output = output.replace("...", dots)
    if len(set(output)) < len(output) or not set(output) <= set("".join(inputs)):
        raise ValueError(f"einsum: the output of {equation!r} repeats an index or has one that no operand has")
    return inputs, output


@declare(np.einsum)
def einsum(equation: str, *operands: Any) -> Tensor:
    """Compute sums of products in NumPy's index notation: einsum("bij,bjk->bik", x, y).

    An index that is not in the output is summed over. An index that occurs twice in an operand selects the operand's
    diagonal. "..." stands for further axes, which broadcast. Raises ValueError for an equation that doesn't fit the
    operands.
    """
    if not operands:
        raise ValueError("einsum: no operands")
    inputs, output = _parse(equation, [len(shape_of(x)) for x in operands])
    tensors = list(operands)
    for i, part in enumerate(inputs):
        while repeated := next((letter for letter in part if part.count(letter) > 1), None):
            first, second = part.index(repeated), part.index(repeated, part.index(repeated) + 1)
            shape = shape_of(tensors[i])
            if shape[first] != shape[second]:
                raise ValueError(
                    f"einsum: the index {repeated!r} of {equation!r} has different sizes, {shape[first]} and "
                    f"{shape[second]}"
                )
            tensors[i] = moveaxis(diagonal(tensors[i], axis1=first, axis2=second), -1, first)
            part = inputs[i] = part[:second] + part[second + 1 :]
    _check_sizes(equation, inputs, [shape_of(x) for x in tensors])
    return Einsum(inputs, output)(*tensors)


def _check_sizes(equation: str, inputs: list[str], shapes: list[tuple[int, ...]]) -> None:
    sizes: dict[str, int] = {}
    for part, shape in zip(inputs, shapes, strict=True):
        for letter, size in zip(part, shape, strict=True):
            known = sizes.setdefault(letter, size)
            if known == 1:
                sizes[letter] = size
            elif size not in (1, known):
                raise ValueError(
                    f"einsum: {equation!r} with shapes {shapes}: an index has different sizes, {known} and {size}"
                )
