"""Manifests are read and compared with the library; each error names its place."""

import numpy as np
import pytest

from minitorch_attn.errors import ArgumentError, DataError
from minitorch_attn.grader.build.assignment import (
    assignments,
    find_assignment,
    package_root,
    read_assignment,
)


def test_a_manifest(folder):
    made = read_assignment(folder)
    assert (made.name, made.points, made.version) == ("small", 5, 1)
    assert [blank.name for blank in made.blanks] == ["Softmax.forward", "Softmax.backward"]
    assert made.groups[1].body.startswith("return softmax")
    assert [entry.hidden for entry in made.checks] == [False, True]
    assert made.prose == "Write the softmax.\n"


def test_inputs_follow_from_the_seed(folder):
    made = read_assignment(folder)
    a, b, c = (made.checks_by_name(seed)["forward"][0].inputs["x"] for seed in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)
    assert list(made.checks_by_name(1, hidden=True)) == ["backward"]


def test_the_truth_is_a_softmax(folder):
    check = read_assignment(folder).checks_by_name(1)["forward"][0]
    e = np.exp(check.inputs["x"])
    assert np.allclose(check.expected["output"], e / e.sum(-1, keepdims=True))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "small"', 'name = "other"', "name does not match the folder name"),
        ("version = 1", "versoin = 1", "unknown key"),
        ("version = 1", "", "version is missing"),
        ("version = 1", "version = = 1", "is not valid TOML"),
        ("points = 3\norder = 2", "points = 4\norder = 2", "points of Softmax.backward must be"),
        ("points = 3\norder = 2", 'points = "3"\norder = 2', "must be a positive integer"),
        ("softmax:Softmax.backward", "softmax:Softmax.sideways", "does not define this function"),
        ("ops.softmax:Softmax.backward", "ops.hardmax:Softmax.backward", "module does not exist"),
        ("minitorch_attn.ops.softmax:softmin", "minitorch_attn.ops.softmax:Softmax.forward",
         "name the same function"),
        ('of = "Softmax.backward"', 'of = "Softmax.sideways"', "must be the sum"),
        ('name = "backward"', 'name = "forward"', "have the same name"),
        ('loses = ["backward"]', 'loses = ["sideways"]', "'loses' lists an unknown check"),
        ('loses = ["backward"]', "loses = []", "at least one check"),
        ("ops/softmax.py", "ops/cross_entropy.py", "must be in a file"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(change, old, new, message):
    with pytest.raises(DataError, match=message) as caught:
        change(old, new)
    assert "assignment.toml" in str(caught.value)


def test_a_check_without_its_function_is_refused(folder):
    (folder / "checks.py").write_text("")
    with pytest.raises(DataError, match="does not define the function forward"):
        read_assignment(folder).checks_by_name(1)


def test_the_assignments_of_the_library():
    found = assignments()
    assert "attention" in [made.name for made in found]
    for made in found:
        assert len(made.bugs) >= 4
        assert made.ways
        assert any(entry.hidden for entry in made.checks)
        assert any(not entry.hidden for entry in made.checks)
        for path in made.files:
            assert (package_root() / path).is_file()


def test_an_unknown_assignment_is_refused(folder):
    assert find_assignment(str(folder)).name == "small"
    with pytest.raises(ArgumentError, match="does not exist") as caught:
        find_assignment("nothing")
    assert "attention" in str(caught.value)
