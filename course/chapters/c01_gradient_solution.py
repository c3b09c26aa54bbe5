"""What chapter 1 builds: a scalar engine; the learner's file is cut from this one."""

import itertools
import math

numbers = itertools.count()  # 0, 1, 2, ...: a number that was made later has a larger one


class Scalar:
    """A number `data` that stores its inputs, and the rule that computes their gradients from its own.

    rule(g) is given the gradient of this number and returns a tuple: for each of `inputs`, g times the derivative.
    """

    def __init__(self, data, inputs=(), rule=lambda g: ()):
        self.data, self.inputs, self.rule = data, inputs, rule
        self.grad = 0.0
        self.number = next(numbers)


def add(x, y):
    """x + y, an example: if x grows by 1, so does the sum; the same for y."""
    return Scalar(x.data + y.data, (x, y), lambda g: (g * 1.0, g * 1.0))


def multiply(x, y):
    """x * y of two Scalars, as a Scalar."""
    # your turn: Look at `add` above. If x grows a little, by how many times as much does x * y grow? And if y does?
    return Scalar(x.data * y.data, (x, y), lambda g: (g * y.data, g * x.data))


def tanh(x):
    """The hyperbolic tangent of a Scalar, as a Scalar; math.tanh gives the value."""
    # your turn: The value is math.tanh(x.data). For the rule: which derivative does the text find, written in terms of
    # the value y itself? There is one input, so the rule returns a tuple with one element: (something,).
    y = math.tanh(x.data)
    return Scalar(y, (x,), lambda g: (g * (1 - y * y),))


def backward(y):
    """For each Scalar that y was made from, add the derivative of y to the Scalar's `grad`; for y itself it is 1."""
    # your turn: Go through all Scalars that y was made from, beginning with the newest. Each passes gradients to its
    # inputs by its rule. A Scalar that was used twice gets two shares.
    found, waiting = {y}, [y]
    while waiting:
        new = set(waiting.pop().inputs) - found
        found |= new
        waiting += new
    y.grad += 1.0
    for scalar in sorted(found, key=lambda scalar: -scalar.number):
        for x, share in zip(scalar.inputs, scalar.rule(scalar.grad), strict=True):
            x.grad += share
