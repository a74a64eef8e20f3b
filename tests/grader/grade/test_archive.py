"""Untrusted folders and archives: required files are found, and all others are ignored."""

import gzip
import io
import os
import tarfile
import zipfile

import pytest

from minitorch_attn.grader.grade import archive
from minitorch_attn.grader.grade.archive import read_submission, submissions_in

WANT = "minitorch_attn/ops/softmax.py"
CODE = b"def softmax(x):\n    return x\n"


def zipped(path, members):
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "place",
    [WANT, "ops/softmax.py", "softmax.py", f"homework 3/final (2)/{WANT}", f"größe/数/{WANT}"],
)
def test_a_file_is_found_below_any_folder(place, tmp_path):
    folder = tmp_path / "ada"
    (folder / place).parent.mkdir(parents=True)
    (folder / place).write_bytes(CODE)
    assert read_submission(folder, [WANT]).files == {WANT: CODE}
    packed = zipped(tmp_path / "ada.zip", {place: CODE})
    assert read_submission(packed, [WANT]).files == {WANT: CODE}
    with tarfile.open(tmp_path / "ada.tar.gz", "w:gz") as file:
        file.add(folder, "ada")
    found = read_submission(tmp_path / "ada.tar.gz", [WANT])
    assert found.files == {WANT: CODE} and found.name == "ada" and not found.problems


def test_the_longest_match_wins_and_two_equal_ones_are_refused(tmp_path):
    both = {"softmax.py": b"old", WANT: CODE}
    assert read_submission(zipped(tmp_path / "a.zip", both), [WANT]).files == {WANT: CODE}
    twice = {"a/softmax.py": b"1", "b/softmax.py": b"2"}
    found = read_submission(zipped(tmp_path / "b.zip", twice), [WANT])
    assert not found.files and "more than once" in found.problems[0]


def test_what_is_missing_is_said(tmp_path):
    found = read_submission(zipped(tmp_path / "a.zip", {"notes.txt": b""}), [WANT])
    assert found.problems == [f"{WANT} is missing"]


def test_one_file_may_have_any_name_where_one_is_asked_for(tmp_path):
    path = tmp_path / "my answer.py"
    path.write_bytes(CODE)
    assert read_submission(path, [WANT]).files == {WANT: CODE}
    assert read_submission(path, [WANT, "minitorch_attn/x.py"]).problems


def test_links_are_not_followed(tmp_path):
    secret = tmp_path / "secret.py"
    secret.write_bytes(b"the solution")
    folder = tmp_path / "eve"
    folder.mkdir()
    (folder / "softmax.py").symlink_to(secret)
    os.symlink(tmp_path, folder / "ops")
    assert read_submission(folder, [WANT]).problems == [f"{WANT} is missing"]
    with tarfile.open(tmp_path / "eve.tar", "w") as file:
        file.add(folder / "softmax.py", "softmax.py")
        hard = tarfile.TarInfo("ops/softmax.py")
        hard.type, hard.linkname = tarfile.LNKTYPE, str(secret)
        file.addfile(hard)
    assert read_submission(tmp_path / "eve.tar", [WANT]).problems == [f"{WANT} is missing"]
    with zipfile.ZipFile(tmp_path / "eve.zip", "w") as file:
        info = zipfile.ZipInfo("softmax.py")
        info.external_attr = 0o120777 << 16
        file.writestr(info, str(secret))
    assert read_submission(tmp_path / "eve.zip", [WANT]).problems == [f"{WANT} is missing"]


def test_paths_that_lead_elsewhere_write_nothing(tmp_path):
    inside = tmp_path / "in" / "side"
    inside.mkdir(parents=True)
    members = {"../../evil.py": b"1", "/etc/evil.py": b"1", "../" * 9 + "evil.py": b"1", WANT: CODE}
    found = read_submission(zipped(inside / "eve.zip", members), [WANT])
    assert found.files == {WANT: CODE}
    assert sorted(path.name for path in tmp_path.rglob("*.py")) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "softmax.py")
    assert read_submission(tmp_path, [WANT]).problems == [f"{WANT} is missing"]


