"""Sentences and their translations, from two files or one table."""

import gzip

import pytest

from minitorch_attn.data.parallel_text import read_parallel, read_tsv
from minitorch_attn.errors import DataError


def test_two_files(tmp_path):
    (tmp_path / "en").write_bytes(b"one\r\n two \n\nfour\n")
    (tmp_path / "de").write_bytes(b"eins\nzwei\nnichts\nvier")
    assert read_parallel(tmp_path / "en", tmp_path / "de") == [
        ("one", "eins"), ("two", "zwei"), ("four", "vier")
    ]  # fmt: skip
    (tmp_path / "de").write_bytes(b"eins\nzwei\n")
    with pytest.raises(DataError, match="4 and 2 lines"):
        read_parallel(tmp_path / "en", tmp_path / "de")


def test_a_table(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITORCH_ATTN_CACHE", str(tmp_path / "cache"))
    table = b'one\teins\tnote\n\n"two\tzwei" \tn\nempty\t \tn\n'
    path = tmp_path / "pairs.tsv"
    path.write_bytes(table)
    assert read_tsv(path) == [("one", "eins"), ('"two', 'zwei"')]
    assert read_tsv(path, columns=(2, 0))[0] == ("note", "one")
    (tmp_path / "pairs.tsv.gz").write_bytes(gzip.compress(table))
    assert read_tsv(tmp_path / "pairs.tsv.gz") == read_tsv(path)
    path.write_bytes(b"a\tb\nno tab\n")
    with pytest.raises(DataError, match="line 2: too few columns"):
        read_tsv(path)
    path.write_bytes(b"\n \n")
    with pytest.raises(DataError, match="at least one pair"):
        read_tsv(path)


def test_what_is_not_a_text(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"a\t\xff")
    with pytest.raises(DataError, match="not UTF-8"):
        read_tsv(path)
    with pytest.raises(DataError, match="not a single file"):
        read_tsv(tmp_path / "..")
