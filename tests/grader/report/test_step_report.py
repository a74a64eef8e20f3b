"""The first differing step, as shown to students and instructors."""

import pytest
from grader.report.conftest import document, line
from grader.report.test_feedback import Page

from minitorch_attn.grader.grade.document import hidden_part
from minitorch_attn.grader.report.feedback import feedback
from minitorch_attn.grader.report.gradescope import gradescope
from minitorch_attn.grader.report.steps import beginnings, step_text, step_words

STEP = {
    "number": 15, "of": 15, "name": "sum_to_shape", "path": "", "own": False,
    "file": "minitorch_attn/ops/attention/fused.py", "line": 89,
    "text": "grad_key = sum_to_shape(grad_key, key.shape)", "what": "the result",
    "kind": "values", "index": [0, 2, 1], "got": "3.5", "expected": "1.75", "largest": "1.75",
    "count": 12, "size": 168, "sampled": False, "shape": [2, 7, 12], "dtype": "float64",
    "left": False, "given": "other", "in": "Attention.backward", "differ": ["grad_key"],
    "agree": ["grad_query", "grad_value"], "until": 87, "before": 10, "all_before": True,
    "forward": True,
}  # fmt: skip


def graded(step, hidden=False):
    wrong = line("backward", 0.0, 3.5, "failed", hidden, "grad_key is wrong", first_step=step)
    return document("Ada", [line("forward", 2.0, 2.0, "passed"), wrong])


def words(**changes):
    return " ".join(step_words({**STEP, **changes}))


def test_a_step_that_is_given_other_values():
    assert words() == (
        "The forward pass is correct. sum_to_shape gets different values than in the solution: the "
        "mistake is in lines 87 to 89 of Attention.backward. In the results of Attention.backward, "
        "grad_key is wrong, and grad_query and grad_value are correct. The 10 steps before it are "
        "correct."
    )
    assert "in line 89 of Attention.backward." in words(until=89)
    assert "in or before line 89 of Attention.backward." in words(until=None)
    assert "in this line or before it." in words(until=None, **{"in": ""})


def test_a_step_that_makes_the_difference():
    text = words(given="same", name="Tensor.reshape", path="blocks.0", all_before=False)
    assert "reshape (blocks.0) gets the correct values, but its result differs" in text
    assert "look at its other arguments" in text and " 10 steps before it are correct." in text
    own = words(given="same", own=True, name="Attention.backward", before=1, forward=False)
    assert "Attention.backward gets the correct values, but returns a wrong result." in own
    assert "up to line 87 are correct: the mistake is in that line or later." in own
    assert own.endswith("The 1 step before it is correct.")
    left = words(given="same", own=True, left=True, what="self", until=None, name="_Arrivals.add")
    assert "_Arrivals.add gets the correct values, but leaves wrong values in self." in left


def test_it_is_on_the_page_and_on_gradescope():
    page = "".join(Page(feedback(graded(STEP))).words)
    assert "First step that differs" in page and "line 89" in page
    for piece in (STEP["text"], "result[0, 2, 1]", "12 of 168 entries, by at most 1.75", "3.5"):
        assert piece in page
    output = gradescope(graded(STEP))["tests"][1]["output"]
    assert step_text(STEP) in output and "minitorch_attn/ops/attention/fused.py, line 89" in output


def test_a_wrong_shape_and_a_missing_result():
    shape = step_text({**STEP, "kind": "shape", "index": None, "got": "(2,)", "expected": "(3,)"})
    assert "shape of  result" in shape and "(2,)" in shape and "at most" not in shape
    missing = step_text({**STEP, "kind": "missing", "index": None, "got": "nothing"})
    assert "yours     nothing" in missing


def test_of_a_hidden_check_no_step_is_shown():
    secret = {**STEP, "text": "the hidden line", "got": "4.2424"}
    made = graded(secret, hidden=True)
    assert hidden_part(made["checks"][1])["first_step"] is None
    for shown in (feedback(made), str(gradescope(made))):
        assert "hidden line" not in shown and "4.2424" not in shown


def test_what_came_from_a_submission_is_text():
    tags = "<script>alert(1)</script>"
    made = graded({**STEP, "text": tags, "got": tags, "file": f"minitorch_attn/{tags}.py"})
    page = Page(feedback(made))
    assert "script" not in page.tags and "".join(page.words).count(tags) == 3


def test_the_class_is_counted_by_where_it_begins():
    own = {**STEP, "given": "same", "own": True, "name": "Attention.backward", "what": "grad_key"}
    documents = [graded(STEP), graded(STEP), graded(own), graded(None)]
    assert beginnings({"submissions": documents}) == [
        ("2", "Attention.backward", "at sum_to_shape"), ("1", "Attention.backward", "grad_key")
    ]  # fmt: skip
    # Once for a submission, however many of its checks begin there; older documents have none.
    documents[0]["checks"] *= 2
    del documents[3]["checks"][0]["first_difference"]
    assert beginnings({"submissions": documents})[0][0] == "2"
    assert beginnings({"submissions": [{"checks": [{"name": "old"}]}]}) == []


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_fits(browser, tmp_path, width):
    step = {**STEP, "text": "x = " + "y" * 150, "got": "z" * 200, "path": "a" * 120}
    (tmp_path / "page.html").write_text(feedback(graded(step)), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto((tmp_path / "page.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()
