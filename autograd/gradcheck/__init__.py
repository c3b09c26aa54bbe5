"""Gradient checks for handloom's ops and for user-defined functions."""

from .check import gradcheck, gradgradcheck
from .report import EntryCheck, GradcheckReport

__all__ = ["EntryCheck", "GradcheckReport", "gradcheck", "gradgradcheck"]
