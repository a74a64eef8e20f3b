"""`mta course list | build | release | verify`: files, output and exit status."""

import json
import re

import pytest

from minitorch_attn.cli import main
from minitorch_attn.grader.build.assignment import assignments


@pytest.fixture
def mta(capsys, folder, monkeypatch):
    """mta("list") -> exit code, standard output, standard error of `mta course list`."""
    monkeypatch.setenv("MTA_ASSIGNMENTS", str(folder.parent))

    def call(*words):
        code = main(["course", *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_the_list(mta):
    code, out, _ = mta("list")
    assert code == 0
    assert "small" in out and "5 points" in out
    code, out, _ = mta("list", "--json")
    (made,) = json.loads(out)
    assert [check["hidden"] for check in made["checks"]] == [False, True]


def test_the_list_of_all_fits_into_eighty_columns(mta, monkeypatch):
    monkeypatch.delenv("MTA_ASSIGNMENTS")
    _, out, _ = mta("list")
    lines = out.splitlines()
    assert len(lines) == len(assignments()) + 3 and max(map(len, lines[:-1])) <= 80
    assert lines[-2].endswith("course release attention")


def test_a_release_is_a_folder_and_an_archive(mta, tmp_path):
    code, out, _ = mta("release", "small", "--out", tmp_path / "out")
    assert code == 0
    assert "2 functions to write, 5 points" in out
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["small", "small.zip"]
    assert "the body of" in (tmp_path / "out/small/minitorch_attn/errors.py").read_text()
    code, _, err = mta("release", "small", "--out", tmp_path / "out")
    assert code == 2
    assert "already exists" in err


def test_a_release_that_leaks_is_not_written(mta, folder, tmp_path):
    line = "mean_grad = (grad_y * y).sum(axis=ctx.axis, keepdims=True)\n"
    (folder / "hint.md").write_text(line)
    code, _, err = mta("release", "small", "--out", tmp_path / "out")
    assert code == 1
    assert "hint.md:1:" in err and "nothing was released" in err
    assert list((tmp_path / "out").iterdir()) == []


def test_the_package_of_a_submission(mta, tmp_path):
    code, out, _ = mta("build", "small", "--out", tmp_path / "out")
    assert code == 0
    assert re.search(r": \d\d bodies removed", out)
    assert not (tmp_path / "out/minitorch_attn/course").exists()


@pytest.mark.slow
def test_what_does_not_hold_ends_with_1(mta, change):
    change('with = "grad_y"\nloses = ["backward"]', 'with = "grad_y"\nloses = ["forward"]')
    code, out, _ = mta("verify", "small", "--level", 1, "--no-reward")
    assert code == 1
    assert "FAILS  bug: no sum" in out
    assert "forward must fail, but it passed" in out
    assert "holds  the solution" in out


@pytest.mark.slow
def test_several_at_a_time_give_the_same_proofs(mta, folder):
    wanted = ("verify", folder, folder, "--level", 1, "--no-reward", "--json")
    (_, one, _), (code, two, _) = mta(*wanted), mta(*wanted, "-j", 2)
    one, two = json.loads(one), json.loads(two)
    for proof in one + two:
        del proof["seconds"]
    assert code == 0 and one == two and len(one) > 10 and all(p["holds"] for p in one)


def test_an_unknown_assignment_is_refused(mta):
    code, _, err = mta("release", "nothing")
    assert code == 1
    assert "one of small" in err
