"""The byte alphabet: 256 printable characters for 256 bytes."""

from minitorch_attn.data.tokenizers.byte_alphabet import from_printable, to_printable


def test_every_byte_has_its_own_printable_character():
    letters = [to_printable(bytes([value])) for value in range(256)]
    assert len(set(letters)) == 256
    assert all(len(letter) == 1 and letter.isprintable() for letter in letters)
    assert all(from_printable(letter) == bytes([value]) for value, letter in enumerate(letters))


def test_characters_of_the_published_files():
    assert to_printable(b" \n\r\t\x00\x7f\xad\xff~!") == "ĠĊčĉĀġŃÿ~!"


def test_other_characters_are_not_in_it():
    assert from_printable("a b") is None
    assert from_printable("中") is None
