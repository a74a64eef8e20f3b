"""The build: answers pass, stubs and planted mistakes fail with a reason, and the GPT trains."""

import ast
import math
import re

import numpy as np
import pytest

from minitorch_attn.course.build import run
from minitorch_attn.course.build.cell_source import CellSource, with_function
from minitorch_attn.course.build.check import StepOutcome, check_step, demonstrate, show_step
from minitorch_attn.course.build.checks import CHECKS
from minitorch_attn.course.build.steps import (
    build_folder,
    find_step,
    header,
    load_steps,
    unwritten,
)  # fmt: skip
from minitorch_attn.course.build.work_file import WorkFile
from minitorch_attn.course.exercises.check import Part
from minitorch_attn.errors import ArgumentError, DataError

STEPS = load_steps()
EACH = pytest.mark.parametrize("step", STEPS, ids=lambda step: step.key)
LIMIT = 300
ANSWER = build_folder() / "my_gpt.py"


def up_to(step, last=None):
    """The text of a file whose steps before `step` are answered, and that ends with `last`."""
    before = [item.answer for item in STEPS[: step.number - 1]]
    return "\n\n".join([header(), *before, step.answer if last is None else last])


@pytest.fixture
def checked(tmp_path):
    """checked(step, text) -> the outcome of a file with this text."""

    def check(step, text):
        path = tmp_path / "my_gpt.py"
        path.write_text(text, encoding="utf-8")
        return check_step(step, path, LIMIT)

    return check


# The steps


def test_the_answer_is_the_steps_in_order_and_as_long_as_promised():
    text = "\n\n".join([header(), *(step.answer for step in STEPS)])
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(ANSWER.read_text("utf-8")))
    functions = [item for step in STEPS for item in step.functions]
    signatures = sum(len(item.stub.split('"""')[0].splitlines()) for item in functions)
    assert 240 <= signatures + sum(item.lines for item in functions) <= 260
    assert max(map(len, text.splitlines())) <= 100
    assert not re.search(r"import (?!math|sys|numpy)", text)


def test_every_function_has_a_hint_and_a_check():
    for step in STEPS:
        assert step.functions and step.text and step.next.endswith(".") and step.minutes
        for item in step.functions:
            assert 20 < len(item.hint) < 320
            assert any(check.function == item.name and check.what for check in CHECKS), item.name
    names = [item.name for step in STEPS for item in step.functions]
    assert len(names) == len(set(names)) and {check.function for check in CHECKS} == set(names)


def test_steps_are_found_and_a_folder_without_them_is_named(tmp_path, monkeypatch):
    assert find_step("3", STEPS).title == "Softmax and cross-entropy"
    with pytest.raises(ArgumentError, match="a number from 1 to 8"):
        find_step("9", STEPS)
    monkeypatch.setenv("MTA_BUILD", str(tmp_path))
    with pytest.raises(DataError, match="unset MTA_BUILD"):
        load_steps()


# The file


def test_stubs_are_appended_once_and_nothing_is_overwritten(tmp_path):
    file = WorkFile(tmp_path / "new" / "mine.py")
    assert file.start(STEPS[0]) and not file.start(STEPS[0])
    text = file.path.read_text("utf-8")
    assert unwritten(text) == {item.name for item in STEPS[0].functions}
    file.path.write_text(text.rstrip() + "\n\nx = 1  # mine", encoding="utf-8")
    assert file.start(STEPS[1])
    after = file.path.read_text("utf-8")
    assert after.startswith(text.rstrip() + "\n\nx = 1  # mine\n\n\n# Step 2") and ast.parse(after)
    file.path.write_text("def (", encoding="utf-8")
    assert not file.start(STEPS[0]) and file.path.read_text("utf-8") == "def ("


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x = '\xe9'", b"-" * 100_000, b"\0"])
def test_a_file_that_cannot_be_parsed_is_refused_by_the_check(content, tmp_path):
    path = tmp_path / "my_gpt.py"
    path.write_bytes(content)
    assert not WorkFile(path).start(STEPS[0]) and path.read_bytes() == content
    (part,) = check_step(STEPS[0], path).parts
    assert not part.passed and part.name in ("the file is readable", "the file is valid Python")


