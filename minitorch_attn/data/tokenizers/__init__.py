"""From text to token ids and back: characters, words, bytes, and what a model's folder says."""

from .byte_bpe import ByteBPE
from .characters import CharTokenizer
from .words import WordTokenizer

__all__ = ["ByteBPE", "CharTokenizer", "WordTokenizer"]
