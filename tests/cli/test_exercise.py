"""`mta exercise` from the first file to the solution, with a terminal and without."""

import json
import os
import select
import sys
import time

import pytest

from minitorch_attn.course.exercises.load import find_exercise

FIRST = find_exercise("01")
COPY = "exercises-work/01_projection.py"


def solve(path):
    path.write_text(find_exercise(path.name).solved, encoding="utf-8")


def test_alone_it_begins_with_the_first_and_checks_it_once(mta, tmp_path):
    code, out, err = mta("exercise")
    assert (code, err) == (1, "") and "\x1b" not in out
    assert out.startswith("exercise 01 of 58: Queries, keys and values\nexercises-work")
    for part in (
        "Three matrix products", "1 of the 4 gradients disagrees", "WRONG  h", "WRONG  gradcheck",
        "ok     forward returns the correct values", "not yet: 1 of 2 parts is wrong",
        "exercise hint 01", "0 of 58 solved", FIRST.old.strip(),
    ):  # fmt: skip
        assert (part in out) is (part != FIRST.old.strip()), part
    assert FIRST.new.strip() not in out and FIRST.explanation[:40] not in out
    assert (tmp_path / COPY).read_text() == FIRST.text


def test_from_start_to_solution(mta, tmp_path):
    code, out, _ = mta("exercise", "start", "3")
    assert code == 0 and "exercise 03 of 58: Softmax" in out and "exercise check 03" in out
    copy = tmp_path / "exercises-work" / "03_softmax.py"
    assert mta("exercise", "check")[0] == 1
    code, out, err = mta("exercise", "solution", "3")
    assert (code, out) == (1, "") and "not solved yet" in err
    solve(copy)
    code, out, _ = mta("exercise", "check", "softmax.py")
    assert code == 2  # two exercises have it
    code, out, _ = mta("exercise", "check", "3")
    assert code == 0 and "exercise 03 is solved." in out and "Every y depends on every x" in out
    assert "1 of 58 solved" in out and "next: 04 Softmax with a temperature\n" in out
    assert "WRONG" not in out and "large inputs" in out
    code, out, _ = mta("exercise", "solution", "3")
    assert code == 0 and "03_softmax.py, line 28:" in out
    assert f"- {find_exercise('3').old.rstrip()}" in out
    assert f"+ {find_exercise('3').new.rstrip()}" in out
    assert "03  Softmax" in (listed := mta("exercise", "list")[1]) and "solved" in listed


def test_hints_come_one_by_one_and_are_remembered(mta):
    for count in (1, 2, 3, 3):
        code, out, _ = mta("exercise", "hint", "1")
        assert code == 0 and out.count("hint ") == count
        assert f"hint {count} of 3" in out and out.endswith("exercise start 01\n")
    fields = json.loads(mta("exercise", "hint", "1", "--json")[1])
    assert fields["hints"] == list(FIRST.hints) and fields["of"] == 3
    mta("exercise", "start", "1")
    assert "begun, 3 hints" in mta("exercise", "list")[1]
    assert mta("exercise", "hint")[1].endswith("then: python -m minitorch_attn exercise check 01\n")


def test_reset_keeps_what_was_there(mta, tmp_path):
    mta("exercise", "start", "1")
    code, out, _ = mta("exercise", "reset", "1")
    assert code == 0 and "kept" not in out  # it was unchanged
    (tmp_path / COPY).write_text("mine")
    kept = []
    for text in ("mine", "mine too"):
        (tmp_path / COPY).write_text(text)
        code, out, _ = mta("exercise", "reset", "1")
        assert code == 0 and "your copy is kept as exercises-work" in out
        assert (tmp_path / COPY).read_text() == FIRST.text
    kept = sorted(path.read_text() for path in (tmp_path / "exercises-work").glob("*.bak"))
    assert kept == ["mine", "mine too"]


def test_after_a_reset_it_is_open_again(mta, tmp_path):
    mta("exercise", "start", "1")
    solve(tmp_path / COPY)
    assert mta("exercise", "check", "1")[0] == 0
    mta("exercise", "reset", "1")
    assert mta("exercise", "solution", "1")[0] == 1


def test_start_leaves_a_copy_as_it_is(mta, tmp_path):
    mta("exercise", "start", "1")
    (tmp_path / COPY).write_text("mine")
    code, out, _ = mta("exercise", "start", "1")
    assert code == 0 and "it was not changed" in out and (tmp_path / COPY).read_text() == "mine"
    assert json.loads(mta("exercise", "start", "1", "--json")[1])["copied"] is False


