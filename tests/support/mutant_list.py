"""Wrong rules to plant, by family of ops, and harmless rewrites, with which the tests must still pass."""

# ruff: noqa: E501  (one mutant a line: what is checked, where, what becomes what)

from functools import partial

import numpy as np

from handloom.explorer.mutants import MUTANTS as PLANTED
from tests.autograd import test_higher_order as higher
from tests.autograd import test_row_gradient as rows
from tests.autograd.ops import test_attention_methods as methods
from tests.autograd.ops import test_conventions as table
from tests.autograd.ops import test_numerics as numerics
from tests.autograd.ops import test_whole_range as whole
from tests.autograd.test_engine import test_summing_gradients_writes_into_no_array_that_another_tensor_holds as sums
from tests.support.implementations import examine_implementations, op_name
from tests.support.mutants import Mutant as M  # noqa: N817  (the table below is all Ms)

OTHER_NAMES = {"ReLU": "relu", "LinearReLUOnCPU": "linear_activation", "StandardAttention": "attention"}  # of classes

# fmt: off
MUTANTS = (
    # The mistakes that the explorer can plant.
    *(M("explorer", OTHER_NAMES.get(m.kinds[0], op_name(m.kinds[0])), m.where, m.old, m.new) for m in PLANTED),
    # Wrong signs and factors, exchanged operands, lost terms.
    M("arithmetic", "subtract", "ops.elementwise:Subtract.backward", "-g if", "g if"),
    M("arithmetic", "divide", "ops.elementwise:Divide.backward", "-(g * (x / y))", "(g * (x / y))"),
    M("arithmetic", "divide", "ops.elementwise:Divide.backward", "-(g * (x / y)) / y", "-(g * x) / y"),
    M("arithmetic", "reciprocal", "ops.elementwise:reciprocal.gradient", "-g * y * y", "-g * y"),
    M("arithmetic", "power", "ops.elementwise:_power_slope", "return y * (x if", "return (x if"),
    M("arithmetic", "power", "ops.elementwise:_power_slope", "xp.where(constant, 1.0, y - 1)", "xp.where(constant, 1.0, y)"),
    M("arithmetic", "power", "ops.elementwise:Power.backward", "x**y * logarithm", "x * logarithm"),
    M("arithmetic", "square", "ops.elementwise:square.gradient", "2 * (g * x)", "g * x"),
    M("arithmetic", "abs", "ops.elementwise:abs.gradient", "sign(x)", "sign(x * x)"),
    M("arithmetic", "remainder", "ops.elementwise:Remainder.backward", "x // y", "x / y"),
    M("arithmetic", "floor", "ops.elementwise:floor.gradient", "zeros_like(g)", "ones_like(g)"),
    # The derivative of another function, a missing inner derivative.
    M("functions", "exp2", "ops.exponential:exp2.gradient", " * math.log(2)", ""),
    M("functions", "expm1", "ops.exponential:expm1.gradient", "y + 1", "y"),
    M("functions", "log1p", "ops.exponential:log1p.gradient", "g / (1 + x)", "g / x"),
    M("functions", "log10", "ops.exponential:log10.gradient", "(1 / math.log(10))", "1"),
    M("functions", "logaddexp", "ops.exponential:LogAddExp.backward", "g * sigmoid_array(-ahead)", "g * sigmoid_array(ahead)"),
    M("functions", "sqrt", "ops.exponential:sqrt.gradient", "0.5 / y", "0.5 * y"),
    M("functions", "rsqrt", "ops.exponential:rsqrt.gradient", "y * y * y", "y * y"),
    M("functions", "erf", "ops.erf:erf.gradient", "-x * x", "-0.5 * x * x"),
    M("functions", "erf", "ops.erf:erf_array", "-far * far", "-far"),
    M("functions", "cos", "ops.trigonometric:cos.gradient", "-g * ", "g * "),
    M("functions", "tan", "ops.trigonometric:tan.gradient", "1 + y * y", "1 - y * y"),
    M("functions", "arccos", "ops.trigonometric:arccos.gradient", "-g / ", "g / "),
    M("functions", "tanh", "ops.trigonometric:tanh.gradient", "1 - y * y", "1 - y"),
    M("functions", "cosh", "ops.trigonometric:cosh.gradient", "g * xp.sinh(x)", "g * xp.cosh(x)"),
    M("functions", "arctan2", "ops.trigonometric:ArcTan2.backward", "-g * (y", "g * (y"),
    M("functions", "hypot", "ops.trigonometric:Hypot.backward", "g * (y / out)", "g * (x / out)"),
    # The gradient goes to the wrong one of several inputs.
    M("choice", "where", "ops.selection:Where.backward", "selected(g, ~mask)", "selected(g, mask)"),
    M("choice", "maximum", "ops.selection:Extreme.backward", "first < second", "first > second"),
    M("choice", "minimum", "ops.selection:Extreme.backward", "else (y, x)", "else (x, y)"),
    M("choice", "clip", "ops.selection:Clip.backward", "selected(g, below)", "selected(g, above)"),
    M("choice", table.ROWS["`maximum`, `minimum` of equal numbers"], "ops.selection:Extreme.backward", "0.5, 1.0", "1.0, 1.0"),
    M("choice", table.ROWS["`clip` of an x that is equal to a bound"], "ops.selection:Clip.backward", "x > high", "x >= high"),
    # Wrong axis, wrong count, a stale or missing statistic.
    M("reductions", "sum", "ops.reduction:Sum.backward", "spread(g, self.axis, self.shape)", "spread(g, self.axis, self.shape) * 2"),
    M("reductions", "sum", "ops.reduction:spread", "if a in axes", "if a not in axes"),
    M("reductions", "mean", "ops.reduction:count", "shape[a] for", "2 for"),
    M("reductions", "prod", "ops.reduction:_others", "return before * after", "return before"),
    M("reductions", "prod", "ops.reduction:_others_recorded", "bool), 1.0", "bool), 0.5"),
    M("reductions", "prod", "ops.reduction:Prod.backward", ".transpose(back)", ".reshape(x.shape)"),
    M("reductions", "max", "ops.reduction:Extremum.backward", "x == spread", "x != spread"),
    M("reductions", table.ROWS["`max`, `min` of several equal elements"], "ops.reduction:Extremum.backward", "hits / hits.sum(axis=self.axis, keepdims=True)", "hits * 1.0"),
    M("statistics", "var", "ops.statistics:_var", "divide(sum(squares, axis, keepdims)", "divide(mean(squares, axis, keepdims)"),
    M("statistics", "var", "ops.statistics:_var", "mean(x, axis, keepdims=True)", "mean(x)"),
    M("statistics", "var", "ops.statistics:_divisor", "count(axis, shape) - ddof", "count(axis, shape)"),
    M("statistics", "std", "ops.statistics:Std.backward", "(x)) / std)", "(x)))"),
    M("statistics", "logsumexp", "ops.statistics:LogSumExp.backward", "total = summed(e, self.axis, keepdims=True)", "pass"),
    M("statistics", "logsumexp", "ops.statistics:LogSumExp.backward", " / total", ""),
    M("statistics", "norm", "ops.statistics:PNorm.backward", "(self.p - 1)", "self.p"),
    M("statistics", "norm", "ops.statistics:PNorm.backward", "g * xp.sign(x) *", "g *"),
    M("statistics", "cumsum", "ops.statistics:CumSum.backward", "run(CumSum(self.axis), xp.flip(g, axis=self.axis))", "xp.flip(run(CumSum(self.axis), g), axis=self.axis)"),
    # The wrong order of elements or axes.
    M("shapes", "reshape", "ops.shape:Reshape.backward", "g.reshape(self.old_shape)", "g.transpose().reshape(self.old_shape)"),
    M("shapes", "transpose", "ops.shape:Transpose.backward", "inverse[old] = new", "inverse[new] = old"),
    M("shapes", "swapaxes", "ops.shape:swapaxes", "= axes[axis2], axes[axis1]", "= axes[axis1], axes[axis2]"),
    M("shapes", "moveaxis", "ops.shape:moveaxis", "sorted(zip(new, old, strict=True))", "sorted(zip(old, new, strict=True))"),
    M("shapes", "flip", "ops.indexing:flip", "slice(None, None, -1) if i in axes", "slice(None, None, -1) if i not in axes"),
    M("shapes", "roll", "ops.shape:Roll.backward", "else -self.shift", "else self.shift"),
    M("joining", "concatenate", "ops.joining:Concatenate.backward", "[:-1]", "[1:]"),
    M("joining", "stack", "ops.joining:Stack.backward", "parts[i]", "parts[-1 - i]"),
    M("joining", "tile", "ops.joining:tile", "(1, side))", "(side, 1))"),
    M("joining", "repeat", "ops.joining:repeat", "(*before, size, 1, *behind)", "(*before, 1, size, *behind)"),
    M("joining", "pad", "ops.joining:Pad.backward", "slice(b, size - a)", "slice(a, size - b)"),
    M("joining", "tril", "ops.diagonal:_triangle", " - k ", " "),
    M("joining", "triu", "ops.diagonal:_triangle", "distance >= 0", "distance > 0"),
    # The wrong index, or an index that selects an element twice.
    M("indexing", "getitem", "ops.indexing:add_at", "array_module(target).add.at(total, index, values.astype(total.dtype, copy=False))", "total[index] += values"),
    M("indexing", "setitem", "ops.indexing:SetItem.backward", "run(SetItem(self.index), g, 0)", "g"),
    M("indexing", "setitem", "ops.indexing:SetItem.backward", "g, 0)", "g, 1)"),
    M("indexing", "scatter_add", "ops.indexing:ScatterAdd.backward", "g[self.index]", "g[self.index] * 0"),
    M("indexing", "take_along_axis", "ops.indexing:along_axis", "index[axis] = indices", "index[axis] = abs(indices)"),
    M("indexing", "sort", "ops.sorting:_order", "np.argsort(x,", "np.argsort(-x,"),
    M("indexing", "topk", "ops.sorting:_order", "np.shape(x)[axis] - 1 - xp.flip", "xp.flip"),
    M("indexing", rows.test_what_backward_leaves, "row_gradient:RowGradient.plus", "+=", "="),
    M("indexing", rows.test_what_backward_leaves, "row_gradient:RowGradient.without", "self.ids != row", "self.ids >= 0"),
    M("indexing", rows.test_sums_pieces_and_arrays, "row_gradient:RowGradient.__getitem__", "(start, stop)", "(start, stop - 1)"),
    M("indexing", rows.test_what_backward_leaves, "row_gradient:RowGradient.plus", "return sum_rows(*both, self.shape)", "return other"),
    M("indexing", numerics.test_a_padding_row_of_an_embedding_gets_no_gradient_of_any_order, "ops.embedding:Embedding.backward", "g, g.dtype.type(0))", "g, g)"),
    # Matrices: transposition, operands, un-broadcasting, the sum over rows.
    M("products", "matmul", "ops.linalg:MatMul.backward", "product(g, transposed(y))", "product(g, transposed(y)) * 2"),
    M("products", "matmul", "ops.linalg:MatMul.backward", "product(rows_of(x).T, rows)", "product(rows_of(x).T, rows) / max(rows.shape[0], 1)"),
    M("products", "linear_activation", "fast.linear:LinearReLUOnCPU.mask_gradient", "d *= d.dtype.type(self.scale)", "pass"),
    M("losses", "linear_cross_entropy", "fast.linear_cross_entropy:LinearCrossEntropyOnCPU.softmax", "k = a + total_each", "k = a"),
    M("losses", "linear_cross_entropy", "fast.linear_cross_entropy:LinearCrossEntropyOnCPU.gradients", "add=not first", "add=False"),
    M("losses", "linear_cross_entropy", "fast.linear_cross_entropy:LinearCrossEntropyOnCPU.gradients", "d_parts.sum(axis=0) * factor", "d_parts.sum(axis=0)"),
    M("losses", "dropout_add", "ops.dropout:dropout_add_plain", "add(residual, ", "add(residual * 2, "),
    M("products", "tensordot", "ops.linalg:tensordot", "over_y + kept_y", "over_y[::-1] + kept_y"),
    M("products", "outer", "ops.linalg:outer", "(math.prod(shape_of(x, \"outer\")), 1)", "(1, math.prod(shape_of(x, \"outer\")))"),
    M("products", "einsum", "ops.einsum:Einsum._gradient", "if i != position", "if i > position"),
    M("products", "einsum", "ops.einsum:_parse", "dots[widest - width :]", "dots[:width]"),
    M("products", "trace", "ops.diagonal:diagonal", "np.arange(shape[axis1]) + offset", "np.arange(shape[axis1]) - offset"),
    # Activations.
    M("activation", "leaky_relu", "ops.activation:LeakyReLU.backward", "g * self.negative_slope", "g"),
    M("activation", lambda: whole.test_every_float16_number("elu"), "ops.activation:ELU.backward", "xp.minimum(x, 0)", "x"),
    M("activation", "selu", "ops.activation:ELU.backward", "(x > 0, self.scale,", "(x > 0, 1.0,"),
    M("activation", "sigmoid", "ops.activation:sigmoid.gradient", "(1 - y)", "(1 + y)"),
    M("activation", "softplus", "ops.activation:softplus.gradient", "sigmoid_array(x)", "sigmoid_array(-x)"),
    M("activation", "silu", "ops.activation:silu.gradient", "x * (1 - s)", "x * s"),
    M("activation", "mish", "ops.activation:mish.gradient", "(1 - t * t) * sigmoid_array(x)", "(1 - t * t)"),
    M("activation", "gelu", "ops.activation:GELU.backward", "if isinstance(x, Tensor)", "if False"),
    M("activation", "gelu", "ops.activation:GELUTanh.backward", "3 * 0.044715", "0.044715"),
    M("activation", "swiglu", "ops.gated:_halves", "slice(None, half))), getitem(x, (*before, slice(half, None)))", "slice(half, None))), getitem(x, (*before, slice(None, half)))"),
    # Statistics that are stale, missing or taken along the wrong axis.
    M("normalization", "softmax", "ops.softmax:Softmax.backward", "summed(g * p, self.axis, keepdims=True)", "summed(g * p, -1, keepdims=True)"),
    M("normalization", "log_softmax", "ops.softmax:LogSoftmax.backward", "summed(g, self.axis, keepdims=True)", "1"),
    M("normalization", "residual_layer_norm", "fast.normalization:Normalization.gradients", "d *= scale", "pass"),
    M("normalization", "residual_layer_norm", "fast.normalization:Normalization.all_gradients", "None if past is None else contiguous_rows(past)", "None"),
    M("normalization", partial(examine_implementations, "normalization"), "fast.normalization:ResidualLayerNormOnCPU.backward", "np.zeros(x.shape, x.dtype) if g is None", "x if g is None"),
    M("normalization", "rms_norm", "ops.normalization:RMSNorm.backward", "h - x_hat * row_mean(h * x_hat)", "h"),
    M("normalization", "rms_norm", "ops.normalization:RMSNorm.backward", "if isinstance(x, Tensor) else self.kept[0]", "if False else self.kept[0]"),
    # Losses: reduction, weights, padding, smoothing.
    M("losses", "cross_entropy", "ops.registry:QuickImplementation.composed", "return _run", "inputs = (inputs[0].detach(), *inputs[1:])\n        return _run"),
    M("losses", "cross_entropy", "fast.loss:CrossEntropyOnCPU.backward", "(g * real)", "(g * (real | True))"),
    M("losses", "mse_loss", "ops.elementwise_loss:_reduced", "losses.mean()", "losses.sum()"),
    M("losses", "binary_cross_entropy", "ops.elementwise_loss:BinaryCrossEntropy.backward", "log_q - log_p", "log_p - log_q"),
    M("losses", "binary_cross_entropy", "ops.elementwise_loss:BinaryCrossEntropy.backward", "p * (1 - p)", "p"),
    M("losses", "binary_cross_entropy_with_logits", "ops.elementwise_loss:binary_cross_entropy_with_logits", "multiply(pos_weight, target)", "target"),
    M("losses", "dropout", "ops.dropout:Dropout.forward", " * self.kept[1]", ""),
    # Attention.
    M("attention", "attention", "ops.attention:attention_plain", "total + (total == 0)", "total + 1"),
    M("attention", "attention", "ops.attention:MaskSpec.distance", "+ self.key_length - self.query_length", ""),
    M("attention", "attention", "fast.attention:StandardAttention.scores_gradient", "d_scores *= keep_mask", "pass"),
    M("attention", "attention", "ops.attention:MaskSpec.alibi", "abs(self.distance(xp))", "self.distance(xp)"),
    M("attention", "attention", "ops.attention_blocked:BlockedAttention.forward", "o *= rescale.swapaxes(-1, -2)", "pass"),
    M("attention", "attention", "ops.attention_blocked:BlockedAttention.forward", "xp.where(m == -np.inf, 0, m)", "0 * total"),
    M("attention", "attention", "ops.attention_blocked:BlockedAttention.backward", "d_key[(*group, k)] += ds", "d_key[(*group, k)] = ds"),
    M("attention", "attention", "ops.attention_blocked:can_skip", "high < 0", "low < 0"),
    M("attention", lambda: methods.test_dropout_falls_on_the_same_weights_in_both_directions(), "ops.attention_blocked:BlockedAttention.backward", "ds *= keep_mask", "pass"),
    # Precision.
    M("precision", "layer_norm", "fast.normalization:Normalization.normalized", "return out", "return out.astype(np.float64)"),
    M("precision", "max", "ops.reduction:Extremum.backward", "share.astype(g.dtype)", "share"),
    M("precision", "maximum", "ops.selection:Extreme.backward", ".astype(g.dtype)", ""),
    M("precision", lambda: whole.test_float16_is_float32_rounded("power"), "function:Function.saved", "tuple(map(widened, saved)) if self._half else saved", "saved"),
    M("precision", lambda: whole.test_float16_is_float32_rounded("attention"), "fast.attention:StandardAttention.backward", "xp.empty(dropped.shape, wide)", "xp.empty(dropped.shape, weights.dtype)"),
    M("precision", lambda: whole.test_every_float16_number("arctan"), "ops.trigonometric:arctan.gradient", "g / (size := xp.hypot(x, 1.0)) / size", "g / (1 + x * x)"),
    M("precision", lambda: whole.test_no_number_is_too_large_or_too_small("gelu tanh", np.float32), "ops.activation:GELUTanh.backward", "clip(x, -16, 16)", "clip(x, -1e30, 1e30)"),
    M("precision", numerics.test_sums_of_float16_are_taken_in_float32, "sums:running_dtype", "np.float32 if x.dtype == HALF else None", "x.dtype"),
    M("precision", numerics.test_sums_of_float16_are_taken_in_float32, "sums:summed", "summed(x.astype(np.float32), axis, keepdims).astype(np.float16)", "x.sum(axis=axis, keepdims=keepdims, dtype=np.float16)"),
    M("precision", numerics.test_erf_is_right_to_the_last_digits, "ops.erf:erf_array", "x.dtype.itemsize >= 8", "False"),
    # The engine: un-broadcasting, accumulation, order, which arrays may be overwritten, which tensor a saved value is.
    M("engine", "multiply", "sums:unbroadcast", "summed(gradient, axes, keepdims=True)", "gradient[tuple(slice(0, 1) if a in axes else slice(None) for a in range(len(gradient.shape)))]"),
    M("engine", "where", "sums:unbroadcast", "summed(gradient, axes, keepdims=True)", "gradient.mean(axis=axes, keepdims=True)"),
    M("engine", sums, "gradient:Gradient.add", "self.value += value", "self.value = value"),
    M("engine", sums, "gradient:Gradient.add", "value += self.value", "pass"),
    M("engine", sums, "gradient:Gradient.add", "xp.add(self.value, value, out=xp.empty_like(self.value))", "xp.add(self.value, value, out=self.value)"),
    M("engine", sums, "engine:Pass.give", "existing.add(value, owned)", "pass"),
    M("engine", sums, "engine:Pass.give", "-node.number, node", "node.number, node"),
    M("engine", sums, "gradient:is_unshared", "if isinstance(value, Tensor) or value.base is not None:\n        return False", "if isinstance(value, Tensor):\n        return False"),
    M("engine", "exp", "function:Function._restore", "if not hasattr(value", "if isinstance(value, np.ndarray) or not hasattr(value"),
    M("engine", higher.test_fused_attention_whose_inputs_depend_on_each_other, "ops.registry:QuickImplementation.recorded_backward", "Alias()(tensor)", "tensor"),
)

