"""Rough costs of the large ops on one core, with which `parallel_for` decides whether to use threads.

Costs are in nanoseconds, except numbers of operations. An error of 50 % in a cost only changes which small calls run on
one thread; results do not depend on the costs. Waking a thread takes about 40 microseconds.
"""

#: Multiply-adds of a matrix product that one core does in a nanosecond; (m, k) by (k, n) takes m k n of them.
FLOPS = 50

# For each element of the array that the op processes:
LAYER_NORM, LAYER_NORM_BACKWARD = 1.2, 2.5
RELU_BACKWARD = 0.6
CROSS_ENTROPY = 2.0  # softmax, loss and its gradient, for each logit
ATTENTION, ATTENTION_BACKWARD = 4.0, 6.0  # products, softmax and dropout, for each score
