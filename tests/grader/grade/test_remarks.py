"""Remarks: complex steps and hidden code are found, and honest code is not."""

import gc
import threading

import pytest
from grader.grade.conftest import FILE, RIGHT

from minitorch_attn.grader.grade.archive import Submission
from minitorch_attn.grader.grade.grade_class import grade_one
from minitorch_attn.grader.grade.remarks import remarks
from minitorch_attn.grader.grade.sandbox import Sandbox

STEP = b"""
import numpy as np

def softmax(x):
    y = np.exp(x - x.real.max(axis=-1, keepdims=True))
    return y / y.sum(axis=-1, keepdims=True)

def backward(y, g):
    return (softmax(np.log(y) + 1e-30j * g) / 1e-30).imag
"""
COMPLEX = {
    "a literal": "def f(x, g): return x + 1e-30j * g",
    "the type": "def f(x, g): return x + complex(0, 1) * g",
    "a dtype": "def f(x): return x.astype('complex128')",
    "an attribute": "import numpy as np\ndef f(x): return np.complex64(x)",
    "imag": "def f(x): return x.imag",
    "cmath": "import cmath",
    "from cmath": "from cmath import exp",
    "a root of -1": "import numpy as np\ndef f(): return np.emath.sqrt(-1)",
    "a Fourier transform": "import numpy as np\ndef f(x): return np.fft.fft(x)",
}
INDIRECT = {
    "getattr": "import numpy as np\ndef f(x): return getattr(np, 'im' + 'ag')(x)",
    "eval": "def f(x): return eval('x')",
    "__import__": "def f(x): return __import__('cma' + 'th')",
}
HONEST = {
    "softmax": RIGHT.decode(),
    "words in text": "def f(x):\n    'The real and the imaginary part of a complex number.'\n",
    "names": "def f(realistic, jacobian): return realistic * 1e-30",
    "no Python": "def f(:",
    "null bytes": "\0",
    "deep": "(" * 5000,
}


def test_a_complex_step_is_exact_and_reported(task, limits):
    document = grade_one(task, task.checks(1), Submission("eve", {FILE: STEP}), Sandbox(1, limits))
    assert document["score"] == 5.0  # no check can tell it from a derivation
    (said,) = document["submission"]["remarks"]
    assert said.startswith(f"uses complex numbers: {FILE}, line 5 (real, 1e-30j, imag)")


@pytest.mark.parametrize("code", COMPLEX.values(), ids=COMPLEX)
def test_complex_numbers_are_reported(code):
    assert [text.split(":")[0] for text in remarks({"a.py": code.encode()})] == [
        "uses complex numbers"
    ]


@pytest.mark.parametrize("code", INDIRECT.values(), ids=INDIRECT)
def test_hidden_code_is_reported(code):
    assert [text.split(":")[0] for text in remarks({"a.py": code.encode()})] == ["runs hidden code"]


@pytest.mark.parametrize("code", HONEST.values(), ids=HONEST)
def test_honest_code_is_not_reported(code):
    assert remarks({"a.py": code.encode()}) == []


def test_what_the_starter_contains_is_not_reported():
    starter = b"x = getattr(y, 'z')"
    assert remarks({"a.py": starter + b"\nq = getattr(y, 'w')"}, {"a.py": starter}) == []
    assert remarks({"a.py": starter + b"\nq = eval('w')"}, {"a.py": starter}) != []


@pytest.mark.slow
def test_submissions_that_are_parsed_at_once():
    """Python 3.11 raises SystemError if a second thread parses during a garbage collection."""
    first_is_parsing, second_has_parsed, found = threading.Event(), threading.Event(), {}
    long = b"[" + b"x + 1, " * 2000 + b"x.imag]"

    def stop_here(phase, information):
        if threading.current_thread() is first and not first_is_parsing.is_set():
            first_is_parsing.set()
            second_has_parsed.wait(1)

    def parse(name, depth=0):
        if depth:
            return parse(name, depth - 1)
        gc.collect()
        gc.callbacks.append(stop_here)
        found[name] = remarks({"a.py": long})

    def parse_second():
        first_is_parsing.wait(10)
        parse("second", depth=30)
        second_has_parsed.set()

    first = threading.Thread(target=parse, args=("first",))
    second = threading.Thread(target=parse_second)
    try:
        for thread in (first, second):
            thread.start()
        for thread in (first, second):
            thread.join()
    finally:
        gc.callbacks[:] = [callback for callback in gc.callbacks if callback is not stop_here]
    assert found == dict.fromkeys(
        ["first", "second"], ["uses complex numbers: a.py, line 1 (imag)"]
    )
