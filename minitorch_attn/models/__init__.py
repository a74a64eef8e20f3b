"""Models, one file per paper."""

from .gpt import GPT

__all__ = ["GPT"]
