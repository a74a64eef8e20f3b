"""Text, tokens and batches."""

from .baselines import baselines
from .batches import TextBatches, windows
from .text import default_text, read_text, split_text
from .tokenizers import CharTokenizer

__all__ = [
    "CharTokenizer",
    "TextBatches",
    "baselines",
    "default_text",
    "read_text",
    "split_text",
    "windows",
]
