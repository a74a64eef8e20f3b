"""The notebook of the build: its cells, the learner's file that they fill, and what checks say."""

import io
import itertools
import linecache
import re

import pytest
from course.test_build import COMPOSED, STEPS, WRONG, up_to

from minitorch_attn.course.build import notebook
from minitorch_attn.course.build.cell_source import CellSource, function_text, with_function
from minitorch_attn.course.build.make_notebook import build_notebook
from minitorch_attn.course.build.notebook import Build
from minitorch_attn.course.build.progress import BuildProgress
from minitorch_attn.course.build.steps import header
from minitorch_attn.course.build.work_file import WorkFile
from minitorch_attn.course.notebooks import execute
from minitorch_attn.course.your_turn import CheckFailed

nbformat = pytest.importorskip("nbformat")
FUNCTIONS = {item.name: item for step in STEPS for item in step.functions}
SOME_WRONG = [next(case for case in WRONG if case[0] == n) for n in (1, 2, 3, 5, 8)]
START = """\
import math
import numpy as np
from minitorch_attn.course.build.notebook import Build
build = Build(globals(), "my_gpt.py")
add_to, check, given = build.add_to, build.check, build.given
"""


def answer_of(name, text=None):
    """The cell of a function."""
    head, _, _ = name.rpartition(".")
    text = FUNCTIONS[name].answer if text is None else function_text(text, name)
    return f"@add_to({head})\n{text}" if head else text


@pytest.fixture(autouse=True)
def in_a_folder(request, tmp_path, monkeypatch):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("the build runs in NumPy and is tested once")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MTA_STATE", str(tmp_path / "state"))


@pytest.fixture
def kernel():
    """kernel() -> a new function that runs cells as a notebook's kernel does, and its names."""
    numbers = itertools.count()

    def start(first=START):
        names = {"__name__": "__main__"}

        def run(text):
            file = f"<cell {next(numbers)}>"
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
            exec(compile(text, file, "exec"), names)

        run(first)
        return run, names

    return start


@pytest.fixture
def file(tmp_path):
    return tmp_path / "my_gpt.py"


# The notebook


def test_every_function_has_a_cell_a_check_a_hint_and_an_answer():
    made = build_notebook()
    nbformat.validate(made)
    texts = [cell.source for cell in made.cells]
    for name, item in FUNCTIONS.items():
        at = texts.index(f'check("{name}")')
        task, stub, _, answer = made.cells[at - 2 : at + 2]
        assert f"`{name}`" in task.source and f"\n\n{item.hint}\n\n</details>" in task.source
        head = f"@add_to({name.partition('.')[0]})\n" if "." in name else ""
        assert stub.source == f"{head}{item.stub}\n    raise NotImplementedError"
        assert f"<summary>Answer</summary>\n\n```python\n{head}{item.answer}" in answer.source
        assert "raises-exception" in made.cells[at].metadata.tags
    for step in STEPS:
        (heading,) = (text for text in texts if text.startswith(f"## Step {step.number}: "))
        assert step.text in heading and f"About {step.minutes} minutes." in heading
        assert f"build.demonstrate({step.number})" in texts
        for part in step.short.values():
            assert f"; {part['minutes']} minutes {part['part']}, which is enough here)" in heading
    sample = 'build.sample("The class ", length=400)'
    assert texts[-5:][::2] == ["build.train()", sample, "build.trace()"]
    assert [len(text.split("@given\n")) - 1 for text in texts].count(1) == 3


def test_what_is_written_in_the_file_is_filled_in():
    made = build_notebook("mine.py", up_to(STEPS[1]))
    texts = [cell.source for cell in made.cells]
    assert answer_of("Tensor.sum") in texts and answer_of("unbroadcast") in texts
    assert FUNCTIONS["softmax"].stub + "\n    raise NotImplementedError" in texts
    assert 'Build(globals(), "mine.py")' in texts[1]


def test_with_answers_nothing_is_remembered_and_no_cell_may_fail():
    made = build_notebook(answers=True)
    texts = [cell.source for cell in made.cells]
    assert all(answer_of(name) in texts for name in FUNCTIONS)
    assert "remember=False" in texts[1]
    assert not any("raises-exception" in cell.metadata.get("tags", ()) for cell in made.cells)


# A cell's function in the file


