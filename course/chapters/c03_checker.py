"""Chapter 3, the exercises: two kinds of numeric derivatives, and a checker that five mutants try to pass."""

from typing import Any

import numpy as np

from ...autograd import Function, gradcheck
from ...autograd.gradcheck import differences
from ..exercise import Wrong, need
from .c03_checker_solution import RIGHT, WRONG

RTOL = {"complex_step": 1e-13}
POINT = np.array([[0.5, -1.25, 2.0], [3.0, 0.75, -0.5]])


def along(f: Any, x: np.ndarray, index: tuple[int, ...]) -> Any:
    """Return a function of one number `step`: f(x) after `step` was added to one element of x."""

    def value(step: complex) -> Any:
        moved = x.astype(np.result_type(x.dtype, type(step)))
        moved[index] += step
        return f(moved)

    return value


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


def probe_complex_step(complex_step: Any) -> dict[str, Any]:
    return {
        "the derivative of tanh at -0.5": complex_step(lambda x: np.tanh(x).sum(), np.array([-0.5])),
        "the derivatives of exp(x y) + x³ z": complex_step(
            lambda x: np.exp(x[0] * x[1]) + x[0] ** 3 * x[2], np.array([0.5, -1.0, 2.0])
        ),
        "the derivatives of a product of 6 numbers": complex_step(lambda x: x.prod(), POINT.copy()),
    }


def real_complex_step(f: Any, x: np.ndarray) -> np.ndarray:
    """handloom's tests use this method; handloom's checker, which also checks functions like `abs`, does not."""
    out = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        out[index] = along(f, x, index)(1e-30j).imag / 1e-30
    return out


def probe_accepts(accepts: Any) -> dict[str, Any]:
    def verdict(f: Any, rule: Any, x: np.ndarray) -> bool:
        def checked(x: np.ndarray, g: Any) -> Any:
            if np.shape(g) != f(x).shape:
                raise Wrong(f"g has the shape {np.shape(g)}. It should have the shape of f(x), {f(x).shape}.")
            return rule(x, g)

        answer = accepts(f, checked, x.copy())
        if isinstance(answer, np.ndarray) and answer.size > 1:
            raise Wrong(f"accepts(f, rule, x) returned {answer.size} values. Return one bool.")
        return bool(answer) if isinstance(answer, np.bool_) else need(answer, bool, "accepts(f, rule, x)")

    found = {f"the verdict on the right rule of {name}": verdict(*case) for name, case in RIGHT.items()}

    def slipping(x: np.ndarray, g: Any) -> np.ndarray:
        right = g * (1 - np.tanh(x) ** 2)
        return right * np.where(np.abs(right) == np.abs(right).max(), 1 + 3e-5, 1)

    backwards = (np.tanh, lambda x, g: (g * (1 - np.tanh(x) ** 2))[::-1], RIGHT["tanh"][2])
    mutants = WRONG | {"tanh, with its result in reversed order (not in `WRONG`)": backwards}
    mutants["tanh of 48 numbers, one of which is wrong by 0.003% (not in `WRONG`)"] = (
        np.tanh,
        slipping,
        np.linspace(-1.5, 1.5, 48),
    )
    return found | {f"the verdict on the mutant {name}": verdict(*case) for name, case in mutants.items()}


def real_accepts(f: Any, rule: Any, x: np.ndarray) -> bool:
    class Given(Function):
        def forward(self, x):
            self.save(x)
            return f(x)

        def backward(self, g):
            return rule(*self.saved, g)

    return bool(gradcheck(lambda x: Given()(x), [x]))