def test_the_file_is_the_one_here_or_the_last_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    last = tmp_path / "other" / "my_gpt.py"
    assert WorkFile(None, last).path == tmp_path / "my_gpt.py"
    last.parent.mkdir()
    last.write_text("")
    assert WorkFile(None, last).path == last
    (tmp_path / "my_gpt.py").write_text("")
    assert WorkFile(None, last).path == tmp_path / "my_gpt.py"
    assert WorkFile("x.py", last).path == tmp_path / "x.py"


# Checks


@EACH
def test_the_answer_passes(step, checked):
    outcome = checked(step, up_to(step))
    assert outcome.passed and not outcome.output, outcome.parts
    assert [part.name for part in outcome.parts] == [item.name for item in step.functions]


@EACH
def test_the_stub_fails_and_names_what_is_missing(step, checked):
    outcome = checked(step, up_to(step, step.stub))
    assert not outcome.passed and outcome.missing == [item.name for item in step.functions]


WRONG = [
    # (step, correct text, wrong text, function, what the message says)
    (1, "parent.grad = parent.grad + g", "parent.grad = g", "Value.backward", "gradient of"),
    (1, "for node in reversed(order):", "for node in order:", "Value.backward", "gradient"),
    (1, "lambda g: (g * b, g * a)", "lambda g: (g * a, g * b)", "Value.__mul__", "gradient of a"),
    (1, "g * power * a ** (power - 1)", "g * a ** (power - 1)", "Value.__pow__", "gradient of"),
    (1, "np.log(self.data)", "np.log2(self.data)", "Value.log", "the value: .* instead of"),
    (1, "type(self)(other)", "Value(other)", "Value.lift", "'Value' instead of 'Other'"),
    (2, "grad.sum(axis=repeated, keepdims=True)", "grad.sum(axis=repeated)", "unbroadcast",
     r"shape \(3,\) instead of \(3, 1\)"),
    (2, "return unbroadcast(g, np.shape(a)), unbroadcast(g, np.shape(b))", "return g, g",
     "Tensor.__add__", r"gradient of b: .*\(3, 5\) instead of .*\(5,\)"),
    (2, "g @ b.swapaxes(-1, -2), a.swapaxes", "g @ b.T, a.swapaxes", "Tensor.__matmul__",
     r"\(2, 1, 3, 5\) @ \(7, 5, 2\)"),
    (2, "lambda g: (g.swapaxes(first, second),)", "lambda g: (g,)", "Tensor.swapaxes",
     r"gradient of x: .*\(5, 3, 2\) instead of .*\(2, 3, 5\)"),
    (2, "Tensor(a + b, (self, other), pull)", "Tensor(a.__iadd__(b), (self, other), pull)",
     "Tensor.__add__", "changes its input x in place"),
    (3, "y * (g - (g * y).sum(axis=-1, keepdims=True))", "y * g", "softmax", "gradient of x"),
    (3, "x.data - x.data.max(axis=-1, keepdims=True)", "x.data", "softmax",
     "10 of 15 entries are NaN"),
    (3, "grad * (g / targets.size)", "grad * (g / len(targets))", "cross_entropy", "gradient of x"),
    (3, "-chosen.mean()", "-chosen.sum()", "cross_entropy", "the value"),
    (4, "rows[:, :-1], rows[:, 1:]", "rows[:, :-1], rows[:, :-1]", "batch", "instead of"),
    (2, "if np.shape(grad) == shape:", "if grad.shape == shape:", "unbroadcast",
     "the number 1.0, with which backward starts.*no attribute 'shape'"),
    (2, "np.broadcast_to(g, x.shape)", "g + np.zeros(x.shape)", "Tensor.sum", "use np.zeros_like"),
    (4, "np.add.at(grad, ids, g)", "grad[ids] += g", "embedding", "gradient of table"),
    (4, "logits / temperature", "logits * temperature", "sample", "instead of"),
    (4, "ids[-context:]", "ids", "sample", "instead of"),
    (5, 'x @ p["weight"].swapaxes(0, 1)', 'x @ p["weight"]', "linear", "matmul"),
    (5, "1.0 / math.sqrt(query.data.shape[-1])", "1.0 / query.data.shape[-1]", "attention",
     "the value"),
    (5, "1.0 / math.sqrt(", "1.0 / np.sqrt(", "attention", "for float32 arrays, .* float64"),
    (5, "softmax(scores + mask)", "softmax(scores)", "attention", "hides the keys"),
    (5, "query @ key.swapaxes(-1, -2) * (1.0 / math.sqrt(query.data.shape[-1]))\n"
     "    return softmax(scores + mask)",
     "(query @ key.swapaxes(-1, -2) + mask) * (1.0 / math.sqrt(query.data.shape[-1]))\n"
     "    return softmax(scores)", "attention", "hint: the mask is added before the division"),
    (4, "ids = list(ids)\n    for", "for", "sample", "no attribute 'append'"),
    (4, "ids = list(ids)\n    for", "ids = ids if isinstance(ids, list) else list(ids)\n    for",
     "sample", "'42 ids' instead of 'unchanged'"),
    (4, "    return ids\n", "    return np.array(ids)\n", "sample",
     "'ndarray' instead of 'list'"),
    (4, ".data[0, -1].astype(np.float64)", ".data[0, -1]", "sample",
     "'float32' instead of 'float64'"),
    (7, "[one_block() for _ in range(layers)]", "[one_block()] * layers", "initialize",
     "block 0 and block 1 are the same object"),
    (6, "k=1)", "k=0)", "causal_mask", "0 instead of 1"),
    (6, "x.reshape(rows, tokens, heads, width // heads).swapaxes(1, 2)",
     "x.reshape(rows, heads, tokens, width // heads)", "split_heads", "the value"),
    (6, "x.swapaxes(1, 2).reshape(rows, tokens, heads * d)", "x.reshape(rows, tokens, heads * d)",
     "merge_heads", "the value"),
    (6, "causal_mask(x.data.shape[1])", "0.0", "multi_head", "the value"),
    (7, "(variance + 1e-5)", "variance", "layer_norm", "the value"),
    (7, "1.0 + t + a * (1.0 - t * t) * slope", "1.0 + t", "gelu", "gradient of x"),
    (7, 'layer_norm(x, p["norm2"])', 'layer_norm(x, p["norm1"])', "block", "value"),
    (7, 'np.arange(ids.shape[1])', 'ids * 0', "gpt", "the value"),
    (7, "4 * width, last)", "4 * width)", "initialize", "standard deviation"),
    (8, "limit / (norm + 1e-6)", "limit / norm**2", "clip", "the value"),
    (8, "1.0 - self.b2**self.t", "1.0", "Adam.step", "the value"),
    (8, "if t.data.ndim > 1:", "if True:", "Adam.step", "the value"),
    (8, "t.grad = 0.0", "pass", "train", "the value"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "old", "new", "name", "words"), WRONG)
