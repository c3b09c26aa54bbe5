"""What chapter 14 builds: what 16 bits lose, a loss scale, and a training step; the learner's file is cut from this."""

import numpy as np


def lost(gradients, scale):
    """Return which shares of the non-zero gradients are lost when gradients times `scale` are stored in 16 bits.

    gradients: a float32 array. Returns (share that becomes 0, share that becomes infinite), floats.
    """
    with np.errstate(over="ignore"):
        # your turn: Which gradients are not 0? Multiply these by the scale, still in 32 bits. Then convert them with
        # .astype(np.float16), and count how many are 0 and how many are infinite.
        halves = (gradients[gradients != 0] * np.float32(scale)).astype(np.float16)
        return float((halves == 0).mean()), float(np.isinf(halves).mean())


class Scaler:
    """A loss scale that adapts itself.

    scale: what the loss is multiplied by. good: steps without an overflow since the scale last changed.
    skipped: steps with an overflow, in all. interval: good steps until the scale grows. least: it does not fall below.
    """

    def __init__(self, initial=2.0**15, interval=1000, least=1.0):
        self.scale, self.interval, self.least = initial, interval, least
        self.good = self.skipped = 0

    def update(self, finite):
        """Record a step. `finite` says whether all its gradients were finite."""
        # your turn: After an overflow the scale halves, and counting starts at 0 again. After `interval` good steps in
        # a row it doubles, and counting starts at 0 as well.
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
    """One step of gradient descent whose passes are computed in 16 bits: new weights, a list of float32 arrays.

    gradients_of(halves, scale): for float16 copies of the weights, their gradients in float16, of the loss times scale.
    After an overflow the weights are returned as they were. The scaler takes note of every step.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        # your turn: Make copies of the weights in 16 bits and compute their gradients with the scaler's scale. Convert
        # the gradients to 32 bits, and only then divide by the scale. Is everything finite? Call scaler.update, and
        # take the step only if it is.
        halves = [w.astype(np.float16) for w in weights]
        scaled = gradients_of(halves, scaler.scale)
        gradients = [g.astype(np.float32) / np.float32(scaler.scale) for g in scaled]
        finite = all(np.isfinite(g).all() for g in gradients)
        scaler.update(finite)
        return [w - lr * g for w, g in zip(weights, gradients, strict=True)] if finite else weights
