"""Progress is saved, survives damaged files, and never prevents a command from running."""

import json
import os
import sys

import pytest

from minitorch_attn.course.progress import Progress, state_folder


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "progress.json"


def test_what_is_written_is_read(path):
    progress = Progress(path)
    assert progress.latest() is None and progress.cell("09") == 0 and not progress.is_done("09")
    progress.leave("09", 3, 12)
    progress.finish("08")
    again = Progress(path)
    assert (again.cell("09"), again.is_done("08"), again.latest()) == (3, True, "08")
    again.finish("09")
    assert Progress(path).cell("09") == 0 and Progress(path).is_done("09")
    assert not list(path.parent.glob("*.tmp"))


def test_two_processes_do_not_lose_each_others_entries(path):
    first, second = Progress(path), Progress(path)
    first.finish("01")
    second.finish("02")
    assert Progress(path).is_done("01") and Progress(path).is_done("02")


def test_fields_of_a_later_version_stay(path):
    path.parent.mkdir()
    path.write_text('{"version": 9, "lessons": {"01": {"done": true, "stars": 4}}, "theme": "x"}')
    Progress(path).leave("01", 2, 5)
    fields = json.loads(path.read_text())
    assert fields["theme"] == "x" and fields["lessons"]["01"]["stars"] == 4
    assert fields["version"] == 9


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"lessons": 3}', b"\xff\xfe\x00", b'{"lessons"']
)
def test_a_damaged_file_is_kept_under_another_name(path, damage):
    path.parent.mkdir()
    for number in (1, 2):
        path.write_bytes(damage)
        progress = Progress(path)
        aside = path.with_name(f"progress.damaged-{number}.json")
        assert aside.read_bytes() == damage and aside.name in progress.note
        progress.finish("01")
        assert Progress(path).is_done("01") and Progress(path).note is None


@pytest.mark.parametrize("entry", [3, None, "x", [], {"cell": "x", "when": None}, {"cell": -2}])
def test_a_damaged_entry_counts_as_not_begun(path, entry):
    path.parent.mkdir()
    path.write_text(json.dumps({"lessons": {"01": entry}}))
    progress = Progress(path)
    assert progress.cell("01") == 0 and not progress.is_done("01") and progress.when("01") == 0
    progress.leave("01", 1, 2)
    assert Progress(path).cell("01") == 1


def test_where_nothing_can_be_written_it_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    progress = Progress(tmp_path / "file" / "progress.json")
    progress.leave("01", 1, 2)
    assert progress.cell("01") == 1 and "could not be saved" in progress.note


def test_the_place_follows_the_system(monkeypatch, tmp_path):
    monkeypatch.setenv("MTA_STATE", str(tmp_path))
    assert state_folder() == tmp_path
    monkeypatch.delenv("MTA_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert state_folder() == tmp_path / "xdg" / "minitorch_attn"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert state_folder().parts[-3:] == (".local", "state", "minitorch_attn")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert state_folder().parts[-2:] == ("Application Support", "minitorch_attn")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", os.fspath(tmp_path / "local"))
    assert state_folder() == tmp_path / "local" / "minitorch_attn"


def test_deep_nesting_is_damage(path):
    path.parent.mkdir()
    path.write_text('{"lessons":' + "[" * 100_000)
    assert "nested too deeply" in Progress(path).note
