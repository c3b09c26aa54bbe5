"""Chapter 14, the pictures: the sizes of gradients in the range of 16 bits, and a loss scale during training."""

from typing import Any

import numpy as np

from ..drawing import BLUE, GREEN, GREY, ORANGE, RED, centred, new_figure, plain
from .c14_half import regression
from .c14_half_solution import Scaler, half_step, lost


def logits_gradient() -> np.ndarray:
    """Return 64 rows of the gradient of a mean loss over 4096 words, for random logits and 4000 words in the
    vocabulary.
    """
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((64, 4000))
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    p[:, 0] -= 1
    return (p / 4096).astype(np.float32)


def draw_range() -> Any:
    figure, axes = new_figure(2.9)
    title = "gradients of the logits, and what 16 bits can hold"
    plain(axes, title, "size of the number, as a power of two")
    gradients = logits_gradient()
    edges = np.arange(-34, 18, 0.5)
    for scale, colour, name in ((1.0, BLUE, "as they are"), (2.0**15, GREEN, "times 32768")):
        size = np.log2(np.abs(gradients) * scale).ravel()
        zero, infinite = lost(gradients, scale)
        axes.hist(size, edges, color=colour, alpha=0.65, label=f"{name}: {zero:.0%} become 0, {infinite:.0%} infinite")
    top = axes.get_ylim()[1] * 1.25
    for left, right, colour, name in (
        (-34, -25, RED, "becomes 0"),
        (-25, -14, ORANGE, "loses digits"),
        (-14, 16, GREEN, "11 good binary digits"),
        (16, 18, RED, "∞"),
    ):
        axes.axvspan(left, right, color=colour, alpha=0.08, linewidth=0)
        centred(axes, (left + right) / 2, top * 0.93, name, fontsize=8.5, color=colour)
    axes.set_ylim(0, top)
    axes.set_xlim(-34, 18)
    axes.grid(False)
    axes.set_yticks([])
    axes.legend(fontsize=8, loc="center right")
    return figure


def draw_scale() -> Any:
    figure, (top, bottom) = new_figure(3.2, 2, 1, sharex=True, height_ratios=[3, 2])
    weights, gradients_of, loss = regression()
    wide, scaler = weights, Scaler(interval=20)
    scales, skipped, losses, others = [], [], [], []
    for step in range(160):
        before = scaler.skipped
        scales.append(np.log2(scaler.scale))
        weights = half_step(weights, gradients_of, scaler, 0.02)
        wide = [w - 0.02 * g for w, g in zip(wide, gradients_of(wide, 1.0), strict=True)]
        losses.append(loss(weights))
        others.append(loss(wide))
        if scaler.skipped > before:
            skipped.append(step)
    plain(top, "the loss scale; crosses: steps that overflowed and were skipped")
    top.step(range(160), scales, where="post", color=BLUE, linewidth=1.5)
    top.plot(skipped, [scales[step] for step in skipped], "x", color=RED, markersize=7, markeredgewidth=1.8)
    top.set_yticks(range(11, 18), [f"2^{n}" for n in range(11, 18)])
    plain(bottom, "the loss", "step")
    bottom.semilogy(others, color=GREY, linewidth=3, alpha=0.5, label="in 32 bits")
    bottom.semilogy(losses, color=ORANGE, linewidth=1.3, label="in 16 bits, with the scale above")
    bottom.legend(fontsize=8)
    return figure
