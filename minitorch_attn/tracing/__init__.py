"""Tracing: record every operation, forward and backward, together with its values."""

from .diff import Difference, trace_diff
from .lines import LineRecording
from .record import Recording

__all__ = ["Difference", "LineRecording", "Recording", "trace_diff"]
