"""Every format matches the documentation of its tool, with hostile text in every field."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET

import pytest
from grader.report.conftest import SECRET, bad, failed, good, unread

from minitorch_attn.errors import ArgumentError
from minitorch_attn.grader.report.github import workflow
from minitorch_attn.grader.report.grades import grades, safe
from minitorch_attn.grader.report.gradescope import gradescope
from minitorch_attn.grader.report.junit import junit
from minitorch_attn.grader.report.prairielearn import prairielearn


def test_csv_has_a_line_for_each_and_a_column_for_each_entry(results):
    rows = list(csv.DictReader(io.StringIO(grades(results))))
    assert [row["score"] for row in rows] == ["7", "2", "0", "", ""]
    assert [row["status"] for row in rows] == [
        "graded", "graded", "not readable", "not graded", "not graded",
    ]  # fmt: skip
    assert [rows[0][name] for name in ("forward", "backward", "large")] == ["2", "3.5", "1.5"]
    assert [row["folder"] for row in rows][::4] == ["Ada.zip", "'+Late.zip"]
    assert {row["sandbox"] for row in rows[:4]} == {"3"} and {row["max"] for row in rows} == {"7"}


def test_no_cell_of_the_csv_is_a_formula(results):
    cells = [cell for row in csv.reader(io.StringIO(grades(results))) for cell in row]
    assert "'=HYPERLINK(1)" in cells and "'+Late" in cells
    assert not [cell for cell in cells if cell[:1] in set("=+-@\t\r＝＋－＠")]


@pytest.mark.parametrize("text", ["=1", " =1", "\t=1", "\x00=1", "+1", "-1", "@a", "＝1", "\n=1"])
def test_formulas_are_made_text(text):
    assert safe(text).startswith("'")


def test_junit_counts_what_it_holds(results):
    root = ET.fromstring(junit(results))
    assert root.tag == "testsuites"
    assert [suite.tag for suite in root] == ["testsuite"] * 5
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.get("tests")) == len(cases) > 0
        for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(kind)) == len(suite.findall(f"testcase/{tag}"))
        assert all(case.get("classname") == "softmax" and case.get("name") for case in cases)
    # As the JUnit schema of Ant and Jenkins has it: no time zone.
    stamps = [suite.get("timestamp") for suite in root if suite.get("timestamp")]
    assert stamps and all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", s) for s in stamps)
    ada, nasty, nobody, zoe, late = root
    assert not ada.findall("testcase/*")
    assert (nasty.get("failures"), nasty.get("errors")) == ("1", "1")  # a time-out is an error
    assert nobody.get("skipped") == "3"
    assert zoe.get("errors") == late.get("errors") == "1"
    properties = {p.get("name"): p.get("value") for p in ada.findall("properties/property")}
    assert properties["sandbox"] == "3" and properties["score"] == "7.0"


def test_junit_keeps_the_text_of_a_message(results):
    (failure,) = ET.fromstring(junit(results)).findall("testsuite/testcase/failure")
    assert "<script>alert(1)</script> ]]>" in failure.text and "数" in failure.text
    assert "�" in failure.text  # XML has no place for a form feed


# gradescope-autograders.readthedocs.io, "Output format"
TOP = {
    "score", "execution_time", "output", "output_format", "test_output_format",
    "test_name_format", "visibility", "stdout_visibility", "extra_data", "tests", "leaderboard",
}  # fmt: skip
TEST = {
    "score", "max_score", "status", "name", "name_format", "number", "output", "output_format",
    "tags", "visibility", "extra_data",
}  # fmt: skip
VISIBILITIES = {"hidden", "after_due_date", "after_published", "visible"}


@pytest.mark.parametrize("make", [good, bad, unread, failed])
def test_gradescope(make):
    found = gradescope(make())
    assert set(found) <= TOP and found["stdout_visibility"] == "hidden"
    assert "sandbox level 3" in found["output"]
    if make is failed:  # the fault of the grader is not a score
        assert "score" not in found and found["tests"] == []
        return
    assert found["score"] == make()["score"]
    assert found["extra_data"]["sandbox"] == 3
    for test in found["tests"]:
        assert set(test) <= TEST and test["status"] in ("passed", "failed")
        assert test["visibility"] in VISIBILITIES and test["output_format"] == "text"
        assert 0 <= test["score"] <= test["max_score"]
    assert sum(test["score"] for test in found["tests"]) == found["score"]
    json.dumps(found, allow_nan=False)


def test_gradescope_shows_hidden_entries_after_publication_and_their_messages_never():
    found = gradescope(bad())
    seen = [test["visibility"] for test in found["tests"]]
    assert seen == ["visible", "visible", "after_published"]
    assert SECRET not in json.dumps(found)
    assert "2.0 times" in found["tests"][1]["output"]


def test_gradescope_says_when_there_is_no_mark():
    assert "not a grade" in gradescope(failed())["output"]
    assert "work.py is missing" in gradescope(unread())["output"]


def test_prairielearn():
    found = prairielearn(bad())
    assert found["score"] == pytest.approx(2 / 7) and found["gradable"] is True
    for test in found["tests"]:
        assert set(test) <= {
            "name", "description", "points", "max_points", "message", "output", "images",
        }  # fmt: skip
    assert sum(test["points"] for test in found["tests"]) == 2
    assert SECRET not in json.dumps(found)
    assert prairielearn(good())["score"] == 1.0


def test_prairielearn_counts_no_attempt_for_what_could_not_be_graded():
    assert prairielearn(unread())["gradable"] is False
    assert prairielearn(unread())["format_errors"] == ["work.py is missing"]
    assert prairielearn(failed())["gradable"] is False


def test_prairielearn_stays_below_what_it_takes():
    made = bad()
    made["checks"] *= 300
    made["checks"] = [{**c, "message": "数" * 5000} for c in made["checks"]]
    assert len(json.dumps(prairielearn(made)).encode()) <= 1_000_000


def test_the_workflow_grades_and_reads_the_results(results):
    text = workflow("attention", "0.1.0")
    assert "minitorch-attn==0.1.0" in text and "course grade attention submissions" in text
    assert "--require-sandbox 2" in text and "results/results.json" in text
    assert "contents: read" in text and "persist-credentials: false" in text
    script = text.split("        run: |\n          import json")[1].split("      - uses")[0]
    compile("import json" + script.replace("\n          ", "\n"), "grade.yml", "exec")
    with pytest.raises(ArgumentError):
        workflow("x; rm -rf /", "0.1.0")
