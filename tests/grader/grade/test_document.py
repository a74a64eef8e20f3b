"""Reading the grader's documents rejects every other document."""

import json

import pytest
from grader.report.conftest import SECRET, bad, good, results  # noqa: F401

from minitorch_attn.errors import DataError
from minitorch_attn.files import write_json
from minitorch_attn.grader.grade.document import checked, hidden_part, read_document
from minitorch_attn.grader.report.results import read_results, statistics


def test_a_document_comes_back_as_it_was_written(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, bad())
    assert read_document(path) == bad()


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version_is_refused(version):
    with pytest.raises(DataError, match="version must be 1"):
        checked({**good(), "version": version})


PLACES = [(key,) for key in good() if key != "version"]
PLACES += [("submission", key) for key in ("name", "digest", "files", "problems")]
PLACES += [("grader", "sandbox"), ("assignment", "points")]
PLACES += [("checks", 0, key) for key in ("name", "hidden", "points", "status", "message")]


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("wrong", ["missing", "of another type"])
def test_what_is_missing_or_of_another_type_is_refused(place, wrong):
    made = good()
    table = made
    for key in place[:-1]:
        table = table[key]
    if wrong == "missing":
        del table[place[-1]]
    else:
        table[place[-1]] = None
    with pytest.raises(DataError, match=str(place[-1])):
        checked(made)


@pytest.mark.parametrize(
    ("key", "value"),
    [("points", 99.0), ("points", -1.0), ("status", "excellent"), ("points", True)],
)
def test_impossible_entries_are_refused(key, value):
    made = good()
    made["checks"][0][key] = value
    with pytest.raises(DataError):
        checked(made)


def test_a_score_that_is_not_the_sum_is_refused():
    with pytest.raises(DataError, match="sum"):
        checked({**good(), "score": 7.5})


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"'])
def test_damaged_files_are_refused(tmp_path, text):
    for name, read in (("a.json", lambda p: read_document(p)), ("results.json", None)):
        (tmp_path / name).write_text(text)
        with pytest.raises(DataError):
            read(tmp_path / name) if read else read_results(tmp_path)


def test_a_class_is_checked_to_the_last_document(tmp_path, results):  # noqa: F811
    write_json(tmp_path / "results.json", results)
    assert read_results(tmp_path) == results
    results["submissions"][1]["checks"][1]["points"] = 3.5
    write_json(tmp_path / "results.json", results)
    with pytest.raises(DataError, match="submission 2"):
        read_results(tmp_path)


def test_no_results_yet(tmp_path):
    with pytest.raises(DataError, match="results.json is missing"):
        read_results(tmp_path)


def test_of_a_hidden_entry_only_the_end_is_shown():
    shown, hidden = map(hidden_part, bad()["checks"][1:])
    assert shown["message"] and shown["gradcheck"]
    assert SECRET not in json.dumps(hidden) and hidden["status"] == "timeout"


def test_statistics_leave_out_what_the_grader_failed_at(results):  # noqa: F811
    found = statistics(results)
    assert found["scores"] == [0.0, 2.0, 7.0] and found["median"] == 2.0 and found["mean"] == 3.0
    passed = {entry["name"]: (entry["passed"], entry["of"]) for entry in found["entries"]}
    assert passed == {"forward": (2, 3), "backward": (1, 3), "large": (1, 3)}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, -1.0])
@pytest.mark.parametrize("field", ["score", "max_score", "seconds"])
def test_numbers_that_are_none(field, value):
    with pytest.raises(DataError, match=f"the value of {field} is invalid"):
        checked({**good(), field: value})


@pytest.mark.parametrize("field", ["first_step", "first_difference", "gradcheck"])
def test_details_of_another_type(field):
    made = good()
    made["checks"][0][field] = 5
    with pytest.raises(DataError, match=field):
        checked(made)
