"""Models, one file per paper."""

from .gpt import GPT
from .transformer import Transformer, transformer_base, transformer_big

__all__ = ["GPT", "Transformer", "transformer_base", "transformer_big"]