def test_a_function_is_replaced_and_everything_else_stays():
    text = (
        "import numpy\n\n\nclass A:\n    # one\n\n    @once\n    def f(self):\n        return 1\n"
    )
    text += "\n    def g(self):\n        return 2\n\n\nx = 1  # mine\n"
    found = with_function(text, "A.f", CellSource("def f(self):\n    # new\n    return 3", 1))
    assert found == text.replace("    @once\n", "").replace("return 1", "# new\n        return 3")
    added = with_function(text, "A.h", CellSource("def h(self):\n    pass", 1))
    assert added == text.replace("return 2\n", "return 2\n\n    def h(self):\n        pass\n")
    assert with_function(text, "B.h", CellSource("def h(self):\n    pass", 1)) == text
    assert with_function("x = 1\n", "h", CellSource("def h(): 0", 1)) == "x = 1\n\n\ndef h(): 0\n"


@pytest.mark.slow
def test_what_the_function_uses_from_its_cell_comes_along(kernel, file):
    run, _ = kernel()
    run("import os\nEND, unused = '', 5\nprint(unused)\ndef glue(parts):\n"
        "    return END.join(parts)\n\n\ndef vocabulary(text):\n    return glue(sorted(set(text)))"
        "\n\n\nfor c in vocabulary('ab'): pass\n")  # fmt: skip
    run('check("vocabulary")')
    text = file.read_text("utf-8")
    assert text.index("END, unused") < text.index("def glue") < text.index("def vocabulary")
    assert "print(" not in text and "import os" not in text and "for c in vocab" not in text
    run("END = ''\ndef glue(p):\n    return END.join(p)\n\n\ndef vocabulary(text):\n"
        "    return glue(sorted(set(text)))")  # fmt: skip
    run('check("vocabulary")')
    assert file.read_text("utf-8").count("def glue(") == 1


def test_a_cell_without_a_body_never_replaces_a_function(kernel, file, capsys):
    file.write_text(up_to(STEPS[2]), encoding="utf-8")
    run, _ = kernel()
    empty = FUNCTIONS["softmax"].stub + "\n    raise NotImplementedError"
    assert WorkFile(file).put({"softmax": CellSource(empty, 1)}, {}) is None
    run(empty)
    run('check("softmax")')
    assert file.read_text("utf-8") == up_to(STEPS[2])
    said = capsys.readouterr().out
    assert (
        "This is softmax in my_gpt.py: the function in the cell above is not written yet." in said
    )


@pytest.mark.slow
def test_a_version_that_was_edited_in_the_file_is_kept_in_a_copy(kernel, file, capsys):
    run, _ = kernel()
    run("def vocabulary(text):\n    return text")
    with pytest.raises(CheckFailed):
        run('check("vocabulary")')
    run(answer_of("vocabulary"))
    run('check("vocabulary")')  # the cell's own former version needs no copy
    assert not list(file.parent.glob("*.bak"))
    edited = file.read_text("utf-8").replace("sorted(set(text))", "sorted({*text})")
    file.write_text(edited, encoding="utf-8")
    capsys.readouterr()
    run('check("vocabulary")')  # the cell has not run again: the file counts
    assert "my_gpt.py, which differs from its cell: run the cell to use" in capsys.readouterr().out
    assert file.read_text("utf-8") == edited and not list(file.parent.glob("*.bak"))
    run(answer_of("vocabulary"))
    run('check("vocabulary")')
    (copy,) = file.parent.glob("*.bak")
    assert copy.read_text("utf-8") == edited and "sorted(set" in file.read_text("utf-8")
    assert f"that version is in {copy.name}" in capsys.readouterr().out


@pytest.fixture
def shell():
    """IPython itself, which tells how a cell ended."""
    interactive = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    made = interactive.instance()
    made.history_manager.enabled = False
    yield made
    interactive.clear_instance()


