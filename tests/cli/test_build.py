"""`mta build` from an empty folder to the finished file, with a terminal and without."""

import json
import os
import re
import select
import subprocess
import sys
import time

import pytest

from minitorch_attn.cli.build_page import _fitting
from minitorch_attn.cli.console import console
from minitorch_attn.course.build.progress import BuildProgress
from minitorch_attn.course.build.steps import build_folder, header, load_steps

STEPS = load_steps()


def answer(path, count):
    """Write a file with the first steps answered."""
    text = "\n\n".join([header(), *(step.answer for step in STEPS[:count])])
    path.write_text(text, encoding="utf-8")


def test_alone_it_creates_the_file_and_names_the_next_function(mta, tmp_path):
    code, out, err = mta("build")
    assert (code, err) == (1, "") and "\x1b" not in out
    assert out.startswith("step 1 of 8: A number that knows its gradient")
    for part in ("\nmy_gpt.py\n", "next: Value.__init__", "def __init__(self, data", "build hint"):
        assert part in out
    assert "raise NotImplementedError" in (tmp_path / "my_gpt.py").read_text("utf-8")
    assert "Four assignments" not in out
    code, out, _ = mta("build", "hint")
    assert code == 0 and "hint for Value.__init__: Four assignments" in out.replace("\n", " ")
    assert "Four assignments" in mta("build")[1]  # it stays, once asked for


def test_a_finished_step_is_remembered_and_the_next_one_appended(mta, tmp_path):
    mta("build")
    answer(tmp_path / "my_gpt.py", 1)
    code, out, _ = mta("build")
    assert code == 0 and "step 1 is done. A neuron of your Values learns OR." in out
    assert "loss after   0 steps  0.693" in out and "next: step 2" in out
    assert "before it, read lesson 01: python -m minitorch_attn lesson step 01" in out
    BuildProgress().finish("01")
    out = mta("build", "show")[1]
    assert "next: step 2" in out and "read lesson" not in out
    assert "build     step 2 of 8: A tensor, with broadcasting" in mta()[1]
    code, out, _ = mta("build")
    assert code == 1 and "next: unbroadcast" in out
    text = (tmp_path / "my_gpt.py").read_text("utf-8")
    assert text.startswith(header()) and "# Step 2" in text and "# Step 3" not in text
    rows = mta("build", "show")[1].splitlines()
    assert rows[0].endswith("done") and rows[1].endswith("you are here")


@pytest.mark.slow
def test_check_all_reaches_the_last_step_that_is_begun(mta, tmp_path):
    path = tmp_path / "my_gpt.py"
    answer(path, 2)  # with a new progress file, as on another computer
    code, out, _ = mta("build", "check", "--all")
    assert code == 0 and "step 1 is done" in out and "step 2 is done" in out
    assert "next: step 3" in out and "step 3 is done" not in out


def test_a_hint_without_anything_to_do_says_why(mta, tmp_path):
    path = tmp_path / "my_gpt.py"
    answer(path, 1)
    out = mta("build", "hint")[1]
    assert out.strip() == "Everything in step 1 is written and correct."
    path.write_text(path.read_text("utf-8") + "\nnothing\n", "utf-8")
    out = " ".join(mta("build", "hint")[1].split())
    assert "the file runs: not yet. Correct this first:" in out
    assert "name 'nothing' is not defined" in out


def test_check_shows_what_is_wrong_and_prints_json(mta, tmp_path):
    mta("build")
    answer(tmp_path / "my_gpt.py", 1)
    path = tmp_path / "my_gpt.py"
    path.write_text(path.read_text("utf-8").replace("(g * b, g * a)", "(g * a, g * b)"), "utf-8")
    code, out, _ = mta("build", "check")
    assert code == 1 and "WRONG  Value.__mul__" in out and "the gradient of a: " in out
    assert "fix: Value.__mul__" in out
    code, out, _ = mta("build", "check", "1", "--json")
    found = json.loads(out)
    wrong = [part["name"] for part in found["parts"] if not part["passed"]]
    assert code == 1 and found["passed"] is False and "Value.__mul__" in wrong