def test_a_planted_mistake_fails_with_a_reason(number, old, new, name, words, checked, forks):
    step = STEPS[number - 1]
    assert old in step.answer
    outcome = checked(step, up_to(step, step.answer.replace(old, new, 1 if number == 1 else -1)))
    assert not outcome.passed and outcome.wrong.name == name, outcome.parts
    assert re.search(words, outcome.wrong.text, re.S), outcome.wrong.text


def changed(number, name, *pairs):
    """Return the answer of a function with some of its text replaced."""
    (text,) = [item.answer for item in STEPS[number - 1].functions if item.name == name]
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


YIELD = "        yield float(loss.data)"
NORM = """one, zero = np.ones(width, dtype=np.float32), np.zeros(width, dtype=np.float32)
        return {"weight": Tensor(one), """

FIRST_ATTEMPTS = [
    # (step, function, code, what the message says)
    (1, "Value.backward", """def backward(self, grad=1.0):
    self.grad = self.grad + grad
    for parent, g in zip(self.parents, self.pull(grad) if self.pull else ()):
        parent.backward(g)""", "how often each pull is called.*32 instead of 1"),
    (3, "softmax", """def softmax(x):
    e = np.exp(x.data - x.data.max(axis=-1, keepdims=True))
    y = e / e.sum(axis=-1, keepdims=True)
    return Tensor(y, (x,), lambda g: y * (g - (g * y).sum(axis=-1, keepdims=True)))""",
     r"the pull of softmax returned an array instead of a tuple, such as \(g,\)"),
    (2, "Tensor.mean", "def mean(self):\n    self.sum()",
     r"Tensor.mean returned None; is `return` missing\?"),
    (1, "Value.lift", "def lift(self, other):\n    other if other else type(self)(other)",
     "Value.lift returned None; is `return` missing"),
    (8, "clip", changed(8, "clip", ("    return norm", "")), "clip returned None; is `return`"),
    (1, "Value.__pow__", changed(1, "Value.__pow__", ("(self,)", "(self)")),
     r"in Value.__pow__, parents is a Value, not a tuple: .* as in \(self,\)"),
    (6, "causal_mask", """def causal_mask(n):
    return (1 - np.tri(n, dtype=np.float32)) * -np.inf""",
     "the mask contains NaN: 0 \\* -inf is NaN"),
    (2, "Tensor.mean", """def mean(self):
    return self.sum(axis=-1) * (1.0 / self.data.shape[-1])""",
     r"shape \(2, 3\) instead of \(2, 3, 1\)\nhint: .*`keepdims=True` keeps it"),
    (2, "Tensor.mean", "def mean(self):\n    return self.sum() * (1.0 / self.data.size)",
     "hint: it is the mean over all axes"),
    (6, "causal_mask", "def causal_mask(n):\n    return np.where(np.tri(n) > 0, 0, -np.inf)",
     "'float64' instead of 'float32'"),
    (4, "encode", "def encode(text, characters):\n    return [characters.index(c) for c in text]",
     "'list' instead of 'ndarray'"),
    (8, "Adam.__init__", """def __init__(self, tensors, decay=0.1, b1=0.9, b2=0.95):
    self.tensors, self.decay, self.b1, self.b2, self.t = tensors, decay, b1, b2, 0
    self.m = self.v = [np.zeros_like(t.data) for t in tensors]""", "'one list' instead of"),
    (8, "Adam.step", """def step(self, lr):
    self.t += 1
    for t, m, v in zip(self.tensors, self.m, self.v, strict=True):
        decay = self.decay if t.data.ndim > 1 else 0.0
        t.data = t.data * (1.0 - lr * decay)
        m += (1.0 - self.b1) * (t.grad - m)
        v += (1.0 - self.b2) * (t.grad * t.grad - v)
        root = np.sqrt(v / (1.0 - self.b2**self.t)) + np.float64(1e-8)
        t.data = t.data - lr / (1.0 - self.b1**self.t) * m / root""",
     "the dtypes of the data after one step for float32.*'float64' instead of 'float32'"),
    (8, "clip", """def clip(tensors, limit=1.0):
    norm = np.sqrt(sum(np.float64((t.grad * t.grad).sum()) for t in tensors))
    for t in tensors:
        t.grad = t.grad * np.minimum(limit / (norm + 1e-6), 1.0)
    return norm""", "the dtypes of the gradients after clipping.*'float64' instead of 'float32'"),
    (8, "train", """def train(p, heads, batches, steps):
    tensors = parameters(p)
    tensors[1].data = tensors[1].data.astype(np.float64)
    adam = Adam(tensors)
    for step in range(steps):
        inputs, targets = next(batches)
        loss = cross_entropy(gpt(inputs, p, heads), targets)
        for t in tensors:
            t.grad = 0.0
        loss.backward()
        clip(tensors)
        adam.step(learning_rate(step, steps))
        yield float(loss.data)""",
     "the dtypes of the parameters after one step.*'float32 and float64' instead of 'float32'"),
    (8, "parameters", """def parameters(p):
    if isinstance(p, Tensor):
        return [p]
    return [parameters(part) for part in (p.values() if isinstance(p, dict) else p)]""",
     "entry 0 is a list, not a Tensor: join the lists"),
    (7, "initialize", changed(7, "initialize", ('"norm2": norm()', '"norm2": one'),
                              ('{"norm1": norm()', '{"norm1": one'),
                              ("        last = ", "        one, last = norm(), ")),
     "blocks.0.norm1.weight and blocks.0.norm2.weight are the same Tensor"),
    (7, "initialize", changed(7, "initialize", (NORM, """zero = np.zeros(width, dtype=np.float32)
        return {"weight": Tensor(one), """), ("    def one_block", """    one = np.ones(
        width, dtype=np.float32)

    def one_block""")), "blocks.0.norm1.weight and blocks.0.norm2.weight share one array"),
    (8, "train", changed(8, "train", (YIELD, "        losses.append(float(loss.data))\n"
                                      "    return losses"), ("adam = ", "losses, adam = [], ")),
     "it returned a list: `yield` the loss"),
    (8, "train", changed(8, "train", (YIELD, "        losses.append(float(loss.data))\n"
                                      "    return iter(losses)"), ("adam =", "losses, adam = [],")),
     "'8' instead of '1'"),
    (8, "train", changed(8, "train", (YIELD, "        yield loss.data")),
     "'float32' instead of 'float'"),
    (1, "Value.exp", """def exp(self):
    y = math.exp(self.data)
    return type(self)(y, (self,), lambda g: (g * y,))""",
     "an array of 3 numbers.*math.exp does not"),
    (1, "Value.log", """def log(self):
    return type(self)(math.log(self.data), (self,), lambda g: (g / self.data,))""",
     "an array of 3 numbers.*math.log does not"),
    (4, "batch", """def batch(ids, size, context, rng):
    starts = rng.integers(len(ids) - context, size=size)
    rows = ids[starts[:, None] + np.arange(context + 1)]
    return rows[:, :-1], rows""", r"ValueError: targets: shape \(3, 6\) instead of \(3, 5\)$"),
    (4, "batch", """def batch(ids, size, context, rng):
    return ids[rng.integers(len(ids) - context, size=size)]""",
     "it must return two arrays: inputs, targets"),
    (4, "batch", """def batch(ids, size, context, rng):
    starts = rng.integers(len(ids) - context, size=size)
    parts = [[ids[s + i : s + i + context] for s in starts] for i in (0, 1)]
    return parts[0], parts[1]""", "the shapes .*'list' object has no attribute 'shape'"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "name", "code", "words"), FIRST_ATTEMPTS)
