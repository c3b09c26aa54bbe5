"""Optimisers, schedules, loss scaling and averages of weights."""

from ...autograd.quick import PLAIN

if not PLAIN:
    from . import fast