def test_show_and_solution(mta):
    code, out, _ = mta("build", "show", "3")
    assert code == 0 and "def softmax(x):" in out and "np.exp" not in out
    code, out, _ = mta("build", "solution", "3", "--yes")
    assert code == 0 and "np.exp" in out and "def cross_entropy" in out
    assert mta("build", "solution", "3")[0] != 0  # the question is not answered
    code, _, err = mta("build", "show", "9")
    assert code == 2 and "a number from 1 to 8" in err


def test_what_needs_a_file_or_weights_says_so(mta, tmp_path):
    for command in ("check", "hint", "train", "trace", "sample"):
        code, _, err = mta("build", command)
        assert code == 2 and "my_gpt.py does not exist; start with: " in err
    answer(tmp_path / "my_gpt.py", 8)
    code, _, err = mta("build", "sample")
    assert code == 2 and "not trained yet" in err


@pytest.mark.parametrize(("command", "last"), [("train", 8), ("trace", 7)])
def test_an_unfinished_file_cannot_be_trained_or_recorded(mta, tmp_path, command, last):
    path = tmp_path / "my_gpt.py"
    answer(path, last - 1)
    code, _, err = mta("build", command)
    assert code == 2 and f"needs steps 1 to {last}, and step {last} is not finished" in err
    answer(path, 8)
    text = path.read_text("utf-8")
    at = text.index("    def __mul__(self")
    body = text.index('"""', text.index('"""', at) + 3) + 3
    stub = text[:body] + "\n        raise NotImplementedError\n"
    path.write_text(stub + text[body:], "utf-8")
    code, _, err = mta("build", command)
    assert code == 2 and "step 1 is not finished: Value.__mul__ is not written yet" in err


def test_an_error_shows_the_lines_that_led_to_it(mta, tmp_path):
    answer(tmp_path / "my_gpt.py", 5)
    path = tmp_path / "my_gpt.py"
    text = path.read_text("utf-8")
    wrong = text.replace("key.swapaxes(-1, -2)", "key.swapaxes(-1, -1)")
    assert wrong != text
    path.write_text(wrong, "utf-8")
    _, out, _ = mta("build", "check", "5")
    assert "in attention" not in out and "called from line" in out
    line = next(n for n, t in enumerate(wrong.splitlines(), 1) if "key.swapaxes(-1, -1)" in t)
    assert f"called from line {line}: " in out


def test_a_list_where_a_string_belongs(mta, tmp_path):
    answer(tmp_path / "my_gpt.py", 4)
    path = tmp_path / "my_gpt.py"
    text = path.read_text("utf-8")
    wrong = text.replace('return "".join(characters[i] for i in ids)',
                         "return [characters[i] for i in ids]")  # fmt: skip
    assert wrong != text
    path.write_text(wrong, "utf-8")
    _, out, _ = mta("build", "check", "4")
    assert "a list of characters instead of a string" in out


def test_after_the_last_step_it_says_what_to_do_with_the_gpt(mta, tmp_path):
    progress = BuildProgress()
    for step in STEPS:
        progress.finish_step(step)
    progress.use_file(tmp_path / "my_gpt.py")
    code, out, _ = mta("build")
    assert code == 0 and "build train" in out and "build trace" in out
    assert "build     all 8 steps done: you have written a GPT\n" in mta()[1]


def test_trace_writes_a_page(mta, tmp_path):
    answer(tmp_path / "my_gpt.py", 8)
    assert mta("build", "trace", "-o", "page.html")[0] == 0
    assert "Value.backward" in (tmp_path / "page.html").read_text("utf-8")


