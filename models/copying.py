"""Pointer-generator: the next token comes from the vocabulary, or attention copies it from the source.

Let z be the gate and p = sigmoid(z), v = softmax(l) the decoder's own distribution, and a its attention to the source
tokens x. The pointer-generator's probability of a token w is

    P(w) = p v(w) + (1 - p) c(w),    c(w) = sum of a_i over the i with x_i = w

Divided by p and by exp(-lse), lse = log sum exp(l), P is proportional to exp(l_w) + c(w) exp(lse - z). So the mixture
is softmax(l') with l'_w = l_w + log(1 + exp(lse - z + log c(w) - l_w)), which differs from l only at the source's
tokens. Losses and searches use l' like l, and no logarithm of a rounded-off probability is taken.

The <eos> of the source may be left out of c, so that it is never copied. Then c sums to less than 1, and P is divided
by p + (1 - p) sum of c.

Source: See, Liu and Manning 2017, arXiv 1704.04368, sections 2.2 and 2.3. In the paper, words outside the vocabulary
get temporary ids; subwords can spell any word, so source and target share one vocabulary here. In the paper the gate
reads context, state and input of the decoder; here it reads the decoder's output, which is the sum of all three.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd import Tensor, ops
from ..autograd.backend import array_module, constant
from ..autograd.ops.reduction import widened

#: Smaller shares count as zero, so that neither their logarithm nor its gradient can overflow.
_TINY = 1e-20


def copy_logits(logits: Tensor, gate: Tensor, weights: Tensor, source: Any, uncopied: int | None = None) -> Tensor:
    """Return the logits l' of the mixture, (batch, length, vocab_size). For float16 they are computed in float32.

    Args:
        logits: l, the logits of the vocabulary, (batch, length, vocab_size).
        gate: z, (batch, length, 1); a larger value copies less.
        weights: a, attention to the source, (batch, length, source_length): each row sums to 1. Without a source it is
            all zeros, and nothing is copied.
        source: x, (batch, source_length) ids; tokens without weight, such as padding, don't count.
        uncopied: an id of the source that is never copied, such as that of <eos>, or None.
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
    """Return a matrix of zeros and ones, (batch, source_length, source_length), that computes c from weights.

    Its product with a row of weights is c at the first position of each token that may be copied, and zero elsewhere.
    """
    xp = array_module(source)
    same = source[:, :, None] == source[:, None]
    earlier = same & constant(xp, np.tri(source.shape[1], k=-1, dtype=bool))
    first = ~earlier.any(axis=2)
    if uncopied is not None:
        first &= source != uncopied
    return (same & first[:, None]).astype(dtype)


def coverage_loss(weights: Tensor, counted: Any) -> Tensor:
    """Compute how much attention repeats earlier attention: the sum of min(a_i, sum of a_i in earlier steps).

    Args:
        weights: a, (batch, length, source_length).
        counted: (batch, length) booleans, True for the target's tokens and False for padding.

    Returns the mean over the tokens that count, from 0 (each source token got its attention in one step) to 1. Source:
    See et al. 2017, section 2.3, equation 12. In the paper the coverage is also an input of the attention; a
    Transformer would then have to compute its steps one after the other in training.
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

    The result is (batch, length, source_length). The arguments are those of `copy_logits`, and the generated ids
    `written` (batch, length). A row sums to the probability that the generated token was copied: (1 - p) c(w) / P(w).
    """
    mixed = copy_logits(logits, gate, weights, source, uncopied).data
    xp, written = array_module(mixed), array_module(mixed).asarray(written)
    of_written = xp.take_along_axis(mixed, written[..., None], axis=-1)
    copying = (ops.logsumexp(widened(logits), axis=-1, keepdims=True) - widened(gate)).data
    source = xp.asarray(source)[:, None]
    from_here = (source == written[..., None]) & (source != (-1 if uncopied is None else uncopied))
    return xp.where(from_here, weights.data * xp.exp(copying - of_written), 0)
