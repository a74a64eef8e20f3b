"""Where memory goes: what a computation holds, moment by moment, and which line made it."""

from .record import MemoryTrace, trace

__all__ = ["MemoryTrace", "trace"]
