"""Tracing: record every operation, forward and backward, together with its values."""

from .diff import Difference, trace_diff
from .record import Recording

__all__ = ["Difference", "Recording", "trace_diff"]
