"""Wrong backward rules that the view "Gradient check" can plant in an op, and that the tests must detect.

`python -m tests.support.mutants` plants these rules and others.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    """A mistake in ops of `kinds`: `old` becomes `new` in the source of `where` (`autograd.gradcheck.planting`)."""

    kinds: tuple[str, ...]  # classes of Function; classes derived from them that keep the rule have the mistake too
    what: str
    where: str
    old: str
    new: str


_NORMS = ("LayerNormOnCPU", "ResidualLayerNormOnCPU")
_MERGES = ("MergeHeads", "MergeHeadsInPlace", "MergeHeadsOnCPU")

MUTANTS = (
    Mutant(("Add",), "a sign", "ops.elementwise:Add.backward", "return g, g", "return g, -g"),
    Mutant(("Multiply",), "the wrong operand", "ops.elementwise:Multiply.backward", "g * y if", "g * x if"),
    Mutant(("Linear",), "a factor too many", "ops.linear:Linear.backward",
           "product(g.T, rows)", "product(g.T, rows) * 2"),
    Mutant(("LinearOnCPU",), "a mean instead of a sum", "fast.linear:LinearOnCPU.gradients",
           "= sum_of_rows(columns)", "= columns.mean(axis=0)"),
    Mutant(("LinearOnCPU",), "the wrong operand", "fast.linear:LinearOnCPU.gradients",
           "multiply(columns.T, right_of_dw,", "multiply((columns * columns).T, right_of_dw,"),
    Mutant(("LinearReLUOnCPU",), "the slope below zero", "fast.linear:LinearReLUOnCPU.mask_gradient",
           "out <= 0", "out < 0"),
    Mutant(("GELU",), "an exponent", "ops.activation:GELU.backward", "x * x * -0.5", "x * x * -1.0"),
    Mutant(("ReLU",), "the slope below zero", "ops.activation:relu.gradient", "array_of(y) <= 0",
           "array_of(y) < 0"),
    Mutant(("LayerNorm",), "a term lost: the mean's", "ops.normalization:LayerNorm.backward", "h - row_mean(h) -",
           "h -"),
    Mutant(_NORMS, "a term lost: the variance's", "fast.normalization:Normalization.gradients",
           "(rest @ share)[:, None]", "0"),
    Mutant(_NORMS, "a term lost: the mean's", "fast.normalization:Normalization.gradients",
           "rest += (gradient @ share)[:, None]", "pass"),
    Mutant(_NORMS, "a factor too many", "fast.normalization:Normalization.gradients", "summed(rest, 0)",
           "summed(rest * weight, 0)"),
    Mutant(("ResidualLayerNormOnCPU",), "a missing path",
           "fast.normalization:Normalization.gradients", "y += past[piece]", "pass"),
    Mutant(("Softmax",), "a factor lost", "ops.softmax:Softmax.backward", "summed(g * p, self.axis, keepdims=True)",
           "summed(g, self.axis, keepdims=True)"),
    Mutant(("StandardAttention",), "a factor lost: the scale",
           "fast.attention:StandardAttention.scores_gradient", "d_scores *= d_scores.dtype.type(self.scale)",
           "pass"),
    Mutant(("StandardAttention",), "a term lost: the softmax's row sums",
           "fast.attention:StandardAttention.scores_gradient", "d_scores -= dots[:, None]", "pass"),
    Mutant(("SplitHeads",), "parts exchanged", "ops.heads:SplitHeads.backward", "for g in gradients))",
           "for g in gradients[::-1]))"),
    Mutant(_MERGES, "sizes exchanged", "ops.heads:MergeHeads.backward", "SplitHeads(self.heads, len(self.inputs))",
           "SplitHeads(len(self.inputs), self.heads)"),
    Mutant(("Split",), "the order of the parts", "ops.joining:Split.backward", "self.axis), *filled",
           "self.axis), *filled[::-1]"),
    Mutant(("EmbeddingOnCPU",), "a row that occurs twice counts once", "row_gradient:sum_rows",
           "np.add.reduceat(rows[order], starts, axis=0, dtype=wide)", "rows[order][starts]"),
    Mutant(("LinearCrossEntropyOnCPU",), "a factor lost",
           "fast.linear_cross_entropy:LinearCrossEntropyOnCPU.softmax", "y[at_target] -= scale * a",
           "y[at_target] -= a"),
    Mutant(("LinearCrossEntropyOnCPU",), "a factor lost: the incoming gradient",
           "fast.linear_cross_entropy:LinearCrossEntropyOnCPU.backward", "gradient *= g", "pass"),
    Mutant(("CrossEntropyOnCPU",), "a mean's divisor lost", "fast.loss:CrossEntropyOnCPU.backward",
           "g = g / count", "pass"),
    Mutant(("Dropout",), "the mask forgotten", "ops.dropout:Dropout.backward", "g * mask * scale", "g * scale"),
)  # fmt: skip