def test_a_likely_first_attempt_fails_with_its_cause(number, name, code, words, tmp_path, forks):
    text = with_function(up_to(STEPS[number - 1]), name, CellSource(code, 1))
    path = tmp_path / "my_gpt.py"
    path.write_text(text, encoding="utf-8")
    outcome = check_step(STEPS[number - 1], path, LIMIT, only=name)
    assert outcome.wrong.name == name
    assert re.search(words, outcome.wrong.text, re.S), outcome.wrong.text


HINTED = """def unbroadcast(grad, shape):
    grad = np.sum(grad, axis=tuple(range(np.ndim(grad) - len(shape))))
    ones = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return np.sum(grad, axis=ones, keepdims=True)"""


def test_the_hint_of_unbroadcast_takes_the_number_1(tmp_path):
    assert "range(np.ndim(grad) - len(shape))" in STEPS[1].functions[0].hint
    path = tmp_path / "my_gpt.py"
    path.write_text(with_function(up_to(STEPS[1]), "unbroadcast", CellSource(HINTED, 1)))
    assert check_step(STEPS[1], path, LIMIT, only="unbroadcast").passed


def test_weights_that_were_computed_from_tensors_are_refused(checked):
    step, old = STEPS[6], "Tensor((std * rng.standard_normal(shape)).astype(np.float32))"
    new = "Tensor((rng.standard_normal(shape)).astype(np.float32)) * std"
    assert old in step.answer
    outcome = checked(step, up_to(step, step.answer.replace(old, new)))
    assert outcome.wrong.name == "initialize"
    assert "token_embedding.weight was computed from another Tensor" in outcome.wrong.text


