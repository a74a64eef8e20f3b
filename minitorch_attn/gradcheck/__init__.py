"""Gradcheck: compare `backward` with finite differences, and diagnose and report mistakes."""

from . import presets
from .gradcheck import (
    gradcheck,
    gradcheck_module,
    gradcheck_module_report,
    gradcheck_report,
    gradgradcheck,
    gradgradcheck_report,
)
from .report import GradcheckError, GradcheckItem, GradcheckReport, Hint

__all__ = [
    "GradcheckError", "GradcheckItem", "GradcheckReport", "Hint", "gradcheck", "gradcheck_module",
    "gradcheck_module_report", "gradcheck_report", "gradgradcheck", "gradgradcheck_report",
    "presets",
]  # fmt: skip
