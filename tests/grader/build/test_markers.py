"""nbgrader markers in files that instructors add."""

import json

import pytest

from minitorch_attn.errors import DataError
from minitorch_attn.grader.build.markers import released_notebook, released_text

TEXT = """def f(x):
    ### BEGIN SOLUTION
    y = x * 2
    return y
    ### END SOLUTION

assert f(1) == 2
# BEGIN HIDDEN TESTS
assert f(7) == 14
# END HIDDEN TESTS
assert True
"""


def test_solutions_and_hidden_tests_are_taken_out():
    assert released_text(TEXT, "f.py") == (
        "def f(x):\n    raise NotImplementedError()\n\nassert f(1) == 2\nassert True\n"
    )


def test_a_notebook_loses_them_and_its_outputs():
    cells = [
        {"cell_type": "code", "source": TEXT.splitlines(True), "outputs": [{"text": "y = x * 2"}],
         "execution_count": 3},
        {"cell_type": "markdown", "source": "text"},
    ]  # fmt: skip
    made = json.loads(released_notebook(json.dumps({"cells": cells}), "f.ipynb"))
    assert "x * 2" not in json.dumps(made)
    assert made["cells"][0]["outputs"] == [] and made["cells"][0]["execution_count"] is None
    assert made["cells"][1]["source"] == "text"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("### BEGIN SOLUTION\nx\n", "BEGIN SOLUTION without a matching END"),
        ("### END SOLUTION\n", "f.py:1: END SOLUTION without a matching BEGIN"),
        (
            "### BEGIN SOLUTION\n### BEGIN HIDDEN TESTS\n",
            "f.py:2: BEGIN HIDDEN TESTS must not be inside",
        ),
        (
            "### BEGIN SOLUTION\n### END HIDDEN TESTS\n",
            "f.py:2: END HIDDEN TESTS without a matching BEGIN",
        ),
    ],
)
def test_unpaired_markers_are_rejected(text, message):
    with pytest.raises(DataError, match=message):
        released_text(text, "f.py")


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "[]", "{}", '{"cells": 5}', '{"cells": [5]}', '{"cells": [{"source": 5}]}'],
)
def test_what_is_no_notebook(text):
    with pytest.raises(DataError, match=r"a\.ipynb"):
        released_notebook(text, "a.ipynb")