CAUSES = [
    # (step, correct text, wrong text, function, the hint)
    (3, "max(axis=-1, keepdims=True))\n    y = e / e.sum(axis=-1, keepdims=True)",
     "max(axis=1, keepdims=True))\n    y = e / e.sum(axis=1, keepdims=True)", "softmax",
     "the sum is over axis 1, not over the last axis, and so is the maximum$"),
    (3, "y = e / e.sum(axis=-1, keepdims=True)", "y = e / e.sum()", "softmax",
     "the sum is over all axes, not over the last axis$"),
    (3, "y * (g - (g * y).sum(axis=-1, keepdims=True))", "y * g", "softmax",
     r"sum\(dy y\) is missing"),
    (3, "y * (g - (g * y).sum(axis=-1, keepdims=True))", "y * (1 - y) * g", "softmax",
     "of a sigmoid"),
    (4, "rows[:, :-1], rows[:, 1:]", "rows[:, :-1], rows[:, :-1]", "batch",
     "they equal the inputs: target t is the id after input t"),
    (4, "rows[:, :-1], rows[:, 1:]", "rows[:, 1:], rows[:, :-1]", "batch", "they are the targets"),
    (4, "np.add.at(grad, ids, g)", "grad[ids] += g", "embedding", "counts once: use np.add.at"),
    (5, " * (1.0 / math.sqrt(query.data.shape[-1]))", "", "attention",
     r"the scores are not divided by sqrt\(d\)"),
    (5, "1.0 / math.sqrt(query.data.shape[-1])", "1.0 / query.data.shape[-1]", "attention",
     r"divided by d, not by sqrt\(d\)"),
    (6, "x.swapaxes(1, 2).reshape(rows, tokens, heads * d)", "x.reshape(rows, tokens, heads * d)",
     "merge_heads", "are not swapped before the reshape"),
    (6, "x.reshape(rows, tokens, heads, width // heads).swapaxes(1, 2)",
     "x.reshape(rows, heads, tokens, width // heads)", "split_heads", "mixes tokens and heads"),
    (3, "-chosen.mean()", "-chosen.sum()", "cross_entropy", "15 is the size .* factor 1/15"),
    (3, "grad * (g / targets.size)", "grad * g", "cross_entropy", "gradient is 15 times"),
    (3, "y * (g - (g * y)", "-y * (g - (g * y)", "softmax", "the sign is wrong"),
    (6, 'linear(merge_heads(context), p["out_proj"])', "merge_heads(context)", "multi_head",
     r'p\["out_proj"\] receives no gradient: it is not used$'),
    (6, "causal_mask(x.data.shape[1])", "0.0", "multi_head", "the causal mask is missing$"),
    (7, 'layer_norm(x, p["norm2"])', 'layer_norm(x, p["norm1"])', "block",
     r'p\["norm2"\] receives no gradient'),
    (7, '    x = x + embedding(p["position_embedding"], np.arange(ids.shape[1]))\n', "", "gpt",
     r'p\["position_embedding"\] receives no gradient'),
    (7, 'layer_norm(x, p["norm"]) @', "x @", "gpt", r'p\["norm"\] receives no gradient'),
    (7, ' + p["bias"]', "", "layer_norm", r'p\["bias"\] receives no gradient'),
    (8, "t.grad = 0.0", "pass", "train", "the gradients are not set to 0.0 before `backward`$"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "old", "new", "name", "words"), CAUSES)