@pytest.mark.kernel
@pytest.mark.slow
def test_a_check_says_that_the_last_run_of_a_cell_failed(shell, file, capsys, monkeypatch):
    file.write_text(up_to(STEPS[6]), encoding="utf-8")
    shell.run_cell(START)

    def said(text):
        capsys.readouterr()
        result = shell.run_cell(text)
        return capsys.readouterr().out + str(result.error_in_exec or "")

    shell.run_cell(answer_of("gelu"))
    assert said('check("gelu")').endswith("float32 ✓\n")
    shell.run_cell(answer_of("gelu").replace("t = np.tanh(", "t = np.tanh(("))
    earlier = "This is gelu in my_gpt.py, an earlier version: the last run of its cell ended with a"
    found = said('check("gelu")')
    assert f"float32 ✓\n{earlier}\nSyntaxError in line " in found and "was never closed" in found
    monkeypatch.setattr(notebook, "demonstrate", lambda *arguments: None)
    assert earlier in said("build.demonstrate(7)")
    shell.run_cell("gone()\n" + answer_of("gelu").replace("0.5 * a", "a"))
    assert f"{earlier}\nNameError: name 'gone' is not defined" in said('check("gelu")')
    shell.run_cell(answer_of("gelu") + "\n\n\ngone()")  # the error comes after the function
    assert "earlier" not in said('check("gelu")')
    shell.run_cell(START)  # a second object replaces the first one
    callbacks = shell.events.callbacks["post_run_cell"]
    assert sum("FailedCells" in repr(callback) for callback in callbacks) == 1
    shell.run_cell("@add_to(Value)\ndef log(self:\n    return 1")
    assert "This is Value.log in my_gpt.py, an earlier version" in said('check("Value.log")')


@pytest.mark.kernel
def test_a_stub_whose_cell_has_a_syntax_error_is_not_only_called_unwritten(shell, file):
    shell.run_cell(START)
    shell.run_cell("def vocabulary(text:\n    return text")
    error = shell.run_cell('check("vocabulary")').error_in_exec
    assert "vocabulary is not written yet\n  cell      SyntaxError in line 1: " in str(error)


# Cells run in any order, twice, or in a new kernel


@pytest.mark.slow
def test_cells_run_in_any_order_and_twice(kernel, file, capsys):
    run, names = kernel()
    given = f"@given\n{STEPS[0].given['Value']}"
    run(given)
    with pytest.raises(CheckFailed, match=r"Value.log cannot be checked before Value.__init__"):
        run(answer_of("Value.log"))
        run('check("Value.log")')
    value = names["Value"]
    for name in reversed([item.name for item in STEPS[0].functions]):
        run(answer_of(name))
    run(given)
    assert names["Value"] is value and (value(3.0) * 2.0).data == 6.0
    run("@add_to(Value)\ndef sum(self): pass")
    assert names["sum"] is sum
    run(answer_of("encode") + "\n\n\n" + answer_of("decode"))  # two in one cell
    run('check("decode")\ncheck("Value.log")\ncheck("Value.lift")')
    said = capsys.readouterr().out.splitlines()[-2:]
    assert said == ["Value.log: values ✓  gradients ✓", "Value.lift: values ✓"]
    run("build.demonstrate(1)")
    out = capsys.readouterr().out
    assert "step 1 is done. A neuron of your Values learns OR.\n\n  loss after   0 steps" in out
    assert BuildProgress().current(STEPS) is STEPS[1] and BuildProgress().file == file


def test_a_new_kernel_has_what_the_file_contains(kernel, file, capsys):
    file.write_text(up_to(STEPS[3]) + "\nif __name__ == '__main__':\n    1 / 0\n", "utf-8")
    run, names = kernel()
    out = capsys.readouterr().out
    assert "24 of 41 functions are written, 0 have passed: continue with Value.__init__" in out
    assert "could not be loaded" not in out
    run("assert float(softmax(Tensor(np.zeros(2))).data[0]) == 0.5")
    run(answer_of("linear"))
    run('check("linear")')
    text = file.read_text("utf-8")
    assert FUNCTIONS["linear"].answer in text and "# Step 5" in text and "# Step 6" not in text


