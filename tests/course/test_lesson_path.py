"""The path to GPT: prerequisites hold in its order, and minutes are stated and current."""

import json
import re
from types import SimpleNamespace

from minitorch_attn.course.build.progress import BuildProgress
from minitorch_attn.course.build.steps import lesson_path, load_steps
from minitorch_attn.course.lesson_list import find_lesson, lesson_folder, lessons
from tools import lesson_minutes

STEPS = load_steps()
LINE = re.compile(r"\*Prerequisites:\*(.*?)(?:\n\n|\Z)", re.S)


def prerequisites(lesson):
    """The numbers in "(lesson 5)" and "(lessons 2, 3)" of a lesson's prerequisites."""
    text = LINE.search(lesson.cells[0].text)[1]
    groups = re.findall(r"\(lessons? ([\d, and]+)\)", text)
    return {f"{int(n):02}" for group in groups for n in re.findall(r"\d+", group)}


def test_it_has_eight_lessons_and_derivatives_come_first():
    path = [number for number, _ in lesson_path(STEPS)]
    assert len(path) == len(set(path)) == 8 and path[0] == "02"


def test_prerequisites_hold_in_the_order_of_the_path():
    """Each is an earlier lesson of the path."""
    known = set()
    for step in STEPS:
        for number in step.lessons:
            missing = prerequisites(find_lesson(number)) - known
            assert not missing, f"lesson {number} needs {sorted(missing)}"
            known.add(number)


def test_the_next_place_of_the_path_is_the_first_that_is_left(tmp_path):
    progress = BuildProgress(tmp_path / "progress.json")
    assert progress.after("02", STEPS) is STEPS[0] and progress.after("03", STEPS) is None
    progress.finish_step(STEPS[0])
    assert progress.after("02", STEPS) == "01" and progress.after("10", STEPS) == "11"
    progress.finish("11")
    assert progress.after("10", STEPS) is STEPS[5] and progress.after(STEPS[-1], STEPS) is None


def test_prerequisites_are_found():
    assert prerequisites(find_lesson("01")) == set()
    assert prerequisites(find_lesson("13")) == {"02", "11"}
    assert prerequisites(find_lesson("15")) >= {"05", "10", "12"}


def test_the_hours_on_the_pages_are_those_of_the_table():
    steps = sum(step.minutes for step in STEPS)
    read = sum(find_lesson(number).minutes for number, _ in lesson_path(STEPS))
    root = lesson_folder().parent
    stated = f"about {steps / 60:.1f} hours for the steps and {read / 60:.1f} for the lessons"
    assert stated in " ".join((root / "docs" / "build.md").read_text("utf-8").split())
    readme = " ".join((root / "README.md").read_text("utf-8").split())
    assert f"about {steps / 60:.1f} hours" in readme and f"another {read / 60:.1f} hours" in readme
    left_out = [find_lesson(number).minutes - part["minutes"]
                for step in STEPS for number, part in step.short.items()]  # fmt: skip
    fewer = read - sum(left_out)
    assert len(left_out) == 3 and min(left_out) > 0
    assert f"or {fewer / 60:.1f} hours if you read only the parts" in readme
    table = " ".join((root / "lessons" / "README.md").read_text("utf-8").split())
    assert f"| all | {read}, or {fewer} | all | {steps} |" in table
    hours = (
        f"or {(steps + fewer) / 60:.1f} hours if you read only these parts, so plan three evenings"
    )
    assert hours in table


def test_the_minutes_are_at_least_those_that_a_student_needed():
    assert [step.minutes for step in STEPS] == [35, 40, 25, 25, 10, 15, 45, 40]
    for number, needed in lesson_minutes.MEASURED.items():
        assert find_lesson(number).minutes >= needed


def test_the_parts_of_lessons_that_steps_name_exist():
    """Such as "Detective work" in step 5: the title of a section of one of the step's lessons."""
    named = 0
    for step in STEPS:
        for part in re.findall(r'"([^"]+)"', step.text):
            cells = [cell for number in step.lessons for cell in find_lesson(number).cells]
            titles = re.findall(r"^## (.+)$", "\n".join(cell.text for cell in cells), re.M)
            assert any(part.lower() in title.lower() for title in titles), part
            named += 1
    assert named == 4


def test_the_minutes_of_a_part_are_those_of_its_text():
    """The estimate for the cells before the named section, scaled to what a student needed."""
    for step in STEPS:
        for number, part in step.short.items():
            assert part["part"] in step.text or number == "11"
            assert f"about {part['minutes']} minutes" in step.text
            if not part["part"].startswith("up to"):
                continue
            lesson, (title,) = find_lesson(number), re.findall(r'"(.+)"', part["part"])
            at = next(i for i, cell in enumerate(lesson.cells) if f"## {title}" in cell.text)
            first, whole = (
                lesson_minutes.estimate(SimpleNamespace(cells=cells, number=""), 0.0)["minutes"]
                for cells in (lesson.cells[:at], lesson.cells)
            )
            assert 0 <= part["minutes"] - first * lesson.minutes / whole < 5


def test_every_lesson_and_step_states_its_minutes():
    assert all(lesson.minutes in range(5, 61, 5) for lesson in lessons())
    assert all(step.minutes in range(5, 61, 5) for step in STEPS)


def test_the_minutes_are_those_of_the_lessons_texts():
    """A small change of a text need not change the table, a larger one does."""
    stored = json.loads((lesson_folder() / "minutes.json").read_text(encoding="utf-8"))
    for lesson in lessons():
        row = stored[lesson.number]
        now = lesson_minutes.estimate(lesson, row["run_seconds"])["minutes"]
        assert abs(now - row["minutes"]) <= 5, f"{lesson.number}: python -m tools.lesson_minutes"
        assert row["run_seconds"] > 0


def test_a_lesson_without_a_table_has_no_minutes(tmp_path):
    source = find_lesson("01").path
    (tmp_path / source.name).write_text(source.read_text("utf-8"), encoding="utf-8")
    (lesson,) = lessons(tmp_path)
    assert lesson.minutes is None


def test_only_figures_that_are_shown_count():
    text = "axes.imshow(x)\nshow(figure, 'one')\nmt.show(figure, 'two')"
    cells = [SimpleNamespace(kind="code", text=text, tags=())]
    assert lesson_minutes.estimate(SimpleNamespace(cells=cells, number=""), 0.0)["figures"] == 2