def test_json_everywhere(mta, tmp_path):
    code, out, _ = mta("exercise", "--json")
    fields = json.loads(out)
    assert code == 1 and fields["exercise"] == "01_projection" and fields["passed"] is False
    assert fields["report"].startswith("gradcheck: 1 of the 4 gradients disagrees")
    assert {part["name"]: part["passed"] for part in fields["parts"]}["gradcheck"] is False
    solve(tmp_path / COPY)
    assert json.loads(mta("exercise", "check", "--json")[1])["passed"] is True
    listed = json.loads(mta("exercise", "list", "--json")[1])
    assert len(listed) == 58 and listed[0]["solved"] and not listed[1]["solved"]
    assert listed[0]["file"] == str(tmp_path / COPY)
    assert json.loads(mta("exercise", "solution", "1", "--json")[1])["new"] == FIRST.new
    code, out, _ = mta("exercise", "solution", "2", "--json")
    assert code == 1 and "new" not in json.loads(out)
    assert json.loads(mta("exercise", "reset", "1", "--json")[1])["kept"].endswith(".bak")


def test_another_folder_is_used_and_remembered(mta, tmp_path, monkeypatch):
    mine = tmp_path / "my work"
    mta("exercise", "start", "2", "--work", mine)
    assert (mine / "02_pair_bias.py").exists()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert mta("exercise", "check", "2")[0] == 1
    solve(mine / "02_pair_bias.py")
    assert mta("exercise", "--work", mine, "check", "2")[0] == 0
    assert list(elsewhere.iterdir()) == []
    monkeypatch.setenv("MTA_WORK", str(tmp_path / "named"))
    mta("exercise", "start", "2")
    assert (tmp_path / "named" / "02_pair_bias.py").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "99"], "'99' matches no exercise"),
        (["start", "scale"], "'scale' matches more than one exercise"),
        (["check", "5"], "exercise start 05"),
        (["reset"], "Missing argument"),
        (["fly"], "No such command"),
    ],
)
def test_wrong_usage_is_2_with_a_reason(arguments, words, mta):
    code, _, err = mta("exercise", *arguments)
    assert code == 2 and words in err


@pytest.mark.slow
def test_check_all(mta, tmp_path):
    mta("exercise", "start", "1")
    mta("exercise", "start", "3")
    solve(tmp_path / COPY)
    code, out, _ = mta("exercise", "check", "--all")
    assert code == 1 and "exercise 01 is solved." in out and "exercise 03 of 58" in out
    found = json.loads(mta("exercise", "check", "1", "3", "--json")[1])
    assert [entry["passed"] for entry in found] == [True, False]


def test_a_file_that_is_no_text_is_a_message(mta, tmp_path):
    mta("exercise", "start", "1")
    (tmp_path / COPY).write_bytes(b"\xff\xfe\x00")
    code, out, _ = mta("exercise", "check", "1")
    assert code == 1 and "it is not UTF-8 text" in out
    (tmp_path / COPY).write_text("")
    code, out, _ = mta("exercise", "check", "1")
    assert code == 1 and "the class Project of the exercise is missing" in out


def test_when_all_are_solved_it_says_so(mta, tmp_path):
    done = {
        item["name"]: {"solved": True} for item in json.loads(mta("exercise", "list", "--json")[1])
    }
    (tmp_path / "state").mkdir(exist_ok=True)
    fields = {"version": 1, "lessons": {"08": {"done": True}}, "exercises": done}
    (tmp_path / "state" / "progress.json").write_text(json.dumps(fields))
    code, out, _ = mta("exercise")
    assert code == 0 and "all exercises are solved" in out
    assert json.loads(mta("exercise", "--json")[1]) == {"solved": 58, "next": None}
    mta("exercise", "reset", "4")
    listed = mta("exercise", "list")[1]
    assert listed.endswith(
        "next: 04 Softmax with a temperature\n  python -m minitorch_attn exercise\n"
    )
    kept = json.loads((tmp_path / "state" / "progress.json").read_text())
    assert kept["lessons"] == {"08": {"done": True}}


