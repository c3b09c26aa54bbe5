"""Standard attention, which stores all weights, in one op on several threads: replaces `attention_plain`.

It also supports arrays on a device if the fused kernels don't support them.
"""

from typing import Any

import numpy as np

from ..backend import array_module
from ..ops.attention import attention_plain, largest_score, with_four_axes
from ..ops.heads import empty_heads, empty_like_heads
from ..ops.registry import QuickImplementation, implements
from ..quick import blocks
from ..random import ReplayedMask
from ..sums import summed, unbroadcast
from .parallel import parallel_for


def standard(arrays: list[Any], options: dict[str, Any]) -> str | None:
    """Condition: the call requests neither another method nor differentiable weights."""
    if options["method"] not in ("auto", "standard"):
        return f"method {options['method']!r} was requested"
    return None if options["return_weights"] is False else "it keeps the weights without a gradient"


@implements(attention_plain, "standard", standard)
class StandardAttention(QuickImplementation):
    """Standard attention in one op. Weights have the layout (batch, key, head, query).

    With this layout a sum over the keys adds rows of (heads x queries) numbers. That is much faster than adding one
    head's short rows of queries.

    With scores S, A = softmax(S), D = A after dropout, O = D V and the incoming gradient G (products of equal shapes
    are elementwise; for the row sums see Dao et al. 2022, arXiv 2205.14135, appendix B.2):

        dV = D^T G     dS = A (dA - rowsum(dA A)), rowsum(dA A) = rowsum(G O)
        dQ = dS K scale     dK = dS^T Q scale     dbias = dS

    With dropout's mask M and factor f, D = f A M. The op keeps f A for the backward pass: with X = (G V^T) M, dA = f X
    and dS = f A (X - rowsum(G O) / f). Each thread computes the output of a few batch rows at a time, so that their
    scores stay in the thread's cache.
    """

    def forward(self, query, key, value, bias=None):
        self.save(query, key, value, *(() if bias is None else (bias,)))
        xp = array_module(query)
        batch, heads, queries, _ = query.shape
        mask = self.mask_spec.as_mask(xp)
        shape = (batch, key.shape[2], heads, queries)
        wide = np.result_type(query.dtype, key.dtype, np.float32)  # the dtype of the scores
        weights = xp.empty(shape, query.dtype)
        out = empty_heads(xp, (batch, heads, queries, value.shape[3]), np.result_type(query.dtype, value.dtype))[0]
        keep_mask, factor = None, 1.0
        if self.dropout:
            keep_mask, factor = self.generator.keep_mask(shape, self.dropout)
            keep_mask = xp.asarray(keep_mask)
        full = batch, heads, queries, key.shape[2]
        changes = [] if bias is None else [(xp.add, with_four_axes("bias", bias.astype(wide, copy=False), full))]
        if self.mask_spec.slopes is not None:
            changes.append((xp.add, self.mask_spec.alibi(wide, xp)))
        if mask is not None:
            changes.append((xp.fmin, largest_score(mask, wide, xp)))
        changes = [(change, operand.transpose(0, 3, 1, 2)) for change, operand in changes]  # (batch, key, head, query)

        def part(start, stop):
            for rows in blocks(start, stop, weights[:1].size):
                scores = weights[rows] if wide == weights.dtype else xp.empty(weights[rows].shape, wide)
                q, k = query[rows].astype(wide, copy=False), key[rows].astype(wide, copy=False)
                xp.matmul(k, q.swapaxes(-1, -2), out=by_head(scores))
                own = [(change, x if len(x) == 1 else x[rows]) for change, x in changes]
                mask_rows = None if keep_mask is None else keep_mask[rows]
                dropped = self.weigh(xp, scores, own, factor, weights[rows], mask_rows)
                xp.matmul(by_head(dropped).swapaxes(-1, -2), value[rows], out=out[rows])

        parallel_for(xp, batch, part, cost=4.0 * weights[:1].size)
        self.keep(weights, keep_mask, factor, out)
        return out

    def weigh(self, xp, scores, changes, factor, weights, keep_mask):
        """Compute from products the weights times `factor`, for some batch rows. Return the weights after dropout.
        `changes` contains pairs of a ufunc and its second operand, which change the scaled scores.
        """
        wide = scores.dtype
        scores *= wide.type(self.scale)
        for change, operand in changes:
            change(scores, operand, out=scores)
        top = scores.max(axis=1, keepdims=True) if scores.shape[1] else 0
        # Where a query may attend to no key the maximum is -inf: its weights and its output are zero.
        scores -= xp.where(xp.isfinite(top), top, 0) if changes else top
        xp.exp(scores, out=scores)
        total = summed(scores, 1, keepdims=True)
        scores *= wide.type(factor) / xp.where(total == 0, 1, total)
        if wide != weights.dtype:
            weights[...] = scores
        return weights if keep_mask is None else weights * keep_mask

    def backward(self, g):
        query, key, value = self.saved[:3]
        weights, keep_mask, factor, out = self.kept
        xp, wide = array_module(g), np.promote_types(weights.dtype, np.float32)
        d_query, d_key, d_value = empty_like_heads(xp, query, key, value, query.dtype)
        all_d_scores = xp.empty(weights.shape, wide) if len(self.saved) == 4 and self.needs[3] else None
        divisor = wide.type(factor or 1.0)  # the factor is 0 if everything is dropped, and so are all gradients

        def part(start, stop):
            for rows in blocks(start, stop, weights[:1].size):
                q, k, v, gradient = (x[rows].astype(wide, copy=False) for x in (query, key, value, g))
                dropped = weights[rows].astype(wide, copy=False)
                dropped = dropped if keep_mask is None else dropped * keep_mask[rows]
                _multiply(xp, by_head(dropped), gradient, d_value[rows])
                d_scores = dropped if keep_mask is not None else xp.empty(dropped.shape, wide)
                xp.matmul(v, gradient.swapaxes(-1, -2), out=by_head(d_scores))
                past = out[rows].astype(wide, copy=False)
                dots = (np.vecdot(gradient, past) if xp is np else (gradient * past).sum(axis=-1)) / divisor
                mask_rows = None if keep_mask is None else keep_mask[rows]
                unscaled = None if all_d_scores is None else all_d_scores[rows]
                self.scores_gradient(d_scores, weights[rows], mask_rows, dots, unscaled)
                _multiply(xp, by_head(d_scores).swapaxes(-1, -2), k, d_query[rows])
                _multiply(xp, by_head(d_scores), q, d_key[rows])

        parallel_for(xp, len(weights), part, cost=6.0 * weights[:1].size)
        d_bias = None
        if all_d_scores is not None:
            d_bias = unbroadcast(by_head(all_d_scores).swapaxes(-1, -2), self.saved[3].shape)
        return (d_query, d_key, d_value, d_bias)[: len(self.saved)]

    def scores_gradient(self, d_scores, weights, keep_mask, dots, unscaled):
        """Replace `d_scores` = G V^T by scale * dS, for some batch rows. Write dS into `unscaled` if it is given."""
        if keep_mask is not None:
            d_scores *= keep_mask
        d_scores -= dots[:, None]
        d_scores *= weights
        if unscaled is not None:
            unscaled[...] = d_scores
        d_scores *= d_scores.dtype.type(self.scale)

    def dropout_mask(self):
        return ReplayedMask(*self.kept[1:3])


def by_head(array: Any) -> Any:
    """Return a view of (batch, key, head, query) with the axes (batch, head, key, query)."""
    return array.swapaxes(1, 2)


def _multiply(xp: Any, x: Any, y: Any, out: Any) -> None:
    """Compute out = x @ y, rounded to the dtype of `out`."""
    if out.dtype == x.dtype:
        xp.matmul(x, y, out=out)
    else:
        out[...] = xp.matmul(x, y)
