"""Grading in shards: the merged marks are those of one run; shards that do not fit are refused."""

import json
import os
import shutil
from hashlib import sha256
from types import SimpleNamespace

import pytest
from grader.grade.conftest import RIGHT, hand_in, task  # noqa: F401
from grader.report.test_kept import WRONG, rows

from minitorch_attn.cli import main
from minitorch_attn.grader.build import assignment as assignment_module
from minitorch_attn.grader.build import task as task_module
from minitorch_attn.grader.grade import grade_class as run
from minitorch_attn.grader.grade.run_file import read_seed_file, write_seed_file
from minitorch_attn.grader.grade.shard import Shard
from minitorch_attn.grader.report.grading import grade_and_report
from minitorch_attn.grader.report.results import read_results
from tools.compare_marks import compare

CODE = {
    "ada": RIGHT, "bob": WRONG, "eve": b"import os; os._exit(0)", "joe": b"def softmax(x): pass\n",
    "kim": RIGHT + b"print('imported')\n",
}  # fmt: skip


class Course:
    """A class that is graded once: by one run, and in shards."""

    def __init__(self, root, task):  # noqa: F811
        self.root, self.task = root, task
        self.folder = hand_in(root / "in", **CODE)
        (self.folder / "zoe.rar").write_bytes(b"")
        (self.folder / "max").mkdir()  # an empty submission
        self.seed = root / "seed.json"
        write_seed_file(self.seed, task.name, task.version)

    def grade(self, out, shard=None, **more):
        """Grade one shard, or everything, unless it is graded."""
        out = self.root / out
        if not out.exists():
            options = {
                "task": self.task, "folder": self.folder, "seed": self.seed, "level": 1,
                "roster": ("ada", "zoe", "ida"), **more,
            }  # fmt: skip
            seed, made, folder = (options.pop(key) for key in ("seed", "task", "folder"))
            outcome = grade_and_report(
                made, folder, out, shard=shard, run=read_seed_file(seed, made), **options
            )
            assert outcome.failures == []
        return out

    def shards(self, of):
        return [self.grade(f"shard-{k}-of-{of}", Shard(k, of)) for k in range(1, of + 1)]


@pytest.fixture(scope="module")
def course(tmp_path_factory, task):  # noqa: F811
    return Course(tmp_path_factory.mktemp("course"), task)


@pytest.fixture
def two(course, tmp_path):
    """Copies of the folders of two shards, to be damaged."""
    return [
        shutil.copytree(folder, tmp_path / f"s{k}") for k, folder in enumerate(course.shards(2), 1)
    ]


