"""Tokenizers: characters, words, byte-level BPE, and tokenizers of pretrained models."""

from .byte_bpe import ByteBPE
from .characters import CharTokenizer
from .pretrained import LibraryTokenizer, from_pretrained
from .words import WordTokenizer

__all__ = ["ByteBPE", "CharTokenizer", "LibraryTokenizer", "WordTokenizer", "from_pretrained"]
