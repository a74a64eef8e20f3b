"""Profiling: time, FLOPs and bytes of every operation, compared with the machine's limits."""

from .ceilings import Ceilings, ceilings
from .record import Event, Profile, profile

__all__ = ["Ceilings", "Event", "Profile", "ceilings", "profile"]
