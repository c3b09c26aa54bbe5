"""Chapter 8, the pictures: sizes of numbers and gradients in 50 layers, and the gradient of layer norm."""

from typing import Any

import numpy as np

from ...autograd import Tensor, grad, ops
from ..drawing import BLUE, GREEN, GREY, ORANGE, RED, arrow, new_figure, note, plain
from .c08_depth_solution import layer_norm, layer_norm_rule

LAYERS, WIDTH, ROWS = 50, 48, 8


def sizes(kind: str, scale: float) -> tuple[list[float], list[float]]:
    """Return the root mean squares of the numbers after each layer, and of the gradient of these numbers."""
    rng = np.random.default_rng(0)
    x = Tensor(rng.standard_normal((ROWS, WIDTH)), requires_grad=True)
    one, zero = Tensor(np.ones(WIDTH)), Tensor(np.zeros(WIDTH))
    road = [x]
    for _ in range(LAYERS):
        into, back = (Tensor(rng.standard_normal((WIDTH, WIDTH)) * scale / np.sqrt(WIDTH)) for _ in range(2))
        read = ops.layer_norm(x, one, zero) if kind == "norm" else x
        made = ops.relu(read @ into) @ back * np.sqrt(2.0)  # relu halves the mean square
        x = made if kind == "plain" else x + made
        road.append(x)
    end = ops.layer_norm(x, one, zero) if kind == "norm" else x
    gradients = grad(end, road, rng.standard_normal(end.shape))

    def size(array: Any) -> float:
        return float(np.sqrt((np.asarray(array) ** 2).mean()))

    return [size(tensor.data) for tensor in road], [size(gradient.data) for gradient in gradients]


def draw_depth() -> Any:
    figure, (left, right) = new_figure(3.0, 1, 2, sharey=True)
    plain(left, "size of the numbers, after each layer", "layer")
    plain(right, "size of the gradient, at each layer", "layer")
    for name, kind, scale, colour in (
        ("plain, 0.8 per layer", "plain", np.sqrt(0.8), ORANGE),
        ("plain, 1.3 per layer", "plain", np.sqrt(1.3), RED),
        ("residual, adds a half", "residual", np.sqrt(0.5), GREEN),
        ("the same with norm", "norm", np.sqrt(0.5), BLUE),
    ):
        for axes, values in zip((left, right), sizes(kind, scale), strict=True):
            axes.semilogy(values, color=colour, linewidth=1.8, label=name)
    style = {"fontsize": 8.5, "color": GREY, "va": "center", "arrowprops": {"arrowstyle": "-|>", "color": GREY}}
    right.annotate("this way", (4, 3e6), xytext=(16, 3e6), **style)
    left.annotate("this way", (30, 3e6), xytext=(4, 3e6), **style)
    left.set_ylim(1e-11, 1e8)
    left.legend(fontsize=8, frameon=False, loc="lower left")
    return figure


def draw_norm() -> Any:
    """Draw rows of three features minus their mean, which lie in a plane, and their norms, on a circle in it."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((40, 3)) * [1.5, 0.8, 1.1] + 3
    first, second = np.array([1, -1, 0]) / np.sqrt(2), np.array([1, 1, -2]) / np.sqrt(6)
    plane = np.stack([first, second], axis=1)
    figure, (left, right) = new_figure(3.3, 1, 2)
    hats = layer_norm(rows, np.ones(3), np.zeros(3)) @ plane
    centred = (rows - rows.mean(axis=1, keepdims=True)) @ plane
    colours = [BLUE] * len(rows)
    for axes, points, title in ((left, centred, "rows without their mean"), (right, hats, "after the norm")):
        plain(axes, title)
        axes.scatter(*points.T, s=14, color=colours, alpha=0.75)
        axes.set(aspect="equal", xlim=(-4, 4), ylim=(-3.4, 3.4))
        axes.tick_params(labelbottom=False, labelleft=False, length=0)
    row = np.array([[0.9, -1.6, 0.7]])
    start = (layer_norm(row, np.ones(3), np.zeros(3)) @ plane)[0]
    outward = start / np.linalg.norm(start)
    h = plane @ (1.1 * outward + 1.3 * np.array([-outward[1], outward[0]])) + 0.5  # the mean, 0.5, is not in the plane
    r = 1 / np.sqrt(row.var() + 1e-5)
    kept = layer_norm_rule(row, np.ones(3), h[None])[0][0] / r
    right.plot(*np.stack([start + h @ plane, start + kept @ plane]).T, ":", color=GREY)
    for vector, name, colour in ((h, "h", GREY), (kept, "what is left", ORANGE)):
        end = start + vector @ plane
        arrow(right, tuple(start), tuple(end), colour=colour)
        note(right, name, end, (4, 4), colour, fontsize=9)
    return figure
