"""From logits to text."""

from .sample import sample

__all__ = ["sample"]
