"""Numeric derivatives: central differences that detect kinks, and the complex step."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# Steps relative to the size of the changed number. Where the function isn't smooth, the next step is tried.
STEPS = (2e-3, 1e-4, 5e-6)

# f(step) -> (the projected change v . (f(x + step) - f(x)), the rounding noise in it)
Change = Callable[[float], float]


class Estimate(NamedTuple):
    value: float  # the derivative; NaN if the function isn't smooth here
    noise: float  # what rounding, or a small kink within the steps, may have added


def central_difference(change: Change, size: float, rounding: float) -> Estimate:
    """Compute the derivative at 0 of `change` by sixth-order central differences.

    Args:
        change: a function that maps a step to the value at this step minus the value at 0.
        size: the magnitude of the number to which the steps are added.
        rounding: the absolute error of a value of `change`.

    Where the function is smooth, the first differences over 1, 2 and 3 steps agree to high order, and the second
    differences agree too. If the differences disagree, there is a kink or a jump within 3 steps, and smaller steps are
    tried. The result is NaN if the differences disagree for every step. With q_k = (f(kh) - f(-kh)) / 2kh: f' = (15 q_1
    - 6 q_2 + q_3) / 10 + O(h^6) (Fornberg 1988, Math. Comp. 51).
    """
    for relative in STEPS:
        h = relative * size
        values = [(change(k * h), change(-k * h)) for k in (1, 2, 3)]
        if not np.isfinite(values).all():
            continue
        noise = rounding / h
        q1, q2, q3 = ((up - down) / (2 * k * h) for k, (up, down) in enumerate(values, start=1))
        s1, s2 = ((up + down) / (k * h) for k, (up, down) in enumerate(values[:2], start=1))
        fourth_order, sixth_order = (4 * q1 - q2) / 3, (15 * q1 - 6 * q2 + q3) / 10
        tolerance = 1e-5 * max(abs(q1), abs(q2), abs(q3)) + 100 * noise
        disagreement = abs(sixth_order - fourth_order)
        if disagreement <= tolerance and abs(s2 - 2 * s1) <= tolerance:
            return Estimate(sixth_order, noise + disagreement)
    return Estimate(np.nan, np.nan)


def complex_step(value: Callable[[complex], complex]) -> Estimate:
    """Return the derivative Im f(x + ih) / h. The formula has no subtraction, so no digits cancel and h can be tiny. It
    is valid only for analytic functions that are computed without abs, comparisons or conjugation. Source: Squire and
    Trapp 1998, SIAM Review 40.
    """
    return Estimate(value(1e-20j).imag / 1e-20, 0.0)
