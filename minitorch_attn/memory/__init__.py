"""Memory tracing: the memory that a computation holds over time, and the code that allocated it."""

from .record import MemoryTracker, track

__all__ = ["MemoryTracker", "track"]