def test_the_cause_of_a_wrong_value_is_named(number, old, new, name, words, tmp_path, forks):
    step, path = STEPS[number - 1], tmp_path / "my_gpt.py"
    assert old in step.answer
    path.write_text(up_to(step, step.answer.replace(old, new, 1)), encoding="utf-8")
    wrong = check_step(step, path, LIMIT, only=name).wrong
    assert re.search(rf"\nhint: .*{words}", wrong.text), wrong.text


def test_the_first_wrong_loss_is_named(tmp_path):
    step, path = STEPS[7], tmp_path / "my_gpt.py"
    path.write_text(up_to(step, step.answer.replace("t.grad = 0.0", "pass")), encoding="utf-8")
    wrong = check_step(step, path, LIMIT, only="train").wrong
    words = r"the loss of step 2, counted from 0, is .* instead of .*; the losses before it agree"
    assert re.search(words, wrong.text), wrong.text


COMPOSED = """
def softmax(x):
    e = (x - Tensor(x.data.max(axis=-1, keepdims=True))).exp()
    return e / e.sum(axis=-1, keepdims=True)
"""


def test_another_way_to_write_it_passes(checked):
    """Any code that computes the same values and gradients is correct."""
    step = STEPS[2]
    composed = step.answer.replace(step.functions[0].answer, COMPOSED.strip())
    assert checked(step, up_to(step, composed)).passed


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("x = (", "the file is valid Python", "my_gpt.py:1: SyntaxError"),
        (
            "import minitorch_attn as mt\n",
            "the file is your own work",
            "line 1 imports minitorch_attn",
        ),
        ("x = 1\n", "Value.__init__", "does not define it"),
        (STEPS[0].answer + "\nnothing\n", "the file runs", "line .*nothing\nNameError"),
        (STEPS[0].answer + "\nraise SystemExit(3)\n", "the file runs", "SystemExit: 3"),
    ],
)
def test_a_file_that_does_not_run_is_explained(text, name, words, checked):
    head = "" if name == "the file is your own work" or "(" in text[:6] else header() + "\n\n"
    outcome = checked(STEPS[0], head + text)
    assert outcome.wrong.name == name and re.search(words, outcome.wrong.text, re.S)


