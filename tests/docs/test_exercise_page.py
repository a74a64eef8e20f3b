"""The exercises page has every exercise, and lessons link to it."""

import re

import pytest

from minitorch_attn.course.exercises.load import exercises
from minitorch_attn.course.lesson_list import lessons

pytest.importorskip("mistune", reason="needs the docs extra: pip install -e '.[docs]'")
exercise_page = pytest.importorskip("sitebuilder.exercise_page")
lesson_pages = pytest.importorskip("sitebuilder.lesson_pages")

KNOWN, LESSONS = exercises(), lessons()
PAGE = "\n".join(exercise_page.page(KNOWN, LESSONS))


@pytest.mark.parametrize("exercise", KNOWN, ids=lambda exercise: exercise.name)
def test_an_exercise_has_its_task_its_command_and_its_lesson(exercise):
    start = PAGE.index(f".. _exercise-{exercise.number}:")
    section = PAGE[start : PAGE.find(".. _exercise-", start + 1)]
    assert f"\n{int(exercise.number)}. {exercise.title}\n" in section
    assert f"``mta exercise start {exercise.number}``" in section
    assert exercise.task.split()[0] in section
    (lesson,) = (lesson for lesson in LESSONS if lesson.number == exercise.lesson)
    assert f"<lessons/{lesson.path.stem}>`" in section


def test_no_exercise_is_shown_twice_and_none_gives_its_answer():
    assert len(re.findall(r"^\.\. _exercise-\d\d:", PAGE, re.M)) == len(KNOWN)
    assert [e.name for e in KNOWN if e.hints[2] in PAGE or e.explanation in PAGE] == []


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.path.stem)
def test_a_lesson_links_to_the_exercises_that_it_starts(lesson):
    started = re.findall(r"^# mta exercise start (\d\d)$", lesson.path.read_text("utf-8"), re.M)
    script = lesson_pages.gallery_script(lesson)
    assert re.findall(r"<exercise-(\d\d)>`", script) == started
    assert sorted(started) == [e.number for e in KNOWN if e.lesson == lesson.number]
