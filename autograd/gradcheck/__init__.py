"""Gradient checks: every derivative of handloom is checked with these functions, and yours can be."""

from .check import assert_gradients, gradcheck, gradgradcheck
from .report import EntryCheck, GradcheckReport

__all__ = ["EntryCheck", "GradcheckReport", "assert_gradients", "gradcheck", "gradgradcheck"]
