"""Chapter 3, the exercises: two kinds of numeric derivatives, and a checker that five mutants try to pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...autograd import Function, gradcheck
from ...autograd.gradcheck import differences
from ..exercise import Exercise, Mistake, Wrong, need
from .c03_checker_solution import RIGHT, WRONG, central

POINT = np.array([[0.5, -1.25, 2.0], [3.0, 0.75, -0.5]])


def probe_central(central: Any) -> dict[str, Any]:
    x, after = POINT.copy(), POINT.copy()
    matrix = np.arange(9.0).reshape(3, 3) - 3
    found = {
        "the derivative of 3 x² at x = 2": central(lambda x: 3.0 * (x * x).sum(), np.array([2.0]), 0.01),
        "the derivatives of a square form of 6 numbers": central(lambda x: (x @ matrix * x).sum(), x, 1e-3),
    }
    central(lambda x: (x * x).sum(), after, 0.25)
    return found | {"x itself, which should stay as it was": after}


def probe_complex_step(complex_step: Any) -> dict[str, Any]:
    return {
        "the derivative of tanh at -0.5": complex_step(lambda x: np.tanh(x).sum(), np.array([-0.5])),
        "the derivatives of exp(x y) + x³ z": complex_step(
            lambda x: np.exp(x[0] * x[1]) + x[0] ** 3 * x[2], np.array([0.5, -1.0, 2.0])
        ),
        "the derivatives of a product of 6 numbers": complex_step(lambda x: x.prod(), POINT.copy()),
    }


def probe_accepts(accepts: Any) -> dict[str, Any]:
    def verdict(f: Any, rule: Any, x: np.ndarray) -> bool:
        answer = accepts(f, rule, x.copy())
        if isinstance(answer, np.ndarray) and answer.size > 1:
            raise Wrong(f"accepts(f, rule, x) gave {answer.size} answers. Make one of them: the largest difference.")
        return bool(answer) if isinstance(answer, np.bool_) else need(answer, bool, "accepts(f, rule, x)")

    found = {f"the verdict on the right rule of {name}": verdict(*case) for name, case in RIGHT.items()}
    return found | {f"the verdict on the mutant {name}": verdict(*case) for name, case in WRONG.items()}


# -- handloom's own ------------------------------------------------------------------------------------------------


def along(f: Any, x: np.ndarray, index: tuple[int, ...]) -> Any:
    """step -> f where one element of x is moved by it."""

    def value(step: complex) -> Any:
        moved = x.astype(np.result_type(x.dtype, type(step)))
        moved[index] += step
        return f(moved)

    return value


def real_central(f: Any, x: np.ndarray, h: float) -> np.ndarray:
    out = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        value, base = along(f, x, index), f(x)
        out[index] = differences.central_difference(lambda step: value(step) - base, 1.0, 1e-15 * abs(base)).value  # noqa: B023
    return out


def real_complex_step(f: Any, x: np.ndarray) -> np.ndarray:
    out = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        out[index] = differences.complex_step(along(f, x, index)).value
    return out


def real_accepts(f: Any, rule: Any, x: np.ndarray) -> bool:
    class Given(Function):
        def forward(self, x):
            self.save(x)
            return f(x)

        def backward(self, g):
            return rule(*self.saved, g)

    return bool(gradcheck(lambda x: Given()(x), [x]))


# -- typical mistakes ----------------------------------------------------------------------------------------------


def differences_by(quotient: Any) -> Any:
    """Differences where quotient(f, up, down, x, h) is taken for each element."""

    def answer(f, x, h):
        out = np.zeros(x.shape)
        for index in np.ndindex(x.shape):
            up, down = x.copy(), x.copy()
            up[index] += h
            down[index] -= h
            out[index] = quotient(f, up, down, x, h)
        return out

    return answer


forward_difference = differences_by(lambda f, up, down, x, h: (f(up) - f(x)) / h)
brackets_forgotten = differences_by(lambda f, up, down, x, h: (f(up) - f(down)) / 2 * h)
half_the_distance = differences_by(lambda f, up, down, x, h: (f(up) - f(down)) / h)
turned_round = differences_by(lambda f, up, down, x, h: (f(down) - f(up)) / (2 * h))


def all_at_once(f, x, h):
    return (f(x + h) - f(x - h)) / (2 * h)


def forward_at_once(f, x, h):
    return (f(x + h) - f(x)) / h


def no_copies(f, x, h):
    out = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        up = down = x
        up[index] += h
        down[index] -= h
        out[index] = (f(up) - f(down)) / (2 * h)
    return out


def whole_rows(f, x, h):
    out = np.zeros(x.shape)
    for i in range(len(x)):
        step = np.zeros(x.shape)
        step[i] = h
        out[i] = (f(x + step) - f(x - step)) / (2 * h)
    return out


def not_put_back(f, x, h):
    out = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        x[index] += h
        above = f(x)
        x[index] -= 2 * h
        out[index] = (above - f(x)) / (2 * h)
    return out


def imaginary(step: complex, take: Any) -> Any:
    def answer(f, x):
        out = np.zeros(x.shape)
        for index in np.ndindex(x.shape):
            moved = x.astype(complex)
            moved[index] += step
            out[index] = take(f(moved))
        return out

    return answer


long_step = imaginary(1e-4j, lambda value: value.imag / 1e-4)
real_part = imaginary(1e-20j, lambda value: value.real / 1e-20)
with_absolute = imaginary(1e-20j, lambda value: abs(value) / 1e-20)


def stays_real(f, x):
    return np.zeros(x.shape)


def judged(draw: Any, close: Any, derivative: Any = None) -> Any:
    """A checker with draw(shape), the g to take; close(gradient, numeric), the verdict."""

    def answer(f, rule, x):
        g = draw(f(x).shape)
        numeric = (derivative or (lambda f, x: central(f, x, 1e-4)))(lambda x: (f(x) * g).sum(), x)
        return bool(close(rule(x, g), numeric))

    return answer


def drawn(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def within(share: float) -> Any:
    return lambda ours, numeric: np.abs(ours - numeric).max() <= share * np.abs(numeric).max()


sum_of_outputs = judged(np.ones, lambda ours, numeric: np.allclose(ours, numeric, rtol=1e-6, atol=1e-9))
sum_by_share = judged(np.ones, within(1e-6))
loose = judged(drawn, within(1e-3))
strict = judged(drawn, within(1e-13))
absolute = judged(drawn, lambda ours, numeric: np.abs(ours - numeric).max() <= 1e-6)
relative_to_each = judged(drawn, lambda ours, numeric: (np.abs(ours - numeric) / np.abs(numeric) <= 1e-6).all())
first_entry = judged(drawn, lambda ours, numeric: abs(ours[0] - numeric[0]) <= 1e-6 * abs(numeric[0]))
by_complex_step = judged(drawn, within(1e-6), lambda f, x: imaginary(1e-20j, lambda v: v.imag / 1e-20)(f, x))


def not_one_number(f, rule, x):
    g = drawn(f(x).shape)
    return within(1e-6)(rule(x, g), central(f, x, 1e-4))


def g_like_x(f, rule, x):
    g = drawn(x.shape)
    return within(1e-6)(rule(x, g), central(lambda x: (f(x) * g).sum(), x, 1e-4))


def believes_everything(f, rule, x):
    return True


# -- right, and written differently --------------------------------------------------------------------------------


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


def by_unit_vectors(f, x):
    steps = 1e-30j * np.eye(x.size).reshape((x.size, *x.shape))
    return np.array([f(x + step).imag * 1e30 for step in steps]).reshape(x.shape)


def along_a_direction(f, rule, x):
    """Random directions in place of single elements: the change of L along v is the gradient times v."""
    rng = np.random.default_rng(5)
    for _ in range(5):
        g, v, h = rng.standard_normal(f(x).shape), rng.standard_normal(x.shape), 1e-5 * np.abs(x).max()
        slope = ((f(x + h * v) - f(x - h * v)) * g).sum() / (2 * h)
        gradient = rule(x, g)
        if abs((gradient * v).sum() - slope) > 1e-6 * np.linalg.norm(gradient):
            return False
    return True


EXERCISES = [
    Exercise(
        name="central",
        real=real_central,
        probe=probe_central,
        mistakes=[
            Mistake(
                forward_difference,
                "This is the forward difference, f(x + h) - f(x). For 3 x² at 2 with h = 0.01 it gives 12.03. Take a "
                "step to the other side as well.",
            ),
            Mistake(
                half_the_distance,
                "Twice too large: from x - h to x + h it is 2h, and that is what to divide by.",
            ),
            Mistake(
                brackets_forgotten,
                "In Python a / 2 * h is (a / 2) * h: this multiplies by h. Write / (2 * h).",
            ),
            Mistake(
                no_copies,
                "All differences are 0. `up = x` makes no copy: up, down and x are one array, and the step down undoes "
                "the step up. Write x.copy() for each of the two.",
            ),
            Mistake(turned_round, "The sign is turned round: the value above comes first, f(x + h) - f(x - h)."),
            Mistake(
                all_at_once,
                "All elements are moved at once, which gives the sum of all derivatives. Move one, and leave the "
                "others where they are.",
            ),
            Mistake(
                forward_at_once,
                "One number for all of x: all elements are moved at once. Move one at a time, for index in "
                "np.ndindex(x.shape), and to both sides.",
            ),
            Mistake(
                whole_rows,
                "range(len(x)) goes through the rows of a table, and moves each as a whole. np.ndindex(x.shape) goes "
                "through the elements, however many axes there are.",
            ),
            Mistake(
                not_put_back,
                "x is changed and not put back: each element stays h lower than it was, and all later differences are "
                "taken elsewhere. Work on copies, x.copy().",
            ),
        ],
        hints=(
            "np.ndindex(x.shape) gives the places of all elements, (0, 0), (0, 1), ...; x[index] is the element, for "
            "any number of axes. The result has the shape of x.",
            "In the loop: up = x.copy(); up[index] += h; the same for down with -=. Then two calls of f.",
            "out[index] = (f(up) - f(down)) / (2 * h), with out = np.zeros(x.shape) before the loop.",
        ),
        another=moved_and_put_back,
        source="autograd.gradcheck.differences.central_difference",
    ),
    Exercise(
        name="complex_step",
        real=real_complex_step,
        probe=probe_complex_step,
        rtol=1e-13,
        mistakes=[
            Mistake(
                long_step,
                "The way is right, the step is too long: the error is h²/6 f\"', and nothing stops you from "
                "taking 1e-20. That is the point of it.",
            ),
            Mistake(
                real_part,
                "This is the real part, which is f(x) itself: the derivative is multiplied by i, so it is in the "
                "imaginary part.",
            ),
            Mistake(
                with_absolute,
                "abs() of the value mixes both parts, and the real one is by far the larger. Take .imag.",
            ),
            Mistake(
                stays_real,
                "All zeros, or nearly. Either the imaginary part, which is h times the derivative, is not yet divided "
                "by 1e-20; or the step never arrives, for an array of floats drops it: x.astype(complex).",
            ),
        ],
        hints=(
            "The same loop as in `central`, with one value in place of two, and a copy that can hold complex numbers.",
            "moved = x.astype(complex); moved[index] += 1e-20j. In Python 1j is i.",
            "out[index] = f(moved).imag / 1e-20, with an array out of zeros of the shape of x before the loop.",
        ),
        another=by_unit_vectors,
        source="autograd.gradcheck.differences.complex_step",
    ),
    Exercise(
        name="accepts",
        real=real_accepts,
        probe=probe_accepts,
        mistakes=[
            Mistake(
                sum_of_outputs,
                "Four of the five are convicted, and softmax's mutant goes free. With g = 1 everywhere you check "
                "y.sum(), which for softmax is always 1, and the wrong rule gives 0 there as the right one does. Draw "
                "g at random.",
            ),
            Mistake(
                sum_by_share,
                "The right rule of softmax is convicted. With g = 1 everywhere you check y.sum(), which for softmax is "
                "always 1: both gradients are 0 but for rounding, and you compare rounding with rounding. Draw g at "
                "random.",
            ),
            Mistake(
                loose,
                "log10's mutant goes free: 0.4343 in place of 0.43429448 is an error of 1.3e-5, and you allow more. "
                "The central difference is good to about 1e-8.",
            ),
            Mistake(
                strict,
                "Right rules are convicted: you allow less than the error of the central difference itself, about "
                "1e-8. 1e-6 of the largest number is between that and a real mistake.",
            ),
            Mistake(
                absolute,
                "The square of large numbers is convicted though it is right: its gradients are near 20000, and "
                "rounding alone is more than you allow. Allow a share of the largest number.",
            ),
            Mistake(
                relative_to_each,
                "relu is convicted though it is right: where its derivative is 0, you divide by 0. Divide by the "
                "largest number of the gradient, not by each.",
            ),
            Mistake(
                first_entry,
                "relu's mutant goes free: it is wrong for one element alone, the second. Do you compare the first, or "
                "is it enough that some are equal? The *largest* difference decides.",
            ),
            Mistake(
                by_complex_step,
                "abs is convicted though its rule is right: it can't be computed with complex numbers, the imaginary "
                "part is lost. A checker for any rule takes central differences.",
            ),
            Mistake(
                not_one_number,
                "`central` takes a function that gives one number, and f gives an array. Contract it with g: "
                "lambda x: (f(x) * g).sum().",
            ),
            Mistake(
                g_like_x,
                "g has a number for each element of f(x), not of x: a product with a matrix has another length.",
            ),
            Mistake(
                believes_everything,
                "Everything is accepted, the mutants too. Return whether the difference is small, True or False.",
            ),
        ],
        hints=(
            "Three lines: g at random, of the shape of f(x); the rule's gradient for it; and the numeric one, by "
            "`central`, of a function that gives one number. Then compare.",
            "numeric = central(lambda x: (f(x) * g).sum(), x, 1e-4). The same g goes to rule(x, g).",
            "return bool(np.abs(rule(x, g) - numeric).max() <= 1e-6 * np.abs(numeric).max())",
        ),
        another=along_a_direction,
        source="autograd.gradcheck.check.gradcheck",
    ),
]