@pytest.mark.slow
def test_an_endless_loop_ends(tmp_path):
    path = tmp_path / "my_gpt.py"
    step = STEPS[0]
    body = step.answer.replace("y = np.exp(self.data)", "while True:\n            pass")
    path.write_text(f"{header()}\n\n{body}", encoding="utf-8")
    outcome = check_step(step, path, 3)
    assert "did not finish within 3 s" in outcome.wrong.text


# What the model can do


def losses(text):
    """Baselines and the model's own loss, by name."""
    return {
        name: float(loss)
        for loss, name in re.findall(r"^ *(\d+\.\d+) +(.+?)(?:  .*)?$", text, re.M)
    }


def test_the_first_steps_show_a_loss_beside_its_baseline():
    assert "0 or 1: 0.9" in show_step(STEPS[0], ANSWER)[0]
    assert re.search(r"y = (1\.9|2\.0)\d x", show_step(STEPS[1], ANSWER)[0])
    text = show_step(STEPS[2], ANSWER)[0]
    found = losses(text)
    assert found["unigram"] < found["this model"] < found["unigram"] + 0.1 < found["uniform"]
    assert "unigram     how often each character occurs\n" in text


def test_a_step_whose_demonstration_fails_is_not_done(tmp_path):
    (tmp_path / "my_gpt.py").write_text(up_to(STEPS[1]).replace("def __neg__", "def negate"))
    outcome = StepOutcome(2, [Part("Tensor.sum", True, "")])
    demonstrate(outcome, STEPS[1], tmp_path / "my_gpt.py")
    assert not outcome.passed and "they do not work together:\n" in outcome.wrong.text
    assert "__sub__" in outcome.wrong.text or "bad operand" in outcome.wrong.text


