"""Optimisers, schedules, loss scaling and averages of weights."""

from ...autograd.quick import PLAIN
from .loss_scaling import HalfPrecision, LossScaler
from .optimizers import SGD, Adam, AdamW, ExponentialAverage, Optimizer, clip_grad_norm
from .schedules import Plateau, constant, cosine, linear, noam

if not PLAIN:
    from . import fast
