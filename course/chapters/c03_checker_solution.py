"""The solution of chapter 3: numeric derivatives, and a checker of rules with its mutants."""

import numpy as np


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def softmax_rule(x, g):
    p = softmax(x)
    return p * (g - (g * p).sum())


def mean_of_g(x, g):
    return softmax(x) * (g - g.mean())


X = np.array([0.7, -0.4, 1.9, -2.2])
MATRIX = np.array([[1.0, -2.0, 0.5, 3.0], [0.0, 1.0, -1.0, 2.0]])

# Each entry contains a function of an array, its rule (x, g) -> gradient of x, and an x for the check.
RIGHT = {
    "tanh": (np.tanh, lambda x, g: g * (1 - np.tanh(x) ** 2), X),
    "relu": (lambda x: np.maximum(x, 0), lambda x, g: g * (x > 0), X),
    "abs": (np.abs, lambda x, g: g * np.sign(x), X),
    "square, of large numbers": (lambda x: x * x, lambda x, g: 2 * x * g, 1e4 * X),
    "softmax": (softmax, softmax_rule, X),
    "a product with a matrix": (lambda x: MATRIX @ x, lambda x, g: MATRIX.T @ g, X),
}
WRONG = {
    "tanh, with a wrong sign": (np.tanh, lambda x, g: g * (1 + np.tanh(x) ** 2), X),
    "square, with a factor lost": (lambda x: x * x, lambda x, g: x * g, X),
    "relu, with a slope between -1 and 0": (lambda x: np.maximum(x, 0), lambda x, g: g * (x > -1), X),
    "log10, with a rounded constant": (np.log10, lambda x, g: g * 0.4343 / x, np.abs(X)),
    "softmax, with the mean of g": (softmax, mean_of_g, X),
}


def central(f, x, h):
    """Return the derivatives of the number f(x) with respect to each element of x, as central differences."""
    # your turn: Go through the elements, for index in np.ndindex(x.shape). For each element make two copies of x: in
    # one copy increase this element by h, in the other copy decrease it by h. How much do the values of f differ, and
    # how much do the two elements differ?
    out = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += h
        down[index] -= h
        out[index] = (f(up) - f(down)) / (2 * h)
    return out


def complex_step(f, x):
    """Return the derivatives of the number f(x) with respect to each element of x, computed with imaginary steps."""
    # your turn: Add 1e-20j to one element, in a copy that can hold complex numbers: x.astype(complex). Which part of
    # f's value contains the derivative, and by which number is the derivative multiplied?
    out = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        moved = x.astype(complex)
        moved[index] += 1e-20j
        out[index] = f(moved).imag / 1e-20
    return out


def accepts(f, rule, x):
    """Return whether rule(x, g) computes the gradient of x correctly from x and the gradient g of f(x)."""
    # your turn: Draw a g at random (np.random.default_rng(0).standard_normal). Compare the gradient from the rule with
    # the gradient of (f(x) * g).sum() from `central`. How large a difference do you allow, and relative to which
    # number?
    g = np.random.default_rng(0).standard_normal(f(x).shape)
    numeric = central(lambda x: (f(x) * g).sum(), x, 1e-4)
    difference = np.abs(rule(x, g) - numeric).max()
    return bool(difference <= 1e-6 * np.abs(numeric).max())
