"""What the large ops cost, roughly, on one core: the guesses by which `parallel_for` decides whether threads pay.

All but counts are nanoseconds. A guess that is wrong by half changes which small calls stay in one part, never a
result. Waking a thread up takes some 40 microseconds.
"""

from __future__ import annotations

#: Multiplications and additions of a matrix product that one core does in a nanosecond; (m, k) by (k, n) takes m k n.
FLOPS = 50

# A number of the array that the op goes over.
MASKED = 0.5  # x * mask * scale, residual added or not
COPIED = 0.5  # merging heads
DRAWN = 0.5  # a random bit
LAYER_NORM, LAYER_NORM_BACKWARD = 1.2, 2.5
RELU_BACKWARD = 0.6
CROSS_ENTROPY = 2.0  # softmax, loss and its gradient, of a logit
ATTENTION, ATTENTION_BACKWARD = 4.0, 6.0  # a score: products, softmax, dropout
BLOCKED_ATTENTION = 4.0
BLOCKS_FROM = 1 << 18  # scores a head, from which on attention goes by blocks unless told otherwise
