"""Your turns of a lesson: their cells, the unanswered function, and running the cells."""

import numpy as np
import pytest

from minitorch_attn.course.lesson_list import Lesson
from minitorch_attn.course.run_cells import LessonRun
from minitorch_attn.course.turns import is_predict, unanswered
from minitorch_attn.errors import DataError

LESSON = '''# %% [markdown]
# # Twice

# %%
import numpy as np

import minitorch_attn as mt
from minitorch_attn.course.your_turn import check

mt.manual_seed(0)
rng = np.random.default_rng(0)
print("first")

# %% [markdown] tags=["your-turn"]
# ## Your turn: twice `x`
#
# Write `double(x)`, with $x^2$:
#
# $$
# y = 2 x
# $$
#
# *Hint:* Add
# twice.

# %% tags=["answer"]
def double(x):
    """Return 2 x.

    Of any shape.
    """
    # add
    return x + x


# %% tags=["check"]
check(double, cases=[rng.normal(size=3), mt.randn(2)], expected=lambda x: 2 * x, properties={})

# %% [markdown] tags=["predict"]
# ## Predict, then run

# %%
print(mt.randn(1), rng.normal())
'''


@pytest.fixture(autouse=True)
def on_the_host(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("lessons choose their devices themselves and are tested once")


@pytest.fixture
def make(tmp_path):
    def write(old="", new=""):
        assert old in LESSON
        (tmp_path / "07_twice.py").write_text(LESSON.replace(old, new, 1), encoding="utf-8")
        return Lesson(tmp_path / "07_twice.py")

    return write


def test_the_parts_of_a_turn(make):
    (turn,) = make().turns
    assert (turn.lesson, turn.at, turn.name) == ("07", 2, "double")
    assert turn.title == "twice `x`" and turn.hint == "Add\ntwice."
    assert turn.task.startswith("Write `double(x)`") and turn.task.endswith("$$")
    assert turn.answer.splitlines()[0] == LESSON.splitlines()[turn.line - 1] == "def double(x):"
    assert is_predict(make().cells[5]) and not is_predict(make().cells[2])


def test_the_unanswered_function_keeps_its_docstring(make):
    (turn,) = make().turns
    assert turn.unanswered.splitlines() == [
        "def double(x):", '    """Return 2 x.', "", "    Of any shape.", '    """',
        "    raise NotImplementedError",
    ]  # fmt: skip
    namespace = {}
    exec(turn.unanswered, namespace)
    with pytest.raises(NotImplementedError):
        namespace["double"](1)
    assert namespace["double"].__doc__.startswith("Return 2 x.")


def test_the_unanswered_function_of_one_with_parameters_in_several_lines():
    code = "def f(\n    x,\n    y=3,\n):\n    '''Return x.'''\n    z = x\n    return z"
    kept = ["):", "    '''Return x.'''", "    raise NotImplementedError"]
    assert unanswered(code).splitlines()[3:] == kept


def test_the_learners_file_is_the_task_and_the_unanswered_function(make):
    (turn,) = make().turns
    assert turn.path.name == "lesson_07_double.py"
    comments, _, code = turn.text.partition("\n\n\n")
    assert code == turn.unanswered + "\n"
    assert all(line.startswith("#") for line in comments.splitlines())
    assert "x²" in comments and "Hint" not in comments and "return x + x" not in turn.text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("## Your turn: twice `x`", "## Twice", "a task cell is malformed"),
        ("# *Hint:* Add\n# twice.", "# Add.", "a task cell is malformed"),
        ("# twice.", "# twice.\n#\n# And more.", "a task cell is malformed"),
        ('%% tags=["answer"]', "%%", "the cell 'answer' is missing"),
        ('%% tags=["check"]', "%%", "the cell 'check' is missing"),
        ('[markdown] tags=["your-turn"]', "[markdown]", "the task is missing"),
        ("def double(x):", "x = 3\n\ndef double(x):", "an answer is not a single function"),
        ("def double(x):", "def double(x:", "the answer is not valid Python"),
        ('    """Return 2 x.\n\n    Of any shape.\n    """\n', "", "not a single function"),
    ],
)
def test_a_malformed_turn_is_named_with_its_line(make, old, new, said):
    with pytest.raises(DataError, match="07_twice.py") as caught:
        _ = make(old, new).turns
    assert said in str(caught.value) and "the cell at line" in str(caught.value)


# Running


def run_to(lesson, index):
    run = LessonRun(lesson)
    while len(run.outputs) < index:
        run.run_next()
    return run


def test_cells_run_once_in_one_namespace(make):
    run = run_to(make(), 5)
    assert run.outputs[:4] == ["", "first\n", "", ""]
    assert run.outputs[4] == "double: values ✓  gradients ✓\n"
    assert run.namespace["double"](3) == 6


