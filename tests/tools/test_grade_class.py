"""The tool that times grading a class: every submission is counted exactly once."""

import json

import pytest

from minitorch_attn.grader.grade.sandbox import Sandbox
from tools import grade_class


@pytest.mark.slow
def test_a_class_is_timed_in_slices(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Sandbox, "best", staticmethod(lambda: 1))
    words = ["--assignment", "softmax", "--count", "4", "-j", "1", "--out", str(tmp_path / "t")]
    assert grade_class.main([*words, "--slice", "0"]) == 1
    assert grade_class.main(words) == 0
    assert "4 of 4 graded" in capsys.readouterr().out
    slices = json.loads((tmp_path / "t" / "seconds.json").read_text())
    assert sum(part["graded"] for part in slices) == 4 and slices[0]["graded"] < 4
