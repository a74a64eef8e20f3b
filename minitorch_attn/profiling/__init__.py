"""Where time goes: every operation, forward and backward, against what the machine can do."""

from .ceilings import Ceilings, ceilings
from .record import Event, Profile, profile

__all__ = ["Ceilings", "Event", "Profile", "ceilings", "profile"]
