"""`mta trace`: the script runs as usual, and everything is recorded, up to an error."""

import json
import re
import sys

import pytest

SCRIPT = """
import sys
import helper
import minitorch_attn as mt

print("name", __name__, "arguments", sys.argv[1:])
w = mt.ones(5, 7, requires_grad=True)
y = helper.twice(mt.ones(3, 5)) @ w
if "--fail" in sys.argv:
    y @ y
if "--exit" in sys.argv:
    sys.exit(3)
mt.nn.LayerNorm(7)(y).sum().backward()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("def twice(x):\n    return x * 2\n")
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    return tmp_path


def document(path):
    """The data that a page holds."""
    text = path.read_text()
    (found,) = re.findall(r"<script[^>]*application/json[^>]*>(.*?)</script>", text, re.S)
    return json.loads(found)


def test_it_writes_a_page_with_every_step(folder, mta):
    code, out, err = mta("trace", "model.py", "a", "--table", "-o", "b")
    assert (code, err) == (0, "")
    assert "name __main__ arguments ['a', '--table', '-o', 'b']" in out
    data = document(folder / "trace.html")
    assert data["title"] == "model.py"
    assert out.endswith("\n10 steps: open trace.html in a browser\n")
    assert [step["id"] for step in data["steps"]] == list(range(1, 11))
    forward = [step["op"] for step in data["steps"] if step["kind"] == "forward"]
    assert forward == ["Mul", "MatMul", "LayerNorm", "Sum"]
    assert data["steps"][0]["source"]["file"] == "helper.py"
    assert data["steps"][0]["source"]["text"][1].strip() == "return x * 2"


def test_options_stand_before_the_file(folder, mta):
    code, out, err = mta("trace", "-o", "sub.html", "--expand", "--max-steps", "9", "model.py")
    assert code == 0
    data = document(folder / "sub.html")
    assert len(data["steps"]) == 9 and data["skipped"] > 0 and "max_steps" in data["message"]
    assert "note: the recording is full" in err
    assert "Mean" in [step["op"] for step in data["steps"]]
    assert not (folder / "trace.html").exists()


def test_the_table_needs_no_page(folder, mta):
    code, out, err = mta("trace", "--table", "model.py")
    assert (code, err) == (0, "")
    assert "model.py: 10 steps, 4 forward and 6 backward" in out
    assert not list(folder.glob("*.html"))


def test_an_error_of_the_script_is_shown_and_what_ran_is_kept(folder, mta):
    code, out, err = mta("trace", "model.py", "--fail")
    assert code == 1
    assert "ShapeError" in err and 'model.py", line 10' in err
    assert "runpy" not in err and "cli/trace.py" not in err
    data = document(folder / "trace.html")
    assert [step["op"] for step in data["steps"]] == ["Mul", "MatMul"]
    assert "ShapeError" in data["message"] and "model.py:10" in data["message"]


def test_a_syntax_error_is_the_scripts_own(folder, mta):
    (folder / "model.py").write_text("x = (\n")
    code, out, err = mta("trace", "model.py")
    assert code == 1 and "SyntaxError" in err
    assert "did not run an operation" in err and not list(folder.glob("*.html"))


def test_the_exit_code_is_the_scripts(folder, mta):
    assert mta("trace", "model.py", "--exit")[0] == 3


def test_argv_and_path_are_put_back(folder, mta):
    before = list(sys.argv), list(sys.path)
    mta("trace", "model.py", "--fail")
    assert (sys.argv, sys.path) == before


def test_a_missing_file_is_wrong_usage(folder, mta):
    assert mta("trace", "nothing.py")[0] == 2


def test_lines_records_plain_numpy(mta, tmp_path):
    script = tmp_path / "plain.py"
    script.write_text("import numpy as np\nx = np.ones((2, 3))\ny = x.sum(axis=0) * 2.0\n")
    code, out, _ = mta("trace", "--lines", "--table", script)
    assert code == 0 and "plain.py: 2 steps, 2 forward and 0 backward" in out
    assert "y = x.sum(axis=0) * 2.0" in out
