"""Chapter 10, the pictures: Adam in a valley, Adam on noise, and the losses of loops with a mistake."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...autograd import manual_seed, no_grad
from ...models import Seq2SeqConfig, Seq2SeqTransformer
from ...train.optim.optimizers import Adam
from ..drawing import BLUE, GREEN, GREY, ORANGE, RED, new_figure, plain
from ..mistakes import with_left
from .c10_learn_solution import adam, noam, train

STEEP = np.array([1.0, 40.0])  # the loss is (x² + 40 y²) / 2


def path(update: Callable[[np.ndarray, np.ndarray, int], np.ndarray], steps: int = 60) -> np.ndarray:
    points = [np.array([-4.0, 0.9])]
    for t in range(1, steps + 1):
        points.append(update(points[-1], STEEP * points[-1], t))
    return np.array(points)


def adams_update() -> Callable[..., np.ndarray]:
    m = v = np.zeros(2)

    def update(w: np.ndarray, g: np.ndarray, t: int) -> np.ndarray:
        nonlocal m, v
        w, m, v = adam(w, g, m, v, t, 0.12)
        return w

    return update


def steps_on_noise(b2: float, corrected: bool, steps: int = 60) -> np.ndarray:
    """Return the size of each step divided by the rate, if the gradients of 2000 weights are noise."""
    rng = np.random.default_rng(0)
    w, m, v, sizes = np.zeros(2000), np.zeros(2000), np.zeros(2000), []
    for t in range(1, steps + 1):
        moved, m, v = adam(w, rng.standard_normal(2000), m, v, t, 1.0, b2=b2)
        step = moved - w if corrected else m / (np.sqrt(v) + 1e-9)
        sizes.append(np.sqrt((step**2).mean()))
    return np.array(sizes)


def draw_adam() -> Any:
    figure, (left, right) = new_figure(2.6, 1, 2, width_ratios=[5, 4])
    plain(left, "a valley, 40 times as steep across as along")
    left.grid(False)
    x, y = np.meshgrid(np.linspace(-4.6, 0.8, 100), np.linspace(-1.3, 1.3, 80))
    left.contour(x, y, (x**2 + 40 * y**2) / 2, levels=[0.5, 4, 16], colors="#cbd5e1", linewidths=0.8)
    down = path(lambda w, g, t: w - 0.047 * g, 40)
    left.plot(*down.T, ".-", color=ORANGE, markersize=3, linewidth=1, label="gradient, 40 steps")
    left.plot(*path(adams_update(), 40).T, ".-", color=BLUE, markersize=3, linewidth=1, label="Adam, 40 steps")
    left.plot(0, 0, "+", color=RED, markersize=10)
    left.legend(fontsize=8, loc="lower left")
    plain(right, "size of the steps on pure noise", "step")
    steps = np.arange(1, 61)
    right.plot(steps, steps_on_noise(0.98, True), color=BLUE, label="Adam")
    right.plot(steps, steps_on_noise(0.999, False), color=GREY, linestyle="--", label="not corrected, b2 = 0.999")
    right.axhline(np.sqrt(0.1 / 1.9), color=RED, linewidth=1, linestyle=":")
    right.set_ylim(0, 3.4)
    right.legend(fontsize=8)
    return figure


def pairs(count: int, seed: int, size: int = 20) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return batches of rows of 2 to 4 ids, with the reversed rows as targets."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        source, target = np.zeros((size, 4), int), np.zeros((size, 6), int)
        for row, n in enumerate(rng.integers(2, 5, size)):
            source[row, :n] = rng.integers(3, 9, n)
            target[row, : n + 2] = [1, *source[row, :n][::-1], 2]
        found.append((source, target))
    return found


def trained(*left: str) -> tuple[list[float], float]:
    """Return the losses of a loop with the mistakes `left`, and the share of new rows that the model then reverses."""
    manual_seed(0)
    model = Seq2SeqTransformer(Seq2SeqConfig(9, 9, 16, 2, 1, 1, 32, dropout=0.0, max_length=8))
    optimizer = Adam(model.parameters(), betas=(0.9, 0.98))
    losses, _ = with_left(train, *left)(model, optimizer, lambda step: 0.18 * noam(step, 16, 20), pairs(100, 1), [])
    source, target = pairs(1, 2, size=50)[0]
    said = target[:, :1]
    with no_grad():
        for _ in range(5):
            said = np.hstack([said, model(source, said).data[:, -1:].argmax(axis=2)])
    return losses, float(((said == target) | (target == 0)).all(axis=1).mean())


def draw_losses() -> Any:
    figure, axes = new_figure(2.8)
    title = "losses of four loops, and how many of 50 new rows the model then reverses correctly"
    plain(axes, title, "step", "training loss (nats)")
    loops = [
        ([], GREEN, "correct"),
        (["what the decoder reads"], RED, "reads what it should predict"),
        (["the padding"], ORANGE, "padding counted"),
        (["the gradients"], GREY, "gradients not zeroed"),
    ]
    for left, colour, name in loops:
        losses, right = trained(*left)
        smooth = np.convolve(losses, np.ones(5) / 5, mode="valid")
        axes.plot(np.arange(len(smooth)) + 3, smooth, color=colour, linewidth=1.4, label=f"{name}: {right * 50:.0f}")
    axes.set_ylim(0, 3)
    axes.legend(fontsize=8)
    return figure
