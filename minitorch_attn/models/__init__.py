"""Models, one file per paper."""

from .gpt import GPT
from .swin import Swin, swin_b, swin_l, swin_s, swin_t
from .transformer import Transformer, transformer_base, transformer_big

__all__ = [
    "GPT",
    "Swin",
    "Transformer",
    "swin_b",
    "swin_l",
    "swin_s",
    "swin_t",
    "transformer_base",
    "transformer_big",
]