# Mutants of one implementation of an op, quick or plain. Comparing implementations alone, without references and
# difference quotients, must notice them. MUTANTS in files of quick implementations are added. Rounding has other tests.
OF_FORMS = (
    M("quick", partial(examine_implementations, "normalization"), "fast.normalization:Normalization.normalize", "+ eps", "+ 2 * eps"),
    M("quick", partial(examine_implementations, "linear"), "fast.linear:LinearOnCPU.finish", "y += bias", "pass"),
    M("quick", partial(examine_implementations, "linear"), "fast.linear:LinearReLUOnCPU.finish", "y *= y.dtype.type(self.scale)", "pass"),
    M("quick", partial(examine_implementations, "linear"), "fast.linear:LinearReLUOnCPU.dropout_mask", "~(self.kept[0] <= 0)", "(self.kept[0] <= 0)"),
    M("quick", partial(examine_implementations, "loss"), "fast.loss:CrossEntropyOnCPU.forward", "own * np.where(real", "real * np.where(real"),
    M("quick", partial(examine_implementations, "embedding"), "fast.embedding:EmbeddingOnCPU.backward", "gradient.without(self.padding_id)", "gradient"),
    M("quick", partial(examine_implementations, "attention"), "fast.attention:StandardAttention.weigh", "scores *= wide.type(self.scale)", "pass"),
    M("quick", partial(examine_implementations, "attention"), "fast.attention:StandardAttention.dropout_mask", "self.kept[1:3]", "self.kept[1], 1.0"),
    M("quick", partial(examine_implementations, "heads"), "fast.heads:whole_of", "if address_of(part) !=", "if False and address_of(part) !="),
    M("plain", partial(examine_implementations, "normalization"), "ops.normalization:LayerNorm.normalized", "\n    return centred * r, r", "\n    return centred * r * r, r"),
    M("plain", partial(examine_implementations, "normalization"), "ops.normalization:LayerNorm.backward", "- x_hat * row_mean(h * x_hat)", ""),
    M("plain", partial(examine_implementations, "linear"), "ops.linear:Linear.forward", "y + bias", "y - bias"),
    M("plain", partial(examine_implementations, "linear"), "ops.linear:Linear.backward", "summed(g, 0)", "summed(g, 0) * 2"),
    M("plain", partial(examine_implementations, "linear"), "ops.linear:linear_activation_plain", "ACTIVATIONS[activation]", "ACTIVATIONS['silu']"),
    M("plain", partial(examine_implementations, "loss"), "ops.loss:cross_entropy_plain", "-(1 - label_smoothing) * weight[target]", "-weight[target]"),
    M("plain", partial(examine_implementations, "loss"), "ops.loss:cross_entropy_plain", "(weight[target] * real).sum()", "real.sum()"),
    M("plain", partial(examine_implementations, "embedding"), "ops.indexing:PutInZeros.forward", "return add_at(out, self.index, values)", "out[self.index] = values; return out"),
    M("plain", partial(examine_implementations, "attention"), "ops.attention:attention_plain", "* scale", ""),
    M("plain", partial(examine_implementations, "attention"), "ops.attention:attention_plain", "mask_spec.alibi(scores.dtype, xp)", "None"),
    *(
        M("quick", partial(examine_implementations, m.where.partition(":")[0].rpartition(".")[2]), m.where, m.old, m.new)
        for m in MUTANTS
        if m.where.startswith(("fast.", "ops.attention_blocked")) and not (m.kind == "precision" and callable(m.check))
    ),
)

CONTROLS = (
    M("control", "multiply", "ops.elementwise:Multiply.backward", "g * y if", "y * g if"),
    M("control", "softmax", "ops.softmax:Softmax.backward", "p * (g - summed(g * p, self.axis, keepdims=True))", "p * g - p * summed(p * g, self.axis, keepdims=True)"),
    M("control", "matmul", "ops.linalg:MatMul.backward", "product(g, transposed(y))", "transposed(product(y, transposed(g)))"),
    M("control", "tanh", "ops.trigonometric:tanh.gradient", "g * (1 - y * y)", "g * (1 - y) * (1 + y)"),
)