def test_bombs_are_refused(tmp_path, monkeypatch):
    large = zipped(tmp_path / "a.zip", {WANT: b""})
    with zipfile.ZipFile(large, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(WANT, bytes(1 << 26))
    assert "larger than" in read_submission(large, [WANT]).problems[0]
    monkeypatch.setattr(archive, "MEMBERS", 20)
    many = zipped(tmp_path / "b.zip", {f"{i}.py": b"" for i in range(30)})
    assert "more than 20" in read_submission(many, [WANT]).problems[0]
    monkeypatch.setattr(archive, "ARCHIVE_BYTES", 1 << 20)
    with tarfile.open(tmp_path / "c.tgz", "w:gz") as file:
        info = tarfile.TarInfo("zeros")
        info.size = 1 << 22
        file.addfile(info, io.BytesIO(bytes(info.size)))
    assert "bytes" in read_submission(tmp_path / "c.tgz", [WANT]).problems[0]
    monkeypatch.undo()
    monkeypatch.setattr(archive, "INDEX_BYTES", 500)
    assert "the list of members has more than 500" in read_submission(many, [WANT]).problems[0]


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_name_without_end_is_refused_before_it_is_read(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "ARCHIVE_BYTES", 1 << 16)
    info = tarfile.TarInfo("long")
    info.type, info.size = kind, 1 << 40
    with gzip.open(tmp_path / "a.tar.gz", "wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))
    found = read_submission(tmp_path / "a.tar.gz", [WANT])
    assert "more than 65,536 bytes" in found.problems[0]


@pytest.mark.parametrize("ending", [".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz"])
@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x1f\x8b\x08", b"hello" * 1000])
def test_a_broken_archive_is_a_problem_and_no_error(ending, data, tmp_path):
    path = tmp_path / f"eve{ending}"
    path.write_bytes(data)
    found = read_submission(path, [WANT])
    assert found.problems and not found.files


def test_the_submissions_of_a_class(tmp_path):
    (tmp_path / "ada").mkdir()
    zipped(tmp_path / "bob.ZIP", {WANT: CODE})
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / ".hidden").mkdir()
    os.symlink("/", tmp_path / "root")
    if hasattr(os, "mkfifo"):
        for name in ("eve.zip", "eve.tar.gz", "eve.py"):
            os.mkfifo(tmp_path / name)  # to read them is to wait
    assert [path.name for path in submissions_in(tmp_path)] == ["ada", "bob.ZIP"]


def test_every_byte_changes_the_digest(tmp_path):
    one = read_submission(zipped(tmp_path / "a.zip", {WANT: CODE}), [WANT])
    two = read_submission(zipped(tmp_path / "a.zip", {WANT: CODE + b"#"}), [WANT])
    assert one.digest != two.digest


def test_what_tools_make_is_not_searched(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MEMBERS", 20)
    for place in ("venv/lib", "node_modules", "__pycache__", ".git"):
        folder = tmp_path / "ada" / place
        folder.mkdir(parents=True)
        for number in range(30):
            (folder / f"{number}.py").write_text("")
    (tmp_path / "ada/venv/pyvenv.cfg").write_text("")
    (tmp_path / "ada/softmax.py").write_text("right")
    found = read_submission(tmp_path / "ada", [WANT])
    assert (found.files, found.problems) == ({WANT: b"right"}, [])


def test_a_large_archive_with_few_files_is_read(tmp_path):
    path = zipped(tmp_path / "a.zip", {WANT: b"right"})
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("data.bin", os.urandom(70 << 20))
    assert path.stat().st_size > 1 << 26
    assert read_submission(path, [WANT]).files == {WANT: b"right"}


def test_backslashes_in_a_zip_archive(tmp_path):
    path = zipped(tmp_path / "a.zip", {"hw\\" + WANT.replace("/", "\\"): b"right"})
    assert read_submission(path, [WANT]).files == {WANT: b"right"}


def test_the_end_of_a_zip_archive_cannot_hide_a_long_list(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "INDEX_BYTES", 500)
    path = zipped(tmp_path / "a.zip", {f"{i}.py": b"" for i in range(30)})
    whole = bytearray(path.read_bytes())
    small = b"PK\5\6" + bytes(8)
    for data in (whole + small, whole[:-6] + b"PK\5\6" + whole[-2:]):  # no size before the end
        path.write_bytes(data)
        found = read_submission(path, [WANT])
        assert found.problems and not found.files
        assert "more than 500" in found.problems[0] or "BadZipFile" in found.problems[0]


def test_what_is_not_a_submission_is_listed_with_the_reason(tmp_path):
    (tmp_path / "ada").mkdir()
    (tmp_path / ".eve").mkdir()
    (tmp_path / "zoe").symlink_to(tmp_path / "ada")
    for name in ("bob.rar", "carl.7z", "dan.ipynb", "fay.zip", ".DS_Store"):
        (tmp_path / name).write_bytes(b"")
    found = dict(archive.passed_over(tmp_path))
    assert set(found) == {".eve", "zoe", "bob.rar", "carl.7z", "dan.ipynb"}
    assert "dot" in found[".eve"] and "link" in found["zoe"] and ".zip" in found["bob.rar"]
    assert {path.name for path in submissions_in(tmp_path)} == {"ada", "fay.zip"}
