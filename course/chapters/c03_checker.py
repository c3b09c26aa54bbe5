"""Chapter 3, the exercises: two kinds of numeric derivatives, and a checker that five mutants try to pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import Function, gradcheck
from ...autograd.gradcheck import differences
from ..exercise import Exercise, Wrong, need
from .c03_checker_solution import RIGHT, WRONG, accepts, central, complex_step

POINT = np.array([[0.5, -1.25, 2.0], [3.0, 0.75, -0.5]])


def along(f: Any, x: np.ndarray, index: tuple[int, ...]) -> Any:
    """Return a function of one number `step`: f(x) after `step` was added to one element of x."""

    def value(step: complex) -> Any:
        moved = x.astype(np.result_type(x.dtype, type(step)))
        moved[index] += step
        return f(moved)

    return value


# -- central -----------------------------------------------------------------------------------------------------------


def probe_central(central: Any) -> dict[str, Any]:
    x, after = POINT.copy(), POINT.copy()
    matrix = np.arange(9.0).reshape(3, 3) - 3
    found = {
        "the derivative of 3 x² at x = 2": central(lambda x: 3.0 * (x * x).sum(), np.array([2.0]), 0.01),
        "the derivatives of a square form of 6 numbers": central(lambda x: (x @ matrix * x).sum(), x, 1e-3),
    }
    central(lambda x: (x * x).sum(), after, 0.25)
    return found | {"x itself, which should stay as it was": after}


def real_central(f: Any, x: np.ndarray, h: float) -> np.ndarray:
    out = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        value, base = along(f, x, index), f(x)
        out[index] = differences.central_difference(lambda step: value(step) - base, 1.0, 1e-15 * abs(base)).value  # noqa: B023
    return out


CENTRAL = Exercise(
    central,
    probe_central,
    real_central,
    source="autograd.gradcheck.differences.central_difference",
    hints=(
        "How many numbers are there to find, and how many values of f does each of them need?",
        "For x of shape (2, 3) there are 6 derivatives. For the first, x[0, 0] is moved up and down by h; the other "
        "5 numbers stay. The two points are 2 h apart.",
        "for index in np.ndindex(x.shape): up = x.copy(); up[index] += h; the same for down with -=; out[index] = "
        "(f(up) - f(down)) / (2 * h), with out = np.zeros(x.shape) before the loop.",
    ),
    changes="""
        This is the forward difference, f(x + h) - f(x). For 3 x² at 2 with h = 0.01 it gives 12.03. Take a step in the
        other direction as well.
        - f(down)) / (2 * h)
        + f(x)) / h
        The result is twice too large: the distance from x - h to x + h is 2h, so divide by 2h.
        - / (2 * h)
        + / h
        In Python a / 2 * h is (a / 2) * h: this multiplies by h. Write / (2 * h).
        - / (2 * h)
        + / 2 * h
        All differences are 0. `up = x` makes no copy: up, down and x are one array, and the step down undoes the step
        up. Write x.copy() for each of the two.
        - up, down = x.copy(), x.copy()
        + up = down = x
        The sign is reversed: the value above x comes first, f(x + h) - f(x - h).
        - f(up) - f(down)
        + f(down) - f(up)
        range(len(x)) goes through the rows of a table, and each row is moved as a whole. np.ndindex(x.shape) goes
        through the elements, however many axes there are.
        - np.ndindex(x.shape)
        + range(len(x))
        x is changed and not put back: each element stays h lower than it was, so all later differences are computed at
        another point. Work on copies, x.copy().
        - up, down = x.copy(), x.copy()
        + up = x
        - down[index] -= h
        + above = f(x)
        + x[index] -= 2 * h
        - f(up) - f(down)
        + above - f(x)
    """,
)


@CENTRAL.wrong
def all_at_once(f, x, h):
    """All elements are changed at once, which gives the sum of all derivatives. Change one element at a time, and keep
    the other elements unchanged.
    """
    return (f(x + h) - f(x - h)) / (2 * h)


@CENTRAL.wrong
def forward_at_once(f, x, h):
    """This gives one number for the whole array x, because all elements are changed at once. Change one element at a
    time, for index in np.ndindex(x.shape), in both directions.
    """
    return (f(x + h) - f(x)) / h


@CENTRAL.right
def moved_and_put_back(f, x, h):
    out = np.empty(x.size)
    flat = x.reshape(-1)
    for i, before in enumerate(flat.tolist()):
        values = []
        for step in (h, -h):
            flat[i] = before + step
            values.append(f(x))
        flat[i] = before
        out[i] = (values[0] - values[1]) / 2 / h
    return out.reshape(x.shape)


# -- complex_step ------------------------------------------------------------------------------------------------------


def probe_complex_step(complex_step: Any) -> dict[str, Any]:
    return {
        "the derivative of tanh at -0.5": complex_step(lambda x: np.tanh(x).sum(), np.array([-0.5])),
        "the derivatives of exp(x y) + x³ z": complex_step(
            lambda x: np.exp(x[0] * x[1]) + x[0] ** 3 * x[2], np.array([0.5, -1.0, 2.0])
        ),
        "the derivatives of a product of 6 numbers": complex_step(lambda x: x.prod(), POINT.copy()),
    }


def real_complex_step(f: Any, x: np.ndarray) -> np.ndarray:
    out = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        out[index] = differences.complex_step(along(f, x, index)).value
    return out


COMPLEX_STEP = Exercise(
    complex_step,
    probe_complex_step,
    real_complex_step,
    source="autograd.gradcheck.differences.complex_step",
    rtol=1e-13,
    hints=(
        "What happens to an imaginary number that is written into a real array, and so what must the type of the copy "
        "of x be?",
        "For f(x) = x² at 3: (3 + 1e-20 i)² = 9 + 6e-20 i. The imaginary part over 1e-20 is 6, the derivative.",
        "moved = x.astype(complex); moved[index] += 1e-20j; out[index] = f(moved).imag / 1e-20, in the loop of "
        "`central`. In Python 1j is i.",
    ),
    changes="""
        The method is right, but the step is too long: the error is h²/6 f"'. Take 1e-20: such a small step does no harm
        here, and that is the advantage of this method.
        - 1e-20
        + 1e-4
        This is the real part, which is f(x) itself: the derivative is multiplied by i, so it is in the imaginary part.
        - .imag
        + .real
        abs() of the value mixes both parts, and the real part is much larger than the imaginary part. Take .imag.
        - f(moved).imag
        + abs(f(moved))
        The derivatives are all zero, or nearly. Either the imaginary part, which is h times the derivative, is not
        divided by 1e-20 yet; or the step is lost, because an array of floats drops imaginary parts: use
        x.astype(complex).
        - return out
        + return np.zeros(x.shape)
    """,
)


@COMPLEX_STEP.right
def by_unit_vectors(f, x):
    steps = 1e-30j * np.eye(x.size).reshape((x.size, *x.shape))
    return np.array([f(x + step).imag * 1e30 for step in steps]).reshape(x.shape)


# -- accepts -----------------------------------------------------------------------------------------------------------


def probe_accepts(accepts: Any) -> dict[str, Any]:
    def verdict(f: Any, rule: Any, x: np.ndarray) -> bool:
        answer = accepts(f, rule, x.copy())
        if isinstance(answer, np.ndarray) and answer.size > 1:
            raise Wrong(f"accepts(f, rule, x) returned {answer.size} values. Return one bool.")
        return bool(answer) if isinstance(answer, np.bool_) else need(answer, bool, "accepts(f, rule, x)")

    found = {f"the verdict on the right rule of {name}": verdict(*case) for name, case in RIGHT.items()}
    return found | {f"the verdict on the mutant {name}": verdict(*case) for name, case in WRONG.items()}


def real_accepts(f: Any, rule: Any, x: np.ndarray) -> bool:
    class Given(Function):
        def forward(self, x):
            self.save(x)
            return f(x)

        def backward(self, g):
            return rule(*self.saved, g)

    return bool(gradcheck(lambda x: Given()(x), [x]))


ACCEPTS = Exercise(
    accepts,
    probe_accepts,
    real_accepts,
    source="autograd.gradcheck.check.gradcheck",
    hints=(
        "`central` takes a function that gives one number, and f gives an array. How did the text turn this array into "
        "one number?",
        "With outputs 2 and 3 and a random g of 0.5 and -1 the number is 2 · 0.5 - 3 · 1 = -2. The rule gets the "
        "same g.",
        "numeric = central(lambda x: (f(x) * g).sum(), x, 1e-4); return bool(np.abs(rule(x, g) - numeric).max() <= "
        "1e-6 * np.abs(numeric).max())",
    ),
    changes="""
        Four of the five mutants are rejected, but softmax's mutant is accepted. With g = 1 everywhere you check
        y.sum(), which for softmax is always 1, and the wrong rule gives 0 there as the right one does. Draw g at
        random.
        - np.random.default_rng(0).standard_normal(f(x).shape)
        + np.ones(f(x).shape)
        - bool(difference <= 1e-6 * np.abs(numeric).max())
        + np.allclose(rule(x, g), numeric, rtol=1e-6, atol=1e-9)
        The right rule of softmax is rejected. With g = 1 everywhere you check y.sum(), which for softmax is always 1:
        both gradients are 0 except for rounding, so you compare one rounding error with another. Draw g at random.
        - np.random.default_rng(0).standard_normal(f(x).shape)
        + np.ones(f(x).shape)
        log10's mutant is accepted: 0.4343 instead of 0.43429448 is an error of 1.3e-5, and you allow more. The central
        difference is accurate to about 1e-8.
        - 1e-6
        + 1e-3
        Right rules are rejected: you allow less than the error of the central difference itself, about 1e-8. 1e-6 of
        the largest number is between that and a real mistake.
        - 1e-6
        + 1e-13
        The square of large numbers is rejected although it is right: its gradients are near 20000, and rounding alone
        is more than you allow. Allow a fraction of the largest number.
        - <= 1e-6 * np.abs(numeric).max()
        + <= 1e-6
        relu is rejected although it is right: where its derivative is 0, you divide by 0. Divide by the largest number
        of the gradient, not by each number.
        - np.abs(rule(x, g) - numeric).max()
        + (np.abs(rule(x, g) - numeric) / np.abs(numeric)).max()
        - <= 1e-6 * np.abs(numeric).max()
        + <= 1e-6
        relu's mutant is accepted: it is wrong for only one element, the second. Do you compare only the first element,
        or is it enough for you that some are equal? The *largest* difference decides.
        - np.abs(rule(x, g) - numeric).max()
        + abs(rule(x, g)[0] - numeric[0])
        - np.abs(numeric).max()
        + abs(numeric[0])
        abs is rejected although its rule is right: it can't be computed with complex numbers, because the imaginary
        part is lost. A checker for all rules uses central differences.
        - central(lambda x: (f(x) * g).sum(), x, 1e-4)
        + complex_step(lambda x: (f(x) * g).sum(), x)
        `central` takes a function that gives one number, and f gives an array. Contract it with g: lambda x: (f(x) *
        g).sum().
        - central(lambda x: (f(x) * g).sum(), x, 1e-4)
        + central(f, x, 1e-4)
        g has a number for each element of f(x), not of x: a product with a matrix has another length.
        - f(x).shape
        + x.shape
        Everything is accepted, including the mutants. Return True or False: whether the difference is small.
        - return bool(difference <= 1e-6 * np.abs(numeric).max())
        + return True
    """,
)


@ACCEPTS.right
def along_a_direction(f, rule, x):
    """A correct answer with random directions instead of single elements: the slope of L along v is the gradient times
    v.
    """
    rng = np.random.default_rng(5)
    for _ in range(5):
        g, v, h = rng.standard_normal(f(x).shape), rng.standard_normal(x.shape), 1e-5 * np.abs(x).max()
        slope = ((f(x + h * v) - f(x - h * v)) * g).sum() / (2 * h)
        gradient = rule(x, g)
        if abs((gradient * v).sum() - slope) > 1e-6 * np.linalg.norm(gradient):
            return False
    return True