@pytest.mark.slow
@pytest.mark.parametrize("number", [4, 5, 6, 7, 8])
def test_the_models_improve_from_step_to_step(number):
    text, error = show_step(STEPS[number - 1], ANSWER, 600)
    assert not error
    found = losses(text)
    bound = {4: found["bigram"] + 0.15, 5: 1.0}.get(number, found["bigram"])
    assert found["this model"] < bound and "it writes:" in text
    assert ("writes nonsense" in text) == (number == 5)


SMALL = {"layers": 1, "heads": 2, "dim": 16, "context": 16, "batch": 4, "dtype": "float64"}


def test_the_file_trains_as_the_librarys_gpt_does(tmp_path, capsys, monkeypatch):
    path = tmp_path / "my_gpt.py"
    path.write_text(ANSWER.read_text("utf-8"), encoding="utf-8")
    monkeypatch.setattr(run, "write", lambda *a, **k: None)
    mine, library = run.train(str(path), 12, every=1, **SMALL)
    assert math.isclose(mine, library, rel_tol=1e-12) and mine < 4.6
    rows = re.findall(r"^ +(\d+) +([\d.]+) +([\d.]+)$", capsys.readouterr().out, re.M)
    assert len(rows) == 12 and all(row[1] == row[2] for row in rows)
    assert rows[0][1] > rows[-1][1]
    run.train(str(path), 13, every=1, beside=False, **SMALL)
    out = capsys.readouterr().out
    assert out.count(" min left\n") == 1 and "on which it was not trained:" in out
    assert set(np.load(path.with_suffix(".npz"))) >= {"token_embedding.weight", "norm.bias"}


def test_training_ends_with_the_command_that_started_it(tmp_path, monkeypatch, capsys):
    path = tmp_path / "my_gpt.py"
    path.write_text(ANSWER.read_text("utf-8"), encoding="utf-8")
    parents = iter([7, 7, 7])
    monkeypatch.setattr(run.os, "getppid", lambda: next(parents, 1))
    with pytest.raises(SystemExit, match="the command that started this training has ended"):
        run.train(str(path), 12, every=1, beside=False, **SMALL)
    assert len(re.findall(r"^ +\d+  ", capsys.readouterr().out, re.M)) == 2


@pytest.mark.slow
def test_the_model_of_the_tour_stays_near_the_librarys(tmp_path, capsys):
    """A tenth of the tour's training, in float32: rounding separates the two a little."""
    path = tmp_path / "my_gpt.py"
    path.write_text(ANSWER.read_text("utf-8"), encoding="utf-8")
    mine, library = run.train(str(path), 150)
    assert abs(mine - library) < 0.05 and mine < 2.7


def test_the_stepper_shows_the_learners_own_lines(tmp_path):
    path = tmp_path / "my_gpt.py"
    text = ANSWER.read_text("utf-8")
    softmax = STEPS[2].functions[0].answer
    path.write_text(text.replace(softmax, COMPOSED.strip()), encoding="utf-8")
    recording = run.record(str(path), tmp_path / "page.html")
    assert not recording.message and len(recording.steps) > 300
    lines = path.read_text("utf-8").splitlines()
    for step in recording.steps:
        assert step.source.path == str(path)
        assert lines[step.source.line - 1].strip()[:12] in step.source.source
    shown = {(step.side, step.formula) for step in recording.steps}
    assert ("forward", "return e / e.sum(axis=-1, keepdims=True)") in shown
    assert ("backward", "parent.grad = parent.grad + g") in shown
    weights = [s.outputs[0] for s in recording.steps if s.formula.startswith("return e / e.sum")]
    np.testing.assert_allclose(weights[0].values.array.sum(-1), 1, rtol=1e-6)
    assert "softmax" in (tmp_path / "page.html").read_text("utf-8")
