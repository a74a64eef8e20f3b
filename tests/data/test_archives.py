"""Unpacking archives: all files or none, and nothing outside the folder."""

import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile

import pytest

from minitorch_attn.data.archives import is_archive, unpack
from minitorch_attn.errors import DataError

FILES = {"a.txt": b"alpha", "sub/b.bin": bytes(range(256)) * 50, "sub/deep/c": b""}


def make_tar(path, members, mode="w:gz"):
    """members: name -> bytes, or a TarInfo to be written as it is."""
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


def make_zip(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def contents(folder):
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                path = os.path.relpath(os.path.join(place, name), folder)
                found[path.replace(os.sep, "/")] = file.read()
    return found


def refuse(path, message, **limits):
    """The archive gives one DataError and leaves nothing behind."""
    before = set(os.listdir(path.parent))
    with pytest.raises(DataError, match=message) as caught:
        unpack(path, path.parent / "out", **limits)
    assert str(path) in str(caught.value)
    assert set(os.listdir(path.parent)) == before


@pytest.mark.parametrize("kind", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
def test_what_was_packed_comes_out(kind, tmp_path):
    path = tmp_path / "archive"
    make_zip(path, FILES) if kind == "zip" else make_tar(path, FILES, kind)
    assert is_archive(path)
    out = unpack(path, tmp_path / "made" / "out")
    assert contents(out) == FILES
    assert os.listdir(tmp_path / "made") == ["out"]
    with pytest.raises(DataError, match="already exists"):
        unpack(path, out)


def test_folders_and_a_single_gzipped_file(tmp_path):
    folder = tarfile.TarInfo("empty/")
    folder.type = tarfile.DIRTYPE
    root = tarfile.TarInfo("./")
    root.type = tarfile.DIRTYPE
    out = unpack(make_tar(tmp_path / "a", {"r": root, "e": folder, "./x": b"1"}), tmp_path / "o1")
    assert contents(out) == {"x": b"1"} and os.path.isdir(os.path.join(out, "empty"))
    (tmp_path / "words.txt.gz").write_bytes(gzip.compress(b"some words"))
    assert contents(unpack(tmp_path / "words.txt.gz", tmp_path / "o2")) == {
        "words.txt": b"some words"
    }


UNSAFE = [
    "../x",
    "/x",
    "a/../../x",
    "a/..",
    "C:x",
    "C:/x",
    "a\\..\\x",
    "a\nb",
    "NUL",
    "a//b",
    "con.txt",
]


@pytest.mark.parametrize("name", UNSAFE)
def test_names_that_lead_out(name, tmp_path):
    refuse(make_tar(tmp_path / "a.tar", {"good": b"1", name: b"2"}, "w"), "not safe")
    path = tmp_path / "a.zip"
    placeholder = "".join("q" if c in "\n\\" else c for c in name)
    make_zip(path, {"good": b"1", placeholder: b"2"})
    if placeholder != name:  # zipfile would change the name when writing
        path.write_bytes(path.read_bytes().replace(placeholder.encode(), name.encode()))
    if os.sep == "/":
        refuse(path, "not safe")


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"S"],
)
def test_links_and_devices(kind, tmp_path):
    info = tarfile.TarInfo("link")
    info.type, info.linkname = kind, "/etc/passwd"
    refuse(make_tar(tmp_path / "a.tar", {"good": b"1", "link": info}, "w"), "not safe|damaged")


def test_links_and_passwords_in_a_zip(tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    refuse(make_zip(tmp_path / "a.zip", {link: "/etc/passwd"}), "a link")
    path = make_zip(tmp_path / "b.zip", {"x": b"secret"})
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\x01\x02")
    content[place + 8] |= 1
    path.write_bytes(content)
    refuse(path, "password")


def test_names_that_occur_twice(tmp_path):
    one, two = (zipfile.ZipInfo("same") for _ in range(2))
    with pytest.warns(UserWarning, match="Duplicate"):
        make_zip(tmp_path / "a.zip", {one: b"1", two: b"2"})
    refuse(tmp_path / "a.zip", "a duplicate name")
    refuse(make_tar_of_two(tmp_path / "a.tar"), "a duplicate name")


def make_tar_of_two(path):
    with tarfile.open(path, "w") as archive:
        for _ in range(2):
            archive.addfile(tarfile.TarInfo("same"))
    return path


def test_limits(tmp_path):
    bomb = {"zeros": bytes(5_000_000)}
    tar, zipped = make_tar(tmp_path / "a.tgz", bomb), make_zip(tmp_path / "a.zip", bomb)
    single = tmp_path / "a.gz"
    single.write_bytes(gzip.compress(bytes(5_000_000)))
    for path in (tar, zipped, single):
        assert path.stat().st_size < 10_000
        refuse(path, "exceeds the limit", max_bytes=4_999_999)
        unpack(path, tmp_path / f"out of {path.name}", max_bytes=5_000_000)
    many = {f"{i}": b"" for i in range(20)}
    for path in (make_tar(tmp_path / "many.tgz", many), make_zip(tmp_path / "many.zip", many)):
        refuse(path, "20 files|19 files", max_files=19)


def test_a_zip_that_lies_about_its_size(tmp_path):
    path = make_zip(tmp_path / "a.zip", {"zeros": bytes(100_000)})
    content = path.read_bytes().replace(struct.pack("<I", 100_000), struct.pack("<I", 10))
    path.write_bytes(content)
    refuse(path, "damaged|exceeds", max_bytes=1000)


def test_a_tar_header_that_would_fill_the_memory(tmp_path):
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 32
    path = tmp_path / "a.tgz"
    path.write_bytes(gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(10_000_000)))
    refuse(path, "tar header")


def test_a_member_that_says_it_is_huge_is_not_begun(tmp_path):
    info = tarfile.TarInfo("x")
    info.size = 1 << 40
    path = tmp_path / "a.tar"
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    refuse(path, "exceeds the limit")


@pytest.mark.parametrize("kind", ["w", "w:gz", "w:xz", "zip"])
def test_archives_that_are_cut_off(kind, tmp_path):
    whole = tmp_path / "whole"
    files = {"noise": os.urandom(20_000)}
    make_zip(whole, files) if kind == "zip" else make_tar(whole, files, kind)
    path = tmp_path / "a"
    path.write_bytes(whole.read_bytes()[:12_000])
    refuse(path, "damaged|not a supported archive")


def test_what_is_no_archive(tmp_path):
    path = tmp_path / "a"
    for content in (b"", b"plain text", b"BZh", bytes(1000)):
        path.write_bytes(content)
        refuse(path, "not a supported archive|damaged")
    assert not is_archive(path)
    with pytest.raises(DataError, match="could not be unpacked"):
        unpack(tmp_path / "nowhere", tmp_path / "out")


def test_an_empty_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        info = zipfile.ZipInfo("x")
        info.filename = ""
        archive.writestr(info, "text")
    with pytest.raises(DataError, match="an empty name"):
        unpack(tmp_path / "a.zip", tmp_path / "out")
