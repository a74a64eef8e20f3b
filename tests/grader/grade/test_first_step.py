"""The first differing step is at the mistake; without a mistake no step differs."""

import numpy as np
import pytest

from minitorch_attn.grader.build.assignment import assignments
from minitorch_attn.grader.build.blank import replace_body
from minitorch_attn.grader.build.package import solution_files, write_package
from minitorch_attn.grader.build.verify import with_bug
from minitorch_attn.grader.grade.first_step import first_step
from minitorch_attn.grader.grade.sandbox import Sandbox
from minitorch_attn.grader.grade.session import Session
from minitorch_attn.grader.grade.step_list import library_steps, read_steps
from minitorch_attn.grader.report.steps import step_text

SEED = 11
NAMES = [made.name for made in assignments()]
# What goes wrong leaves no array behind: an order, a memory that is shared, an error, a set. Nor
# does what is cut off from the graph, by `detach()`.
NO_STEP = {
    "gradients are added in place to an array that other nodes use",
    "the gradient of a leaf is not copied",
    "the oldest node is visited first", "saved arrays are not freed",
    "targets are missing from the set of nodes", "images of any size are accepted",
}  # fmt: skip

NO_ARRAYS = {"paths", "embedding, refusals", "another size"}  # entries, and parts of some


class Assignment:
    """An assignment with its package and its checks, made once."""

    def __init__(self, made, folder):
        self.made, self.folder = made, folder
        write_package(made, folder, stripped=True)
        self.checks = made.checks_by_name(SEED)

    def verdicts(self, files, names):
        """The first verdict that is not `passed`, or the last, of each entry."""
        data = {path: text.encode() for path, text in files.items()}
        with Session(Sandbox(1), self.folder, data, steps=True) as session:
            for name in names:
                for check in self.checks[name]:
                    verdict = session.verdict(check)
                    if not verdict.passed:
                        break
                yield name, verdict


@pytest.fixture(scope="module")
def assignment(tmp_path_factory):
    made, known = {each.name: each for each in assignments()}, {}

    def get(name):
        if name not in known:
            known[name] = Assignment(made[name], tmp_path_factory.mktemp(name))
        return known[name]

    return get


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_planted_mistake_is_found_in_its_function(assignment, name):
    found = assignment(name)
    told = 0
    for bug in found.made.bugs:
        files = with_bug(solution_files(found.made), bug)
        for entry, verdict in found.verdicts(files, bug.loses[:1]):
            step = verdict.first_step
            if verdict.status != "failed" or bug.name in NO_STEP or "detach()" in str(bug.new):
                continue
            assert step is not None, f"{bug.name}, {entry}: no step"
            functions = {word.partition(".<locals>")[0] for word in (step["in"], step["name"])}
            assert bug.target.name in functions, f"{bug.name}, {entry}: {step}"
            assert step["file"] == bug.target.path
            lines = files[step["file"]].splitlines()
            assert step["text"] == lines[step["line"] - 1].strip()
            told += 1
    assert told >= len(found.made.bugs) / 3  # others end in an error


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_solution_has_no_first_step(assignment, name):
    found = assignment(name)
    texts = solution_files(found.made)
    for entry, checks in found.checks.items():
        for check in checks:
            steps = library_steps(check, found.made.files)
            assert first_step(steps, steps, check.rtol, texts) is None
            assert steps or entry in NO_ARRAYS or check.name in NO_ARRAYS, (entry, check.name)
    name, verdict = next(found.verdicts(texts, list(found.checks)[:1]))
    assert verdict.passed and verdict.first_step is None


def bugged(found, name, *names):
    files = solution_files(found.made)
    for bug in found.made.bugs:
        if bug.name in names:
            files = with_bug(files, bug)
    return dict(found.verdicts(files, [name]))[name].first_step


@pytest.mark.slow
def test_a_wrong_forward_pass_is_named_before_the_gradients(assignment):
    found = assignment("attention")
    step = bugged(found, "backward", "no scale", "the softmax's gradient without its sum")
    assert step["in"] == "Attention.forward" and "key.swapaxes" in step["text"]
    assert not step["forward"]


@pytest.mark.slow
def test_of_several_gradients_those_that_agree_are_named(assignment):
    found = assignment("attention")
    step = bugged(found, "backward", "the scale is missing in the gradient of the keys")
    assert step["forward"] and step["in"] == "Attention.backward"
    assert step["differ"] == ["grad_key"] and step["agree"] == ["grad_query", "grad_value"]
    assert step["all_before"] and step["before"] > 5
    assert "The forward pass is correct." in step_text(step)


@pytest.mark.slow
def test_the_first_block_of_a_model_is_named(assignment):
    found = assignment("vit")
    step = bugged(found, "model", "the residual connection around the attention is missing")
    assert step["path"] == "blocks.0.norm2" and step["in"] == "Block.forward"


def test_another_way_to_the_same_result_is_not_blamed(assignment):
    found = assignment("attention")
    files = solution_files(found.made)
    path = "minitorch_attn/ops/attention/fused.py"
    scores = "scores = matmul(query * scale, key.swapaxes(-1, -2))"
    assert files[path].count(scores) == 1 and files[path].count("softmax_in_place(scores, -1)") == 1
    other = files[path].replace(
        scores, "scores = matmul(query, key.swapaxes(-1, -2))\n        scores = scores * scale"
    )
    files[path] = other
    assert dict(found.verdicts(files, ["forward"]))["forward"].passed
    files[path] = other.replace("softmax_in_place(scores, -1)", "softmax_in_place(scores, -2)")
    step = dict(found.verdicts(files, ["forward"]))["forward"].first_step
    assert "softmax_in_place(scores, -2)" in step["text"] and step["given"] == "same"