@pytest.mark.slow
def test_a_new_kernel_says_how_many_functions_have_passed(kernel, file, capsys):
    run, _ = kernel()
    run("@given\n" + STEPS[0].given["Value"])
    for name in ("Value.__init__", "Value.backward", "Value.lift", "Value.__add__"):
        run(answer_of(name).replace("0.0\n", "1.0\n") if "init" in name else answer_of(name))
    with pytest.raises(CheckFailed):
        run('check("Value.__init__")')
    kernel()
    said = capsys.readouterr().out.splitlines()[-2:]
    assert said[0] == "Your file: my_gpt.py"
    assert said[1].startswith("4 of 41 functions are written, 0 have passed: continue with Value._")
    run(answer_of("Value.__init__"))
    run('check("Value.__init__")')
    kernel()
    out = capsys.readouterr().out
    assert "1 have passed: continue with Value.backward in step 1." in out
    file.write_text(file.read_text("utf-8").replace("self.data, self.grad", "self.grad, self.data"))
    kernel()
    assert "0 have passed: continue with Value.__init__" in capsys.readouterr().out
    file.write_text(up_to(STEPS[0]))
    BuildProgress().finish_step(STEPS[0])
    run('check("Value.__init__")')
    kernel()
    assert "8 have passed: continue with unbroadcast in step 2" in capsys.readouterr().out


@pytest.mark.slow
def test_an_earlier_function_that_fails_is_named_first(kernel, file):
    wrong = STEPS[0].answer.replace("self.parents, self.pull = parents, pull",
                                    "self.parents, self.pull = (), pull")  # fmt: skip
    file.write_text(up_to(STEPS[0], wrong), "utf-8")
    run, _ = kernel()
    with pytest.raises(CheckFailed) as caught:
        run('check("Value.__mul__")')
    first = "Value.__init__ has not passed yet: check it before Value.__mul__"
    assert str(caught.value).startswith(first)
    run(answer_of("Value.__init__"))
    run('check("Value.__init__")\ncheck("Value.__mul__")')


@pytest.mark.slow
def test_a_hint_has_a_row_of_its_own_and_what_passed_is_listed(kernel, file, capsys):
    file.write_text(up_to(STEPS[2]), "utf-8")
    run, _ = kernel()
    run(answer_of("cross_entropy", STEPS[2].answer.replace("-chosen.mean()", "-chosen.sum()")))
    with pytest.raises(CheckFailed) as caught:
        run('check("cross_entropy")')
    lines = str(caught.value).splitlines()
    assert any(line.startswith("  hint      the result is 15 times") for line in lines)
    assert max(map(len, lines)) < 100
    file.write_text(up_to(STEPS[7]), "utf-8")
    run('check("Adam.step")')
    said = capsys.readouterr().out.splitlines()[-2:]
    assert said[0] == "Adam.step: values ✓  float32 ✓"
    assert (
        said[1]
        == "This is Adam.step in my_gpt.py: no cell has defined it since the kernel started."
    )


@pytest.mark.slow
def test_a_helper_of_another_cell_is_named(kernel, file):
    file.write_text(up_to(STEPS[3], STEPS[3].stub), "utf-8")
    run, _ = kernel()
    run("def glue(parts):\n    return ''.join(parts)")
    run("def vocabulary(text):\n    return glue(sorted(set(text)))")
    with pytest.raises(CheckFailed) as caught:
        run('check("vocabulary")')
    text = " ".join(str(caught.value).split())
    assert "glue is in another cell: move it into the cell of vocabulary" in text
    run("def vocabulary(text):\n    return glu(sorted(set(text)))")
    with pytest.raises(CheckFailed) as caught:
        run('check("vocabulary")')
    assert "another cell" not in str(caught.value)
    assert "4. A helper function" in build_notebook().cells[0].source


def test_a_file_that_cannot_be_read_is_named_and_left_alone(kernel, file):
    run, _ = kernel()
    file.write_text("def (", encoding="utf-8")
    run(answer_of("vocabulary"))
    with pytest.raises(CheckFailed, match="my_gpt.py is not valid Python"):
        run('check("vocabulary")')
    with pytest.raises(CheckFailed, match="my_gpt.py:1: SyntaxError"):
        Build({})
    assert file.read_text("utf-8") == "def ("
    file.write_text(header() + "\n1 / 0\n", encoding="utf-8")
    kernel()


def test_functions_of_the_library_do_not_count(kernel):
    run, _ = kernel()
    run("from minitorch_attn import softmax")
    with pytest.raises(CheckFailed, match=r"(?s)softmax is not written yet.*no cell defines"):
        run('check("softmax")')
    run("import minitorch_attn as mt\ndef softmax(x):\n    return mt.softmax(x, -1)")
    with pytest.raises(CheckFailed, match="imports minitorch_attn: write the function yourself"):
        run('check("softmax")')


