"""Profiling: measure every operation, forward and backward, and compare with machine limits."""

from .ceilings import Ceilings, ceilings
from .record import Event, Profile, profile

__all__ = ["Ceilings", "Event", "Profile", "ceilings", "profile"]
