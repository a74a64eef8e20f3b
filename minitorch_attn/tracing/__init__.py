"""Step through a computation: every operation, forward and backward, with its values."""

from .record import Recording

__all__ = ["Recording"]