def test_the_notebook_is_made_with_its_lessons_and_is_never_overwritten(mta, tmp_path):
    pytest.importorskip("nbformat")
    code, out, err = mta("build", "notebook", "--no-viewer")
    assert (code, err) == (0, "")
    assert out == "made    my_gpt.ipynb\nmade    runs/lessons: 8 lessons linked from the notebook\n"
    path = tmp_path / "my_gpt.ipynb"
    links = set(re.findall(r"\((runs/lessons/[^)]+)\)", path.read_text("utf-8")))
    assert len(links) == 8 and all((tmp_path / link).is_file() for link in links)
    for link in links:
        back = json.loads((tmp_path / link).read_text("utf-8"))["cells"][-1]["source"]
        target = re.search(r"\[Back to step \d of your GPT\]\((.+)\)$", "".join(back))[1]
        assert ((tmp_path / link).parent / target).resolve() == path.resolve()
    assert "; work in lesson notebooks is not counted\n" in mta()[1]
    path.write_text("mine", "utf-8")
    code, out, _ = mta("build", "notebook", "--no-viewer")
    assert code == 0 and out.startswith("yours   my_gpt.ipynb\n") and "notebook --fresh" in out
    answer(tmp_path / "my_gpt.py", 1)
    out = mta("build", "notebook", "--no-viewer", "--fresh")[1]
    (aside,) = tmp_path.glob("my_gpt.2*.ipynb")
    assert f"kept    {aside.name}\nmade    my_gpt.ipynb" in out
    assert aside.read_text("utf-8") == "mine"
    assert "order, seen = [], set()" in path.read_text("utf-8")
    mta("build", "notebook", "--no-viewer", "--answers")
    assert "my_gpt_answers.py" in (tmp_path / "my_gpt_answers.ipynb").read_text("utf-8")


def test_a_file_that_is_not_python_is_corrected_before_the_notebook_is_made(mta, tmp_path):
    (tmp_path / "my_gpt.py").write_text("def (", "utf-8")
    code, _, err = mta("build", "notebook", "--no-viewer")
    assert code == 2 and "correct your file first:\nmy_gpt.py:1: SyntaxError" in err
    assert not (tmp_path / "my_gpt.ipynb").exists()


def test_the_answer_is_a_program_of_its_own(tmp_path):
    """It trains without this package; a failure would end it with an error."""
    lines = (build_folder() / "my_gpt.py").read_text("utf-8")
    small = lines.replace("width=128, layers=4", "width=8, layers=1").replace(
        "steps=1500", "steps=3"
    )
    path, text = tmp_path / "my_gpt.py", tmp_path / "text.txt"
    path.write_text(small, encoding="utf-8")
    text.write_text("the cat sat on the mat. " * 20, encoding="utf-8")
    process = subprocess.run(
        [sys.executable, "-I", str(path), str(text)], capture_output=True, text=True, check=True
    )
    assert process.stdout.startswith("step     0  loss 2.")


# In a terminal


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_in_a_terminal_the_file_is_checked_when_it_is_saved(tmp_path):
    import pty

    settings = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process, terminal = pty.fork()
    if not process:
        command = [sys.executable, "-m", "minitorch_attn", "build"]
        os.execve(sys.executable, command, settings)

    def until(words, seconds=240):
        seen, end = b"", time.monotonic() + seconds
        while words.encode() not in seen and time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 65536)
        assert words.encode() in seen, seen.decode()
        return seen.decode()

    assert "next: Value.__init__" in until("to be saved")
    os.write(terminal, b"h")
    until("hint for Value.__init__")
    answer(tmp_path / "my_gpt.py", 1)
    assert "step 1 is done" in until("n: next step")
    os.write(terminal, b"n")
    assert "next: unbroadcast" in until("to be saved")
    os.write(terminal, b"q")
    until("", 1)
    assert os.waitpid(process, 0)[1] == 0


def test_a_long_docstring_is_wrapped_and_its_end_keeps_its_line():
    out = console()
    for width in (60, 80, 96):
        out.width = width
        for item in STEPS[2].functions:
            lines = _fitting(item.stub, out).splitlines()
            assert max(map(len, lines)) <= max(width, 60) and lines[-1].strip() == '"""'
