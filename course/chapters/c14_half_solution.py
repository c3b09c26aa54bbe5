"""The solution of chapter 14: gradients that 16 bits lose, a loss scale, and a training step."""

import numpy as np


def lost(gradients, scale):
    """Return the shares of the non-zero gradients that are lost when gradients times `scale` are stored in 16 bits.

    gradients: a float32 array. Returns (share that becomes 0, share that becomes infinite), floats.
    """
    with np.errstate(over="ignore"):
        # your turn: Which gradients are not 0? Multiply these by the scale, still in 32 bits. Then convert them with
        # .astype(np.float16), and count how many are 0 and how many are infinite.
        halves = (gradients[gradients != 0] * np.float32(scale)).astype(np.float16)
        return float((halves == 0).mean()), float(np.isinf(halves).mean())


class Scaler:
    """A loss scale that is adapted during training.

    scale: the factor of the loss. good: number of steps without an overflow since the last change of the scale.
    skipped: number of all steps with an overflow. interval: good steps until the scale grows. least: minimum of the
    scale.
    """

    def __init__(self, initial=2.0**15, interval=1000, least=1.0):
        self.scale, self.interval, self.least = initial, interval, least
        self.good = self.skipped = 0

    def update(self, finite):
        """Record a step. `finite` is True if all gradients of the step were finite."""
        # your turn: After an overflow, halve the scale and set `good` to 0. After `interval` good steps in a row,
        # double the scale and set `good` to 0.
        if not finite:
            self.scale = max(self.scale / 2, self.least)
            self.good = 0
            self.skipped += 1
            return
        self.good += 1
        if self.good == self.interval:
            self.scale *= 2
            self.good = 0


def half_step(weights, gradients_of, scaler, lr):
    """Return new weights (float32) after a step of gradient descent with gradients that are computed in 16 bits.

    gradients_of(halves, scale) returns float16 gradients of the loss times scale, for float16 copies of the weights.
    After an overflow the weights are returned unchanged. The scaler is updated at every step.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        # your turn: Make copies of the weights in 16 bits and compute their gradients with the scaler's scale. Convert
        # the gradients to 32 bits, and only then divide by the scale. Call scaler.update, and update the weights only
        # if all gradients are finite.
        halves = [w.astype(np.float16) for w in weights]
        scaled = gradients_of(halves, scaler.scale)
        gradients = [g.astype(np.float32) / np.float32(scaler.scale) for g in scaled]
        finite = all(np.isfinite(g).all() for g in gradients)
        scaler.update(finite)
        return [w - lr * g for w, g in zip(weights, gradients, strict=True)] if finite else weights
