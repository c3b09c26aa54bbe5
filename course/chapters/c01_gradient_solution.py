"""The solution of chapter 1: an automatic differentiation engine for single numbers."""

import itertools
import math

numbers = itertools.count()  # 0, 1, 2, ...: a number that was made later has a larger one


class Scalar:
    """A number `data`, the Scalars `inputs` from which it was computed, and a rule for their gradients.

    rule(g), where g is the gradient of this Scalar, returns a tuple: for each of `inputs`, g times the derivative.
    """

    def __init__(self, data, inputs=(), rule=lambda g: ()):
        self.data, self.inputs, self.rule = data, inputs, rule
        self.grad = 0.0
        self.number = next(numbers)


def add(x, y):
    """Return x + y as a Scalar. Both derivatives are 1: if x or y grows by 1, the sum also grows by 1."""
    return Scalar(x.data + y.data, (x, y), lambda g: (g * 1.0, g * 1.0))


def multiply(x, y):
    """Return the product x * y of two Scalars as a Scalar."""
    # your turn: Look at `add` above. If x grows a little, how many times as fast as x does x * y grow? And if y grows?
    return Scalar(x.data * y.data, (x, y), lambda g: (g * y.data, g * x.data))


def tanh(x):
    """Return the hyperbolic tangent of a Scalar as a Scalar."""
    # your turn: The value is math.tanh(x.data). For the rule, use the derivative from the text. How does it depend on
    # the value y? There is one input, so the rule returns a tuple with one element: (something,).
    y = math.tanh(x.data)
    return Scalar(y, (x,), lambda g: (g * (1 - y * y),))


def backward(y):
    """Add the derivative of y to `grad` of each Scalar from which y was computed, and of y itself."""
    # your turn: Go through all Scalars that y was made from, beginning with the newest. Call the rule of each Scalar
    # and add the resulting shares to the gradients of its inputs. A Scalar that was used twice gets two shares. The
    # derivative of y with respect to itself is 1.
    found, waiting = {y}, [y]
    while waiting:
        new = set(waiting.pop().inputs) - found
        found |= new
        waiting += new
    y.grad += 1.0
    for scalar in sorted(found, key=lambda scalar: -scalar.number):
        for x, share in zip(scalar.inputs, scalar.rule(scalar.grad), strict=True):
            x.grad += share
