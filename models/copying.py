"""Pointer-generator: the next token comes from the vocabulary, or attention copies it from the source.

Let z be the gate, p = sigmoid(z), v = softmax(l) the decoder's distribution over the vocabulary, and a its attention to
the source tokens x. The pointer-generator's probability of a token w is

    P(w) = p v(w) + (1 - p) c(w),    c(w) = sum of a_i over the i with x_i = w

Divided by p and by exp(-lse), lse = log sum exp(l), P is proportional to exp(l_w) + c(w) exp(lse - z). So the mixture
is softmax(l') with l'_w = l_w + log(1 + exp(lse - z + log c(w) - l_w)), which differs from l only at the source's
tokens. Losses and searches can therefore use l' in place of l, without the logarithm of a rounded probability.

The source's <eos> can be excluded from c, so that it is never copied. Then the sum of c is less than 1, and P is
divided by p + (1 - p) sum of c.

Source: See, Liu and Manning 2017, arXiv 1704.04368, sections 2.2 and 2.3. In the paper, words outside the vocabulary
get temporary ids. Here source and target share a vocabulary of subwords, which can spell any word. In the paper, the
gate is computed from the decoder's context, state and input. Here it is computed from the decoder's output, which is
the sum of the three.
"""

from typing import Any

import numpy as np

from ..autograd import Tensor, ops
from ..autograd.backend import array_module, constant
from ..autograd.half import widened

#: Smaller shares count as zero, so that neither their logarithm nor its gradient can overflow.
_TINY = 1e-20


def copy_logits(logits: Tensor, gate: Tensor, weights: Tensor, source: Any, uncopied: int | None = None) -> Tensor:
    """Return the logits l' of the mixture, (batch, length, vocab_size).
    For float16 inputs, they are computed in float32.

    Args:
        logits: l, the decoder's logits, (batch, length, vocab_size).
        gate: z, (batch, length, 1); a larger z means less copying.
        weights: a, the attention to the source, (batch, length, source_length). Each row sums to 1, or contains only
            zeros if there is no source; then nothing is copied.
        source: x, (batch, source_length) ids; tokens of weight zero, such as padding, are ignored.
        uncopied: the id of a token that is never copied, such as <eos>, or None.
    """
    logits, gate, weights = (widened(x) for x in (logits, gate, weights))
    xp = array_module(logits.data)
    source, (batch, length, _) = xp.asarray(source), logits.shape
    index = xp.arange(batch)[:, None, None], xp.arange(length)[:, None], source[:, None]
    shares = weights @ _first_of_each(source, uncopied, logits.dtype)
    none = shares.data < _TINY
    copied = ops.log(ops.where(none, _TINY, shares)) - gate + ops.logsumexp(logits, axis=-1, keepdims=True)
    added = ops.where(none, 0.0, ops.softplus(copied - logits[index]))
    return ops.scatter_add(logits, index, added)


def _first_of_each(source: Any, uncopied: int | None, dtype: Any) -> Any:
    """Return a 0-1 matrix, (batch, source_length, source_length), by which the weights are multiplied to get c.

    The product of a row of weights with this matrix is c at the first occurrence of each token that may be copied, and
    zero at other positions.
    """
    xp = array_module(source)
    same = source[:, :, None] == source[:, None]
    earlier = same & constant(xp, np.tri(source.shape[1], k=-1, dtype=bool))
    first = ~earlier.any(axis=2)
    if uncopied is not None:
        first &= source != uncopied
    return (same & first[:, None]).astype(dtype)


def coverage_loss(weights: Tensor, counted: Any) -> Tensor:
    """Compute the overlap of attention with earlier attention: sum over i of min(a_i, sum of a_i in earlier steps).

    `weights` are a, (batch, length, source_length). Returns the mean over the target's tokens, which are `counted`
    (batch, length), from 0 (no source token got attention in two steps) to 1. Source: See et al. 2017, section 2.3,
    equation 12. In the paper, the coverage is also an input of the attention; then positions can't be trained in
    parallel.
    """
    weights = widened(weights)
    counted = array_module(weights.data).asarray(counted).astype(weights.dtype)
    before = ops.cumsum(weights, axis=1) - weights
    losses = ops.minimum(weights, before).sum(axis=-1) * counted
    return losses.sum() / counted.sum().clip(1)


def copied_shares(
    logits: Tensor, gate: Tensor, weights: Tensor, source: Any, written: Any, uncopied: int | None = None
) -> Any:
    """Return the probability that each generated token was copied from each source token.

    The result is (batch, length, source_length). `written` (batch, length) are the generated ids; the other arguments
    are the same as in `copy_logits`. The sum of each row is (1 - p) c(w) / P(w), the probability that the generated
    token w was copied.
    """
    mixed = copy_logits(logits, gate, weights, source, uncopied).data
    xp, written = array_module(mixed), array_module(mixed).asarray(written)
    of_written = xp.take_along_axis(mixed, written[..., None], axis=-1)
    copying = (ops.logsumexp(widened(logits), axis=-1, keepdims=True) - widened(gate)).data
    source = xp.asarray(source)[:, None]
    from_here = (source == written[..., None]) & (source != (-1 if uncopied is None else uncopied))
    return xp.where(from_here, weights.data * xp.exp(copying - of_written), 0)
