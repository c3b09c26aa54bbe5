"""Is this gradient right? Every derivative of handloom is checked with this; so can be yours."""

from .check import assert_gradients, gradcheck, gradgradcheck
from .report import EntryCheck, GradcheckReport

__all__ = ["EntryCheck", "GradcheckReport", "assert_gradients", "gradcheck", "gradgradcheck"]