def test_an_error_names_the_line_of_the_file(make):
    run = LessonRun(make('print("first")', "1 / 0"))
    run.run_next()
    with pytest.raises(ZeroDivisionError) as caught:
        run.run_next()
    last = caught.traceback[-1]
    assert last.lineno + 1 == LESSON.splitlines().index('print("first")') + 1
    assert len(run.outputs) == 1


def last_numbers(run):
    while len(run.outputs) < len(run.lesson.cells):
        run.run_next()
    return run.outputs[-1]


def test_unanswered_answered_and_checked_many_times_the_later_numbers_are_the_same(make, tmp_path):
    lesson = make()
    (turn,) = lesson.turns
    answered = last_numbers(LessonRun(lesson))
    skipped = run_to(lesson, 2)
    assert skipped.check_turn(turn) == (False, "")
    assert len(skipped.outputs) == 5 and last_numbers(skipped) == answered
    written = run_to(lesson, 2)
    assert written.check_turn(turn) == (False, "")
    for body in ("return x", "return rng.normal() * x", "return x + x"):
        (tmp_path / "mine.py").write_text(f"def double(x):\n    {body}\n")
        passed, text = written.check_turn(turn, tmp_path / "mine.py")
    assert passed and "values" in text
    with written.same_random_numbers():
        written.evaluate("rng.normal(), mt.randn(3)")
    assert last_numbers(written) == answered


def test_each_check_sees_the_same_numbers(make, tmp_path):
    lesson = make()
    run = run_to(lesson, 2)
    (tmp_path / "mine.py").write_text("def double(x):\n    return x\n")
    texts = {run.check_turn(lesson.turns[0], tmp_path / "mine.py")[1] for _ in range(3)}
    assert len(texts) == 1


def test_the_names_of_the_learners_file_do_not_change_those_of_the_lesson(make, tmp_path):
    lesson = make()
    run = run_to(lesson, 2)
    (tmp_path / "mine.py").write_text("mt = None\nrng = 3\n\n\ndef double(x):\n    return x * 2\n")
    assert run.check_turn(lesson.turns[0], tmp_path / "mine.py")[0]
    assert run.namespace["mt"] is not None and isinstance(run.namespace["rng"], np.random.Generator)


def test_a_function_that_is_deleted_from_the_file_is_missed(make, tmp_path):
    lesson = make()
    run, file = run_to(lesson, 2), tmp_path / "mine.py"
    file.write_text("def double(x):\n    return x * 2\n")
    assert run.check_turn(lesson.turns[0], file)[0]
    file.write_text("pass\n")
    passed, text = run.check_turn(lesson.turns[0], file)
    assert not passed and "does not define the function double" in text
    file.write_bytes(b"\xff\xfe")
    assert "could not be read" in run.check_turn(lesson.turns[0], file)[1]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mt.ones(2, 3)", "tensor([[1., 1., 1.],\n        [1., 1., 1.]])\nshape (2, 3)\n"),
        ("np.zeros(2)", "array([0., 0.])\nshape (2,)\n"),
        ("1 + 1", "2\n"),
        ("x = 3", ""),
        ("None", ""),
        ("print('a')", "a\n"),
        ("raise SystemExit", "SystemExit\n"),
        ("raise ValueError('a\\nb')", "ValueError: a b\n"),
        ("[", "SyntaxError: '[' was never closed\n"),
        ("nothing", "NameError: name 'nothing' is not defined\n"),
        ("double(1)", "NotImplementedError\n"),
    ],
)
def test_an_expression_is_shown_in_the_namespace_of_the_lesson(make, text, shown):
    lesson = make()
    run = run_to(lesson, 2)
    run.check_turn(lesson.turns[0])
    assert run.evaluate(text) == shown


def test_a_name_that_an_expression_assigns_hides_that_of_the_lesson_only_there(make):
    lesson = make()
    answered, run = last_numbers(LessonRun(lesson)), run_to(lesson, 2)
    assert (
        run.evaluate("rng = 5")
        == "only lines typed here see the new rng; the lesson keeps its own\n"
    )
    assert run.evaluate("rng = 7") == "" and run.evaluate("rng + 1") == "8\n"
    assert run.evaluate("mine = rng") == "" and run.evaluate("mine") == "7\n"
    assert last_numbers(run) == answered


def test_a_cell_that_assigns_a_name_again_shows_its_value_in_expressions(make):
    run = run_to(make('# %% [markdown] tags=["predict"]', "# %%\nx = 3\n\n# %% [markdown]"), 2)
    run.check_turn(run.lesson.turns[0])
    assert run.evaluate("x = 5") == "" and run.evaluate("x") == "5\n"
    run.run_next()
    assert run.evaluate("x") == "3\n"


def test_an_error_of_the_library_is_one_line(make):
    run = run_to(make(), 2)
    text = run.evaluate("mt.ones(2) @ mt.ones(3)")
    assert text.startswith("ShapeError: ") and text.count("\n") == 1 and "; expected " in text
