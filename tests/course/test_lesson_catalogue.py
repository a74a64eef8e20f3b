"""Lessons are found by number and by name, in a checkout and in an installation."""

from pathlib import Path

import pytest

from minitorch_attn.course.lesson_list import find_lesson, lesson_folder, lessons
from minitorch_attn.errors import ArgumentError, DataError

ROOT = Path(__file__).resolve().parents[2]
LESSON = "# %% [markdown]\n# # {}\n#\n# A fact. What of it? And then?\n#\n# *Before:* nothing.\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("01_scale", "02_masks", "10_more_masks"):
        (tmp_path / f"{name}.py").write_text(LESSON.format(name.title()))
    (tmp_path / "README.md").write_text("no lesson")
    (tmp_path / "helper.py").write_text("no lesson")
    monkeypatch.setenv("MTA_LESSONS", str(tmp_path))
    return tmp_path


def test_the_checkout_has_its_lessons(monkeypatch):
    monkeypatch.delenv("MTA_LESSONS", raising=False)
    assert lesson_folder() == ROOT / "lessons"


def test_only_lessons_are_listed_in_order(folder):
    assert [lesson.path.stem for lesson in lessons()] == ["01_scale", "02_masks", "10_more_masks"]


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("1", "01_scale"),
        ("01", "01_scale"),
        (10, "10_more_masks"),
        ("02_masks", "02_masks"),
        ("lessons/02_masks.py", "02_masks"),
        ("scale", "01_scale"),
        ("More", "10_more_masks"),
    ],
)
def test_a_lesson_is_found(folder, name, stem):
    assert find_lesson(name).path.stem == stem


@pytest.mark.parametrize(
    ("name", "message"),
    [("3", "no lesson matches '3'"), ("swin", "no lesson matches"), ("masks", "more than one")],
)
def test_what_is_not_one_lesson_is_refused(folder, name, message):
    with pytest.raises(ArgumentError, match=message) as caught:
        find_lesson(name)
    assert "from 01 to 10" in str(caught.value)


def test_title_and_question(folder):
    lesson = find_lesson("1")
    assert lesson.title == "01_Scale" and lesson.question == "A fact. What of it? And then?"


def test_a_lesson_without_a_title_is_named(folder):
    (folder / "01_scale.py").write_text("# %%\nx = 1\n")
    with pytest.raises(DataError, match=r"01_scale\.py: the title of the first cell is missing"):
        _ = find_lesson("1").title


def test_an_empty_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MTA_LESSONS", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="nowhere"):
        lessons()