def test_the_report_is_as_wide_as_the_terminal(mta, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for number in ("2", "13"):
        mta("exercise", "start", number)
        out = mta("exercise", "check", number)[1]
        assert max(map(len, out.splitlines())) <= 80


def test_a_path_is_checked_in_place_of_a_number(mta, tmp_path):
    path = tmp_path / "elsewhere" / "01_projection.py"
    path.parent.mkdir()
    solve(path)
    code, out, _ = mta("exercise", "check", path)
    assert code == 0 and "01_projection.py" in out.splitlines()[1]
    assert not (tmp_path / "exercises-work").exists()


def test_a_syntax_error_has_a_name_of_its_own_and_a_caret(mta, tmp_path):
    mta("exercise", "start", "1")
    text = FIRST.text.replace("grad_h = np.zeros_like(h)", "grad_h = (np.zeros_like(h)")
    (tmp_path / COPY).write_text(text)
    code, out, _ = mta("exercise", "check", "1")
    assert code == 1 and "  WRONG  the file is valid Python\n" in out and "follows" not in out
    where = f"         {COPY}:29: SyntaxError: '(' was never closed\n"
    line = " " * 13 + "grad_h = (np.zeros_like(h)\n"
    assert where + "\n" + line + " " * (13 + len("grad_h = ")) + "^\n" in out
    (part,) = json.loads(mta("exercise", "check", "1", "--json")[1])["parts"]
    assert part["name"] == "the file is valid Python" and f"{COPY}:29" in part["text"]


@pytest.mark.slow
def test_after_a_failed_check_the_next_is_the_one_that_failed(mta, tmp_path):
    for number in ("3", "5"):
        mta("exercise", "start", number)
    again = "next: 03 Softmax\n  python -m minitorch_attn exercise\nfirst unsolved: 01 "
    assert again in mta("exercise", "check", "3")[1]
    assert again in mta("exercise", "list")[1]
    assert "05 of 58" in mta("exercise", "check", "exercises-work/05_slots.py")[1]
    assert json.loads(mta("exercise", "--json")[1])["exercise"] == "05_slots"
    assert again in mta("exercise", "check", "--all")[1]  # the first that failed
    mta("exercise", "hint", "5")
    assert "05 Softmax over the queries" in mta("exercise", "list")[1].split("next: ")[1]


def test_a_file_from_elsewhere_is_checked_and_not_gone_on_with(mta, tmp_path):
    mta("exercise", "start", "5")
    (tmp_path / "03_softmax.py").write_text(find_exercise("3").text)
    code, out, _ = mta("exercise", "check", "03_softmax.py")
    assert code == 1 and "next: 05 " in out


def test_an_error_is_told_once(mta):
    mta("exercise", "start", "25")
    out = mta("exercise", "check", "25")[1]
    assert out.count("ShapeError") == 1 and out.count("the same error") == 2
    assert "WRONG  5 queries and 7 keys" in out and "all 3 gradients agree" in out


def test_what_is_not_written_is_named_by_its_line(mta):
    mta("exercise", "start", "26")
    out = mta("exercise", "check", "26")[1]
    source = find_exercise("26").text.splitlines()
    (line,) = (i for i, text in enumerate(source, 1) if "raise NotImplementedError(" in text)
    assert f"line {line} is not written yet: dL/dx, of the shape of y" in out
    assert "\nnot yet\n" in out and "Traceback" not in out


def test_the_overview_names_the_next_exercise(mta):
    assert "exercises 0 of 58 solved" in mta()[1]
    mta("exercise", "start", "7")
    overview = mta()[1]
    assert "0 of 58 solved; next: 07 A branch with a learned gain; first unsolved: 01" in overview
    listed = mta("exercise", "list")[1]
    assert "first unsolved: 01 Queries, keys and values\n" in listed
    assert listed.endswith("exercise start 01\n")


@pytest.mark.slow
def test_the_guess_of_the_gradient_check_is_the_last_hint(mta):
    mta("exercise", "start", "1")
    for count in (1, 2, 3):
        out = mta("exercise", "hint", "1")[1]
        assert out.count("hint ") == count and "guesses" not in out
        assert f"hint {count} of 4" in out  # as in a terminal, where the guess counts too
    out = mta("exercise", "hint", "1")[1]
    assert "hint 4 of 4: the gradient check guesses at the cause:" in out and "h: " in out
    assert "begun, 4 hints" in mta("exercise", "list")[1]
    assert "guesses" not in mta("exercise", "check", "1")[1]


class Terminal:
    """`mta exercise` in a terminal of its own."""

    def __init__(self, folder, **settings):
        pty = pytest.importorskip("pty")
        self.child, self.file = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.environ.update({"TERM": "xterm", "COLUMNS": "80", **settings})
            root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
            os.environ["PYTHONPATH"] = root
            os.execv(sys.executable, [sys.executable, "-m", "minitorch_attn", "exercise"])
        self.seen = ""

    def wait_for(self, words, seconds=200):
        """Read until the words have come; what came since the last call."""
        end = time.monotonic() + seconds
        while words not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.file], [], [], 0.2)[0]:
                self.seen += os.read(self.file, 65536).decode("utf-8", "replace")
        found, self.seen = self.seen, ""
        return found

    def press(self, key):
        os.write(self.file, key.encode())

    def leave(self):
        self.press("q")
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


@pytest.mark.slow
def test_on_a_terminal_it_watches(tmp_path, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal(tmp_path)
    waiting = "projection.py to be saved"
    first = terminal.wait_for(waiting)
    assert "WRONG" in first and "h: hint   l: list   n: next" in first and "\x1b[1;31m" in first
    terminal.press("h")
    assert "hint 1 of 4" in terminal.wait_for(waiting)
    terminal.press("l")
    assert "begun, 1 hint" in terminal.wait_for(waiting)
    part = tmp_path / "part"  # as editors do: write beside, then replace
    part.write_text(FIRST.solved)
    part.replace(tmp_path / COPY)
    solved = terminal.wait_for(waiting)
    assert "exercise 01 is solved." in solved and "1 of 58 solved" in solved
    terminal.press("n")
    assert "exercise 02 of 58" in terminal.wait_for("pair_bias.py to be saved")
    assert terminal.leave() == 0


def test_no_color_on_a_terminal(tmp_path):
    terminal = Terminal(tmp_path, NO_COLOR="1")
    shown = terminal.wait_for("to be saved")
    assert "WRONG" in shown and "\x1b[1;31m" not in shown and "\x1b[32m" not in shown
    os.write(terminal.file, b"\x03")  # Ctrl-C
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.child, 0)[1]) == 0
