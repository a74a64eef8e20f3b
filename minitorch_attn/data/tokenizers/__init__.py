"""From text to token ids and back: characters, words, bytes, and what a model's folder holds."""

from .byte_bpe import ByteBPE
from .characters import CharTokenizer
from .pretrained import LibraryTokenizer, from_pretrained
from .words import WordTokenizer

__all__ = ["ByteBPE", "CharTokenizer", "LibraryTokenizer", "WordTokenizer", "from_pretrained"]
