"""Chapter 3, the pictures: errors of numeric derivatives for several steps, and a mistake that a check with g = 1
misses.
"""

from typing import Any

import numpy as np

from ..drawing import BLUE, GREEN, GREY, ORANGE, centred, label, named, new_figure, plain
from .c03_checker_solution import RIGHT, WRONG, central, complex_step


def draw_steps() -> Any:
    """Draw the errors of numeric derivatives of exp(sin x) at x = 0.6. The derivative is cos(x) exp(sin x)."""
    figure, axes = new_figure(3.3)
    title = "error of the derivative of exp(sin x) at x = 0.6, by the step h"
    plain(axes, title, "h", "relative error")

    def f(x: Any) -> Any:
        return np.exp(np.sin(x)).sum()

    x = np.array([0.6])
    right = np.cos(x) * f(x)
    steps = 10.0 ** np.arange(0, -20.5, -0.5)
    ways = {
        "forward difference": (ORANGE, lambda h: (f(x + h) - f(x)) / h),
        "central difference": (BLUE, lambda h: central(f, x, h)),
        "complex step": (GREEN, lambda h: np.imag(f(x + 1j * h)) / h),
    }
    for name, (colour, derivative) in ways.items():
        errors = [max(float(np.abs(derivative(h) / right - 1).max()), 3e-17) for h in steps]
        axes.loglog(steps, errors, color=colour, linewidth=1.8, label=name)
    assert np.allclose(complex_step(f, x), right, rtol=1e-15)
    axes.invert_xaxis()
    axes.annotate("h too large:\nTaylor's next term", (3e-2, 1e-1), fontsize=8.5, color=GREY, va="bottom")
    axes.annotate("h too small:\nrounding, 1e-16 / h", (1e-8, 1e-5), fontsize=8.5, color=GREY, va="bottom", ha="center")
    axes.legend(fontsize=8.5, frameon=False, loc="center right")
    axes.set_ylim(1e-17, 30)
    return figure


def signed(axes: Any, array: np.ndarray, title: str, names: list[str], top: float) -> None:
    """Draw a matrix with cells shaded from orange (negative) to blue (positive)."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("signed", [ORANGE, "white", BLUE])
    axes.imshow(array, cmap=colours, vmin=-top, vmax=top)
    for (i, j), value in np.ndenumerate(array):
        centred(axes, j, i, f"{value:+.2f}".replace("-0.00", "0").replace("+0.00", "0"))
    named(axes, [f"$x_{i}$" for i in range(1, len(array) + 1)], names, 9)
    label(axes, title)


def draw_blind() -> Any:
    _, right, x = RIGHT["softmax"]
    x = x / 2
    _, wrong, _ = WRONG["softmax, with the mean of g"]
    units = np.eye(len(x))
    difference = np.stack([wrong(x, unit) - right(x, unit) for unit in units], axis=1)
    g = np.random.default_rng(0).standard_normal((len(x), 2))
    seen = difference @ np.column_stack([np.ones(len(x)), g])
    figure, (left, middle) = new_figure(2.7, 1, 2, width_ratios=[4, 3])
    top = 0.25
    signed(left, difference, "D: the wrong rule minus the right one", [f"$g_{i}$" for i in range(1, 5)], top)
    signed(middle, seen, "D g: what the check sees", ["g = 1", "random", "again"], top)
    return figure
