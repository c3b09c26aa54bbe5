"""Gradient checks, for handloom's own ops and for yours."""

from .check import assert_gradients, gradcheck, gradgradcheck
from .report import EntryCheck, GradcheckReport

__all__ = ["EntryCheck", "GradcheckReport", "assert_gradients", "gradcheck", "gradgradcheck"]