FORWARD = """
import numpy as np
s = query @ np.swapaxes(key, -1, -2) * scale
e = np.exp(s - s.max(-1, keepdims=True))
p = e / e.sum(-1, keepdims=True)
ctx.save(value, key, query)
ctx.save_intermediate(p)
return p @ value
"""
BACKWARD = """
import numpy as np
value, key, query = ctx.saved
(p,) = ctx.intermediate
grad_value = np.swapaxes(p, -1, -2) @ grad_context
grad_p = grad_context @ np.swapaxes(value, -1, -2)
grad_s = ctx.settings["scale"] * p * (grad_p - (grad_p * p).sum(-1, keepdims=True))
return grad_s @ key, np.swapaxes(grad_s, -1, -2) @ query, grad_value, None
"""


def test_work_in_plain_numpy_is_one_step_forward_and_one_backward(assignment):
    found = assignment("attention")
    path = "minitorch_attn/ops/attention/fused.py"

    def steps(forward, backward):
        files = solution_files(found.made)
        files[path] = replace_body(files[path], "Attention.forward", forward)
        files[path] = replace_body(files[path], "Attention.backward", backward)
        found_steps = dict(found.verdicts(files, ["forward", "backward"]))
        return [found_steps[name].first_step for name in ("forward", "backward")]

    assert steps(FORWARD, BACKWARD) == [None, None]
    none, wrong = steps(FORWARD, BACKWARD.replace("sum(-1", "sum(-2"))
    assert none is None and wrong["forward"] and wrong["name"] == "Attention.backward"
    assert wrong["differ"] == ["grad_query", "grad_key"] and wrong["agree"] == ["grad_value"]
    first, second = steps(FORWARD.replace(" * scale", ""), BACKWARD.replace("sum(-1", "sum(-2"))
    assert first["name"] == second["name"] == "Attention.forward" and not second["forward"]


def test_mistakes_without_a_number_are_told(assignment):
    found = assignment("masks")
    step = bugged(found, "masked softmax forward, empty rows", "NaN in a fully masked row")
    assert step["got"] == "nan" and step["expected"] == "0" and step["largest"] == "inf"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_told_that_only_the_solution_has(assignment, name):
    """Every word is of the submission, or of a fixed list: there is no place for another."""
    found = assignment(name)
    bug = found.made.bugs[0]
    files = with_bug(solution_files(found.made), bug)
    text = "\n".join(files.values())
    for _, verdict in found.verdicts(files, bug.loses[:1]):
        step = verdict.first_step
        if step is not None:
            assert step["text"] in text and step["file"] in files
            assert all(isinstance(step[key], str) for key in ("got", "expected"))
            assert len(step["expected"]) < 60  # a number, or a shape


class Answers:
    """A worker that says what it is told to say."""

    def __init__(self, answer, arrays):
        self.answer, self.arrays, self.output, self.used = answer, arrays, "", 0.0

    def ask(self, header, arrays, seconds, max_bytes):
        assert "steps" in header
        return self.answer, self.arrays

    def close(self):
        pass


BAD = np.full(64, np.nan)
STEP = {
    "name": "Softmax.forward", "path": "", "by": "", "parent": None, "takes": ["ctx", "x"],
    "defined": ["minitorch_attn/ops/softmax.py", 1], "called": None, "left": False, "given": [],
    "made": [{"at": 0, "count": 6, "shape": [2, 3], "dtype": "float64", "every": 1, "place": 0,
              "key": 0}],
}  # fmt: skip


def test_a_layer_that_gets_the_correct_values_is_not_said_to_get_others():
    """The layer calls the student's function with other values; only its settings can be wrong."""
    file = STEP["defined"][0]

    def recorded(*numbers):
        arrays = [
            {**STEP["made"][0], "at": k, "key": k, "count": 1, "shape": [1]} for k in range(3)
        ]
        x, inner, result = arrays
        layer = {**STEP, "name": "Layer.forward", "defined": None, "called": [file, 2],
                 "given": [x], "made": [result]}  # fmt: skip
        function = {**STEP, "parent": 0, "given": [inner], "made": [result]}
        return read_steps([layer, function], np.array(numbers), [file])

    text = "def forward(self, x):\n    return self.layer(x, causal=False)\n"
    step = first_step(recorded(1.0, 3.0, 5.0), recorded(1.0, 2.0, 4.0), 1e-9, {file: text})
    assert (step["name"], step["given"], step["own"]) == ("Layer.forward", "same", False)
    assert "look at its other arguments" in step_text(step)


@pytest.mark.parametrize(
    "answer",
    [
        {}, {"steps": None}, {"steps": "all passed"}, {"steps": [{}] * 10**5}, {"steps": [[[[]]]]},
        {"steps": [], "status": "passed", "points": 99}, {"steps": [STEP], "points": 99},
        {"steps": [STEP] * 300}, {"steps": [{**STEP, "made": STEP["made"] * 8}] * 300},
        {"steps": [{**STEP, "parent": k - 1 if k else None} for k in range(300)]},
    ],
)  # fmt: skip
def test_whatever_is_sent_for_steps_it_is_a_wrong_result(assignment, answer):
    found = assignment("softmax")
    check = found.checks["softmax forward"][0]
    for numbers in (BAD, np.zeros(0), np.full(64, 1e308), np.zeros(64)):
        session = Session(Sandbox(1), found.folder, dict.fromkeys(found.made.files, b""), True)
        session._worker = Answers(answer, {"numbers": numbers})
        step = session._first_step(check)
        assert step is None or step["file"] in found.made.files
        if step is not None:
            step_text(step)
        session.close()
