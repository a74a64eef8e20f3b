"""The tool that times grading a class: every submission is counted exactly once."""

import json

import pytest

from minitorch_attn.grader.grade.archive import read_submission, submissions_in
from minitorch_attn.grader.grade.sandbox import Sandbox
from tools import grade_class
from tools.quick_class import FILE, quick_class


@pytest.mark.slow
def test_a_class_is_timed_in_slices(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Sandbox, "best", staticmethod(lambda: 1))
    words = ["--assignment", "softmax", "--count", "4", "-j", "1", "--out", str(tmp_path / "t")]
    assert grade_class.main([*words, "--slice", "0"]) == 1
    assert grade_class.main(words) == 0
    assert "4 of 4 graded" in capsys.readouterr().out
    slices = json.loads((tmp_path / "t" / "seconds.json").read_text())
    assert sum(part["graded"] for part in slices) == 4 and slices[0]["graded"] < 4


@pytest.mark.slow
def test_shards_are_compared_with_one_run(tmp_path, capsys):
    words = ["--assignment", "quick", "--count", "11", "--level", "1", "--shards", "3", "-j", "1"]
    words += ["--out", str(tmp_path / "t")]
    assert grade_class.main(words) == 0
    said = capsys.readouterr().out
    assert "merged 11 results of 3 shards" in said and "0 files differ" in said
    assert "grades.csv and run.json: equal byte for byte" in said
    state = next((tmp_path / "t" / "marks" / "state").glob("*.json"))
    state.write_text(state.read_text().replace('"status": "graded"', '"status": "not readable"'))
    assert grade_class.main(words) == 1  # another mark in the one run
    assert "NOT EQUAL" in capsys.readouterr().out


def test_the_quick_submissions_are_of_ten_kinds(tmp_path):
    quick_class(tmp_path / "class", 10)
    submissions = [
        read_submission(path, [FILE]) for path in submissions_in(tmp_path / "class")
    ]  # fmt: skip
    assert len({submission.digest for submission in submissions}) == 9 + 1
    assert len({submission.files.get(FILE, b"")[16:] for submission in submissions}) == 10