# What a check says


@pytest.mark.parametrize(("number", "old", "new", "name", "words"), SOME_WRONG)
@pytest.mark.slow
def test_a_wrong_answer_is_caught(number, old, new, name, words, kernel, file, forks):
    step = STEPS[number - 1]
    file.write_text(up_to(step), encoding="utf-8")
    wrong = step.answer.replace(old, new, 1 if number == 1 else -1)
    run, _ = kernel()
    run(answer_of(name, wrong))
    with pytest.raises(CheckFailed) as caught:
        run(f'check("{name}")')
    lines = caught.value._render_traceback_()
    assert lines[0] == f"{name} is wrong" and len(lines) < 12
    assert re.search(words, " ".join(" ".join(lines).split()), re.S), lines


def test_an_error_names_the_line_of_the_cell(kernel, file):
    file.write_text(up_to(STEPS[2]), encoding="utf-8")
    run, _ = kernel()
    run("# mine\n\ndef softmax(x):\n    y = np.ex(x.data)\n    return y")
    with pytest.raises(CheckFailed, match=r"line 4 of the cell of softmax: y = np.ex\(x.data\)"):
        run('check("softmax")')
    run(COMPOSED.strip())
    run('check("softmax")')  # another way to write it


@pytest.mark.slow
def test_what_needs_more_steps_names_what_is_missing(kernel, file):
    file.write_text(up_to(STEPS[6], STEPS[6].stub), encoding="utf-8")
    run, _ = kernel()
    for call in ("build.train()", "build.sample()", "build.trace()", "build.demonstrate(7)"):
        with pytest.raises(CheckFailed, match=r"(?s)step 7 is not finished.*to write .*layer_norm"):
            run(call)
    file.write_text(up_to(STEPS[7]), encoding="utf-8")
    with pytest.raises(CheckFailed, match="not trained yet"):
        run("build.sample()")
    with pytest.raises(CheckFailed, match="'soft' is not a function of the build"):
        run('check("soft")')


@pytest.mark.slow
def test_stopping_the_training_ends_its_process(kernel, file, monkeypatch, capsys):
    file.write_text(up_to(STEPS[7]), encoding="utf-8")
    run, names = kernel()

    class Child:
        stdout, ended = io.StringIO("step 0\n"), []

        def wait(self):
            raise KeyboardInterrupt if not self.ended else None

        def kill(self):
            self.ended.append(True)
            self.wait = lambda: -9

    monkeypatch.setattr(notebook.subprocess, "Popen", lambda *a, **k: Child())
    run("build.train(steps=2)")
    assert Child.ended and Child.stdout.closed
    assert capsys.readouterr().out.endswith("step 0\nstopped\n")


# In a kernel


@pytest.mark.kernel
@pytest.mark.slow
def test_the_unanswered_notebook_says_what_to_write(tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    made = build_notebook()
    made.cells = made.cells[:38]  # step 1
    assert execute(made, tmp_path, fast=True) is None
    said = [out for cell in made.cells for out in cell.get("outputs", ()) if out.get("traceback")]
    assert len(said) == 9
    for error in said:
        assert error.ename == "CheckFailed" and len(error.traceback) <= 4
        assert not any("Traceback" in line for line in error.traceback)
    assert said[0].traceback[0] == "Value.__init__ is not written yet"


@pytest.mark.slow
@pytest.mark.kernel
def test_with_answers_the_notebook_runs_from_top_to_bottom(tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    made = build_notebook(answers=True)
    assert execute(made, tmp_path, fast=True, timeout=300) is None
    said = {cell.source: "".join(out.get("text", "") for out in cell.get("outputs", ()))
            for cell in made.cells}  # fmt: skip
    for name in FUNCTIONS:
        assert f"{name}: values ✓" in said[f'check("{name}")']
    for step in STEPS:
        assert f"step {step.number} is done. " in said[f"build.demonstrate({step.number})"]
    assert "The difference between the two is 0.000" in said["build.train()"]
    assert "What it writes after 'The class '" in said['build.sample("The class ", length=400)']
    page = made.cells[-1].outputs[-1].data["text/html"]
    assert page.startswith("<iframe") and "def softmax" not in page and "softmax" in page
    assert BuildProgress().current(STEPS) is STEPS[0]