@pytest.fixture
def mta(capsys, task, monkeypatch):  # noqa: F811
    """The command, with the tiny task in the place of every assignment."""
    made = SimpleNamespace(name=task.name, version=task.version)
    monkeypatch.setattr(assignment_module, "find_assignment", lambda name: made)
    monkeypatch.setattr(task_module, "task_of", lambda name, room: task)

    def call(*words):
        code = main(["course", *(str(word) for word in words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def content(folder):
    """Every file of a folder with its bytes, apart from the time when results.json was written."""
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    lines = files[folder / "results.json"].splitlines()
    files[folder / "results.json"] = [line for line in lines if b'"written"' not in line]
    return files


def refused(mta, tmp_path, *folders, told):
    """The merge ends with status 2, says why, and writes nothing."""
    code, said, warned = mta("merge", *folders, "--out", tmp_path / "merged")
    assert (code, said) == (2, "") and "Traceback" not in warned
    for text in told:
        assert text in warned
    assert not (tmp_path / "merged" / "results.json").exists()
    return warned


# The marks of one run


@pytest.mark.parametrize("of", [1, 2, 3, 11])
@pytest.mark.slow
def test_the_merged_files_are_those_of_one_run(of, course, mta, tmp_path):
    one, out = course.grade("one"), tmp_path / "merged"
    shards = course.shards(of)
    held = [len(read_results(folder)["submissions"]) for folder in shards]
    assert sum(held) == 6 and (of < 11 or 0 in held)  # of eleven shards some are empty
    code, said, warned = mta("merge", *reversed(shards), "--out", out)
    assert (code, warned) == (0, "") and "6 graded\n" in said
    assert "2 on the roster did not hand anything in" in said and "zoe.rar" in said
    for name in ("grades.csv", "run.json"):
        assert (out / name).read_bytes() == (one / name).read_bytes()
    found = compare(one, out)
    assert found["different"] == found["alone"] == []
    assert len(found["equal"] + found["timed"]) == 6 * 3 + 4
    assert [row["score"] for row in rows(out).values()] == ["5", "2", "0", "0", "5", "0", "", ""]


def test_another_mark_is_a_difference(course, mta, tmp_path):
    one, out = course.grade("one"), tmp_path / "merged"
    mta("merge", *course.shards(2), "--out", out)
    for name, old, new in (
        ("results.json", b'"score": 5.0', b'"score": 4.0'), ("junit.xml", b"failed", b"passed"),
        ("grades.csv", b"ada,5,", b"ada,4,"),
    ):  # fmt: skip
        data = (out / name).read_bytes()
        assert old in data
        (out / name).write_bytes(data.replace(old, new, 1))
        assert [str(path) for path in compare(one, out)["different"]] == [name]
        (out / name).write_bytes(data)
    (out / "junit.xml").unlink()
    assert [str(path) for path in compare(one, out)["alone"]] == ["junit.xml"]


def test_other_inputs_are_a_difference(course, tmp_path):
    write_seed_file(tmp_path / "seed", "softmax", "1")
    other = course.grade(tmp_path / "other", seed=tmp_path / "seed")
    different = {str(path) for path in compare(course.grade("one"), other)["different"]}
    assert {"results.json", "junit.xml", "run.json"} < different  # they show wrong entries
    assert "grades.csv" not in different


def test_a_merge_is_repeated_without_a_change(course, mta, tmp_path):
    out = tmp_path / "merged"
    assert mta("merge", *course.shards(2), "--out", out)[0] == 0
    before = content(out)
    times = {path: path.stat().st_mtime_ns for path in (out / "state").iterdir()}
    assert mta("merge", *course.shards(2), "--out", out)[0] == 0
    assert content(out) == before
    assert times == {path: path.stat().st_mtime_ns for path in (out / "state").iterdir()}


def test_a_merged_folder_can_be_continued_by_one_run(course, mta, tmp_path):
    out = tmp_path / "merged"
    mta("merge", *course.shards(3), "--out", out)
    code, said, _ = mta("grade", "x", course.folder, "--out", out, "--sandbox", 1)
    assert code == 0 and said.count("    kept") == 6


# Shards that are missing or not finished


def test_a_missing_shard_and_its_students_are_named(course, mta, tmp_path):
    one, out, shards = course.grade("one"), tmp_path / "merged", course.shards(2)
    code, said, warned = mta("merge", shards[0], "--out", out)
    missing = {row["name"] for row in rows(out).values() if row["status"] == "not graded"}
    held = {d["submission"]["name"] for d in read_results(shards[1])["submissions"]}
    assert code == 4 and missing == held and held
    for name in held:
        assert name in warned
        assert rows(out)[name]["score"] == ""
    assert "shard 2/2 is missing" in warned and "shard 1/2" not in warned
    assert f"{len(held)} not yet graded" in said and not read_results(out)["complete"]
    assert "shard 2/2 is missing" in rows(out)[max(held)]["look at"]
    assert "shard 2/2 is missing" in mta("report", out)[1]
    assert mta("merge", shards[1], "--out", out)[0] == 0  # together with the first merge
    found = compare(one, out)
    assert found["different"] == found["alone"] == []


def test_a_missing_shard_without_submissions_is_not_needed(course, mta, tmp_path):
    shards = course.shards(11)
    held = [folder for folder in shards if read_results(folder)["submissions"]]
    assert 0 < len(held) < 11
    assert mta("merge", *held, "--out", tmp_path / "merged")[0] == 0


def stopping_at(name, real):
    def grade_one(task, checks, submission, *more):  # noqa: F811
        if submission.name == name:
            raise KeyboardInterrupt
        return real(task, checks, submission, *more)

    return grade_one


def test_a_stopped_shard_is_named_and_continued(course, mta, tmp_path, monkeypatch):
    out, shard = tmp_path / "shard", tmp_path / "whole"
    words = ("grade", "x", course.folder, "--out", shard, "--sandbox", 1, "--shard", "1/1",
             "--seed-file", course.seed)  # fmt: skip
    monkeypatch.setattr(run, "grade_one", stopping_at("eve", run.grade_one))
    assert mta(*words)[0] == 130
    monkeypatch.undo()
    code, _, warned = mta("merge", shard, "--out", out)
    assert code == 4 and "shard 1/1: not graded yet: the run was stopped: eve" in warned


def test_a_killed_shard_is_named_and_continued(course, mta, tmp_path, monkeypatch):
    one, out, shards = course.grade("one", roster=()), tmp_path / "merged", course.shards(2)
    killed = tmp_path / "killed"
    monkeypatch.setattr(run, "grade_one", stopping_at("max", run.grade_one))
    number = next(k for k in (1, 2) if "max" in rows(shards[k - 1]))
    made, other = Shard(number, 2), shards[2 - number]
    with pytest.raises(KeyboardInterrupt):  # as a killed process, it does not write reports
        run.grade_class(course.task, course.folder, killed, level=1, shard=made,
                        run=read_seed_file(course.seed, course.task))  # fmt: skip
    monkeypatch.undo()
    assert list((killed / "state").glob("*.json"))
    code, _, warned = mta("merge", killed, other, "--out", out)
    assert code == 4 and f"shard {made} did not finish" in warned and "max" in warned
    refused(mta, tmp_path / "none", killed, told=["no shard is finished", str(made)])
    kept = {path.name: path.stat().st_mtime_ns for path in (killed / "state").glob("*.json")}
    outcome = grade_and_report(
        course.task, course.folder, killed, level=1, shard=made, roster=("ada", "zoe", "ida"),
        run=read_seed_file(course.seed, course.task),
    )  # fmt: skip
    assert outcome.how["kept"] == len(kept) > 0
    assert mta("merge", killed, other, "--out", out)[0] == 0
    assert compare(one, out)["different"] == []


def test_a_mistake_of_the_grader_in_a_shard_gives_no_mark(course, mta, tmp_path, monkeypatch):
    def failing(*arguments):
        raise RuntimeError("out of paper")

    monkeypatch.setattr(run, "grade_one", failing)
    words = ("--sandbox", 1, "--shard", "1/1", "--seed-file", course.seed)
    assert mta("grade", "x", course.folder, "--out", tmp_path / "s", *words)[0] == 4
    code, said, warned = mta("merge", tmp_path / "s", "--out", tmp_path / "merged")
    assert code == 4 and "out of paper" in warned and "0 graded, 6 not yet graded" in said
    assert {row["score"] for row in rows(tmp_path / "merged").values()} == {""}


# Folders that do not fit


def change(folder, **fields):
    """Change fields of shard.json."""
    path = folder / "shard.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_another_seed_is_refused(course, mta, two, tmp_path):
    write_seed_file(tmp_path / "seed", "softmax", "1")
    secret = json.loads((tmp_path / "seed").read_text())["seed"]
    other = course.grade(tmp_path / "other", Shard(1, 2), seed=tmp_path / "seed")
    warned = refused(mta, tmp_path, other, two[1], told=["merge: the seed of", "s2"])
    assert secret not in warned
    refused(mta, tmp_path, course.grade("one"), two[1], told=["not the folder of a shard", "one"])
    mta("merge", other, "--out", tmp_path / "out")
    code, _, warned = mta("merge", *two, "--out", tmp_path / "out")
    assert code == 2 and "different seed" in warned


def test_other_assignments_checks_and_numbers_are_refused(mta, two, tmp_path):
    made = json.loads((two[1] / "shard.json").read_text())["assignment"]
    run_file = json.loads((two[1] / "run.json").read_text())
    for fields, told in (
        ({"digest": "other"}, "the version of the checks or of the grader of"),
        ({"of": 3}, "different numbers of shards"),
        ({"shard": 1}, "shard 1/2 is given twice"),
        ({"shard": 3}, "K from 1 to N"),
        ({"assignment": {**made, "title": "Another"}}, "the text of the assignment of"),
        ({"roster": ["ada"]}, "the roster of"),
        ({"passed_over": []}, "zoe.rar"),
        ({"version": 2}, "version"),
        ({"results": {"../../etc/passwd": "0"}}, "the name of a student's folder"),
    ):  # fmt: skip
        before = (two[1] / "shard.json").read_text()
        change(two[1], **fields)
        refused(mta, tmp_path, *two, told=[told, "s2"] if "twice" not in told else [told])
        (two[1] / "shard.json").write_text(before)
    for key in ("assignment", "assignment_version"):
        (two[1] / "run.json").write_text(json.dumps({**run_file, key: "other"}))
        refused(mta, tmp_path, *two, told=["the assignment of", "other"])


def test_the_same_folder_twice_is_refused(mta, two, tmp_path):
    refused(mta, tmp_path, two[0], two[0], told=["shard 1/2 is given twice"])


def test_a_late_submission_that_one_shard_has_not_seen_is_named(course, two, mta, tmp_path):
    folder = shutil.copytree(course.folder, tmp_path / "in")
    hand_in(folder, tom=RIGHT)
    words = ("--sandbox", 1, "--seed-file", course.seed)
    (tmp_path / "roster").write_text("ada\nzoe\nida\n")
    words += ("--roster", tmp_path / "roster")
    for number in (1, 2):
        code, said, _ = mta("grade", "x", folder, "--out", two[number - 1], "--shard",
                            f"{number}/2", *words)  # fmt: skip
        assert code == 0 and "again" not in said  # nobody moved to another shard
        if number == 1:
            refused(mta, tmp_path, *two, told=["the list of submissions", "tom"])
    assert mta("merge", *two, "--out", tmp_path / "merged")[0] == 0
    assert rows(tmp_path / "merged")["tom"]["score"] == "5"


def test_damaged_shards_are_refused(mta, two, tmp_path):
    path = min((two[0] / "state").glob("*.json"))
    whole = path.read_bytes()
    for damaged in (whole[:-3], whole + b" ", whole.replace(b"5.0", b"4.0", 1), b""):
        path.write_bytes(damaged)
        refused(mta, tmp_path, *two, told=[str(path), "does not match shard.json"])
    path.unlink()
    refused(mta, tmp_path, *two, told=[str(path), "could not be read"])
    path.write_bytes(whole)
    listing = (two[0] / "shard.json").read_bytes()
    for damaged in (listing[:-20], b"{}", b""):
        (two[0] / "shard.json").write_bytes(damaged)
        refused(mta, tmp_path, *two, told=[str(two[0] / "shard.json")])
    (two[0] / "shard.json").write_bytes(listing)
    (two[0] / "run.json").unlink()
    refused(mta, tmp_path, *two, told=[str(two[0] / "run.json")])


def test_results_that_the_grader_cannot_have_written_are_refused(mta, two, tmp_path):
    path = next(p for p in (two[0] / "state").glob("*.json") if b'"passed"' in p.read_bytes())
    whole, lists = path.read_bytes(), json.loads((two[0] / "shard.json").read_text())
    document = json.loads(whole)

    def put(changed, name=path.stem):
        data = json.dumps(changed).encode()
        (two[0] / "state" / f"{name}.json").write_bytes(data)
        change(two[0], results={**lists["results"], name: sha256(data).hexdigest()})

    put({**document, "score": 100.0})
    refused(mta, tmp_path, *two, told=["score does not match", path.name])
    put({**document, "checks": document["checks"] * 2, "score": 2 * document["score"]})
    refused(mta, tmp_path, *two, told=["the checks do not match the assignment", path.name])
    path.write_bytes(whole)
    other = min((two[1] / "state").glob("*.json")).stem
    put(document, other)
    refused(mta, tmp_path, *two, told=["does not belong to shard 1/2", other])


def test_a_merge_does_not_write_into_a_shard(mta, two, tmp_path):
    before = content(two[0])
    code, _, warned = mta("merge", *two, "--out", two[0])
    assert code == 2 and "are for shard 1/2" in warned
    assert all(content(two[0])[path] == data for path, data in before.items() if path.suffix)


def test_different_numpy_versions_are_told(mta, two, tmp_path):
    for path in (two[1] / "state").glob("*.json"):
        document = json.loads(path.read_text())
        document["grader"]["numpy"] = "9.9.9"
        path.write_text(json.dumps(document))
        lists = json.loads((two[1] / "shard.json").read_text())["results"]
        change(two[1], results={**lists, path.stem: sha256(path.read_bytes()).hexdigest()})
    code, _, warned = mta("merge", *two, "--out", tmp_path / "merged")
    assert code == 0 and "different NumPy versions" in warned and "9.9.9" in warned


# The command of one shard


def test_a_shard_keeps_to_its_folder(course, mta, two, tmp_path):
    words = ("--sandbox", 1, "--seed-file", course.seed)
    whole = shutil.copytree(course.grade("one"), tmp_path / "one")
    for out, more, told in (
        (two[0], ("--shard", "2/2"), "are for shard 1/2"),
        (two[0], ("--shard", "1/3"), "are for shard 1/2"),
        (two[0], (), "are for shard 1/2"),
        (whole, ("--shard", "1/2"), "are for the whole class"),
    ):
        code, said, warned = mta("grade", "x", course.folder, "--out", out, *words, *more)
        assert code == 2 and told in warned
    assert mta("merge", *two, "--out", tmp_path / "merged")[0] == 0  # nothing has changed


def test_what_a_shard_needs(course, mta, tmp_path):
    words = ("grade", "x", course.folder, "--out", tmp_path / "out", "--sandbox", 1)
    code, _, warned = mta(*words, "--shard", "1/2")
    assert code == 2 and "requires --seed-file" in warned
    for text in ("3/2", "0/2", "1", "1/0", "1/2/3", "-1/2", "1/99999", "x/y", ""):
        assert mta(*words, "--seed-file", course.seed, "--shard", text)[0] == 2
    assert mta(*words, "--shard", "1/2", "--seed-file", tmp_path / "none")[0] == 2
    write_seed_file(tmp_path / "other", "attention", "1")
    code, _, warned = mta(*words, "--shard", "1/2", "--seed-file", tmp_path / "other")
    assert code == 2 and "another assignment" in warned
    assert not (tmp_path / "out").exists()


def test_the_seed_is_secret_and_new(mta, course, tmp_path):
    one, two = tmp_path / "a", tmp_path / "b"
    for path in (one, two):
        code, said, _ = mta("seed", "softmax", "--out", path)
        assert code == 0 and json.loads(path.read_text())["seed"] not in said
    assert json.loads(one.read_text())["seed"] != json.loads(two.read_text())["seed"]
    before = one.read_bytes()
    assert mta("seed", "softmax", "--out", one)[0] == 2 and one.read_bytes() == before
    assert mta("seed", "softmax", "--out", tmp_path / "none" / "a")[0] == 2
    if os.name == "posix":
        assert one.stat().st_mode & 0o777 == 0o600
        one.chmod(0o640)
        words = ("grade", "x", course.folder, "--out", tmp_path / "out", "--sandbox", 1)
        code, _, warned = mta(*words, "--shard", "1/2", "--seed-file", one)
        assert code == 2 and f"chmod 600 {one}" in warned and not (tmp_path / "out").exists()


def test_the_run_of_an_earlier_class_is_a_seed_file(course, mta, tmp_path):
    one = course.grade("one")
    words = ("--sandbox", 1, "--shard", "1/1", "--seed-file", one / "run.json")
    (tmp_path / "roster").write_text("ada\nzoe\nida\n")
    words += ("--roster", tmp_path / "roster")
    assert mta("grade", "x", course.folder, "--out", tmp_path / "s", *words)[0] == 0
    assert mta("merge", tmp_path / "s", "--out", tmp_path / "m")[0] == 0
    assert compare(one, tmp_path / "m")["different"] == []


@pytest.mark.slow
def test_every_submission_is_in_exactly_one_shard():
    slugs = [run.slug(f"student {number}") for number in range(2_000)]
    for of in (1, 2, 3, 8, 2_500):
        counts = [sum(Shard(k, of).contains(s) for s in slugs) for k in range(1, of + 1)]
        assert sum(counts) == 2_000
        assert of > 8 or max(counts) < 1.2 * 2_000 / of
    assert [str(Shard.of_submission(slug, 8)) for slug in slugs[:3]] == [
        "4/8",
        "7/8",
        "7/8",
    ]  # another division would move the submissions of a class that is half graded
