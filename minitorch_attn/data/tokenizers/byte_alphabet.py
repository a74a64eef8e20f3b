"""GPT-2's byte alphabet: one printable character for each of the 256 bytes.

The tokens in `vocab.json` and `merges.txt` are bytes, which are not always valid text. In this
alphabet, a byte that is printable in Latin-1 is written as that character. The other 68 bytes
(control characters, the space, the no-break space and the soft hyphen) are written as the
characters from U+0100 on. A space becomes "Ġ".
"""

__all__ = ["from_printable", "to_printable"]

_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = sorted(set(range(256)) - set(_VISIBLE))
_CHARACTERS = {byte: chr(byte) for byte in _VISIBLE} | {
    byte: chr(0x100 + number) for number, byte in enumerate(_HIDDEN)
}
_BYTES = {character: byte for byte, character in _CHARACTERS.items()}


def to_printable(token):
    """Convert the bytes of a token to printable characters.

    Examples
    --------
    >>> to_printable(" né".encode())
    'ĠnÃ©'
    """
    return "".join(map(_CHARACTERS.__getitem__, token))


def from_printable(text):
    """Convert characters of the byte alphabet to bytes. Return None if another character occurs.

    Examples
    --------
    >>> from_printable("ĠnÃ©").decode()
    ' né'
    """
    try:
        return bytes(map(_BYTES.__getitem__, text))
    except KeyError:
        return None
