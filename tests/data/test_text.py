"""Text files: what is read, and one clear error for files that cannot be read."""

import pytest

from minitorch_attn.data import default_text, read_text, split_text
from minitorch_attn.errors import DataError


def test_the_default_text_is_english_and_always_the_same():
    text = default_text()
    assert text == default_text()
    assert 200_000 < len(text) < 2_000_000
    assert text.count(" the ") > 1000


def test_utf8_byte_order_mark_and_line_ends(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "naïve\r\n日本\rx\n".encode())
    assert read_text(path) == "naïve\n日本\nx\n"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"GIF89a\x00\x01", "a null byte at position 6"),
        (b"fine\nna\xefve", "byte 0xef at position 7, in line 2"),
        (b"\xff\xfeh\x00i\x00", "UTF-16"),
        (b"cut off \xe2\x82", "position 8"),
    ],
)
def test_what_is_not_text_is_named(content, what, tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_text(path)
    assert str(path) in str(caught.value) and what in str(caught.value)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(DataError, match="nowhere.txt could not be read"):
        read_text(tmp_path / "nowhere.txt")
    with pytest.raises(DataError, match="could not be read"):
        read_text(tmp_path)


@pytest.mark.parametrize("length", [10, 11, 30, 100, 1000])
def test_both_parts_hold_a_window(length):
    text = "".join(chr(97 + i % 26) for i in range(length))
    training, validation = split_text(text, 4)
    assert training + validation == text
    assert min(len(training), len(validation)) >= 5
    if length >= 50:
        assert len(validation) == length // 10


def test_a_text_shorter_than_the_context():
    with pytest.raises(DataError) as caught:
        split_text("x" * 129, 64, name="poem.txt")
    message = str(caught.value)
    assert "poem.txt is too short for a context of 64" in message
    assert "129 characters" in message and "at least 130" in message
