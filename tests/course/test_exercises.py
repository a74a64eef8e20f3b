"""Exercises: their format; each file fails as given and passes when solved."""

import ast
import re

import pytest

from minitorch_attn.course.exercises.check import check_file
from minitorch_attn.course.exercises.judges import JUDGES
from minitorch_attn.course.exercises.load import exercise_folder, exercises, find_exercise
from minitorch_attn.course.exercises.rules import function_classes, rule_broken
from minitorch_attn.errors import ArgumentError, DataError

EXERCISES = exercises()
EACH = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
LIMIT = 300


@pytest.fixture
def checked(tmp_path):
    """checked(exercise, text) -> the outcome of a file with this text."""

    def check(exercise, text):
        path = tmp_path / exercise.path.name
        path.write_text(text, encoding="utf-8")
        return check_file(exercise, path, LIMIT)

    return check


def parts(outcome):
    return {part.name: part.passed for part in outcome.parts}


@pytest.mark.slow
@EACH
def test_the_file_as_given_fails_where_it_should(exercise, checked, forks):
    given = checked(exercise, exercise.text)
    assert not given.passed
    if exercise.kind in ("write", "derive"):
        (part,) = given.parts
        number = exercise.text[: exercise.text.index("raise NotImpl")].count("\n") + 1
        assert part.text.startswith(f"line {number} is not written yet: ")
        return
    assert parts(given)["large inputs"] is False
    green = exercise.kind == "property"
    assert given.report_ok is green and parts(given)["gradcheck"] is green
    failing = {p.name for p in JUDGES[exercise.judge].properties if not parts(given)[p.name]}
    assert bool(failing) is (green or exercise.judge == "padding")
    if not green:
        classes = function_classes(ast.parse(exercise.text))
        assert any(re.search(rf"{name},\s+step", given.causes) for name in classes)
        assert not any(re.search(rf"{name},\s+step", given.report) for name in classes)


@pytest.mark.slow
@EACH
def test_the_solution_passes_everything(exercise, checked, forks):
    solved = checked(exercise, exercise.solved)
    assert solved.passed, solved.parts
    assert solved.report_ok and solved.output == ""
    named = {p.name for p in JUDGES[exercise.judge].properties}
    assert named <= set(parts(solved)) and len(solved.parts) == len(named) + 4


def test_there_are_as_many_as_promised():
    kinds = [exercise.kind for exercise in EXERCISES]
    assert kinds[:41] == ["bug"] * 20 + ["property"] * 5 + ["write"] * 8 + ["derive"] * 8
    assert sorted(kinds[41:47]) == ["bug"] * 2 + ["property"] * 4
    assert [e.number for e in EXERCISES] == [f"{i:02}" for i in range(1, len(EXERCISES) + 1)]
    files = sorted(path.stem for path in exercise_folder().glob("*.py"))
    assert files == [exercise.name for exercise in EXERCISES if exercise.base is None]
    bases = [exercise.path for exercise in EXERCISES if exercise.kind == "write"]
    assert [exercise.base for exercise in EXERCISES if exercise.kind == "derive"] == bases
    assert {exercise.judge for exercise in EXERCISES} == set(JUDGES)


@EACH
def test_the_format(exercise):
    lines = exercise.text.splitlines()
    assert 20 <= len(lines) <= 70 and max(map(len, lines)) <= 100
    title = ast.get_docstring(ast.parse(exercise.text)).splitlines()[0]
    assert title == exercise.title + "."
    words = {"write": "Write `backward`|Undo", "derive": "Derive "}.get(exercise.kind, r"Read\s")
    assert ("derivation" in exercise.task) == (exercise.kind == "write")
    assert re.search(words, exercise.task)
    assert 'if __name__ == "__main__":' in lines
    assert re.search(r"print\(gradcheck_report\(.*\)\.facts\(\)\)", exercise.text)
    names = {node.name for node in ast.parse(exercise.text).body if hasattr(node, "name")}
    assert JUDGES[exercise.judge].entry in names
    assert re.fullmatch(r"\d\d", exercise.lesson)
    assert exercise.old != exercise.new and exercise.old.endswith("\n")
    assert exercise.seen
    for place, what in exercise.seen:
        assert re.match(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+$", place)
        assert what.endswith(".") and 40 < len(what) < 200


@EACH
def test_hints_become_clearer_and_the_first_two_do_not_give_it_away(exercise):
    assert len(exercise.hints) == 3 and all(len(hint) < 200 for hint in exercise.hints)
    new = {squeezed(line) for line in exercise.new.splitlines()}
    new -= {squeezed(line) for line in exercise.old.splitlines()}
    assert new and not new <= {squeezed(line) for line in exercise.text.splitlines()}
    first_two = squeezed(" ".join(exercise.hints[:2]))
    assert not any(line in first_two for line in new)
    right = exercise.new.replace("return ", "= ").split("= ", 1)[-1].splitlines()[0]
    assert squeezed(right) not in first_two


def squeezed(text):
    return re.sub(r"\s", "", text)


@EACH
def test_the_solution_keeps_the_rules(exercise):
    assert rule_broken(exercise.solved, exercise.text) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["01_projection", "07_layer_scale", "09_mix"])
def test_the_guess_at_the_cause_is_no_part_of_what_is_shown_first(name, checked, forks):
    exercise = find_exercise(name)
    given = checked(exercise, exercise.text)
    assert "times the correct one" not in given.report and "WRONG" in given.report
    assert len(given.causes) > 40 and given.causes not in given.report


def test_an_exercise_is_found_by_number_name_part_and_path():
    for name in ("3", "03", "03_softmax", "03_softmax.py", "some/where/03_softmax.py"):
        assert find_exercise(name).number == "03"
    assert find_exercise("layer_scale").number == "07"
    with pytest.raises(ArgumentError, match="'99' matches no exercise"):
        find_exercise("99")
    with pytest.raises(ArgumentError, match="'scale' matches more than one exercise"):
        find_exercise("scale")


def test_a_folder_without_exercises_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MTA_EXERCISES", str(tmp_path))
    with pytest.raises(DataError, match="unset MTA_EXERCISES"):
        exercise_folder()
    (tmp_path / "exercises.toml").write_text("exercise = 3")
    with pytest.raises(DataError, match="the value of exercise is invalid"):
        exercises()


@pytest.mark.parametrize(
    ("name", "said"),
    [("10_scores", "is missing"), ("12_scaled_query", "is applied twice")],
)
def test_a_scale_is_told_from_a_size(name, said, checked):
    """The root of the width of a head is no size of an axis, so that the report has one reading."""
    exercise = find_exercise(name)
    text = " ".join(checked(exercise, exercise.text).causes.split())
    assert re.search(
        rf"sqrt\(6\), where 6 is the size of axis 3 of \w+: .* 1/sqrt\(6\) {said}\.", text
    )
    assert "a mean" not in text and "twice: or" not in text


@pytest.mark.parametrize(
    "change",
    [("title = ", "title = 5 #"), ("hints = [", 'hints = ["a"]\nx = ['), ("old = ", "old = {} #"),
     ("file = ", 'file = "../x" #'), ("kind = ", 'kind = "x" #'), ("seen = [", "seen = [1, ")],
    ids=str,
)  # fmt: skip
def test_entries_of_the_wrong_type(change, tmp_path):
    text = (exercise_folder() / "exercises.toml").read_text(encoding="utf-8")
    assert change[0] in text
    (tmp_path / "exercises.toml").write_text(text.replace(*change), encoding="utf-8")
    with pytest.raises(DataError, match=r"exercises\.toml"):
        exercises(tmp_path)
