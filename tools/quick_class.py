"""Quick assignment: softmax in a single file. A submission is graded in a tenth of a second.

A submission of a real assignment imports the package, which takes most of the grading time. A
submission of this assignment imports only NumPy, so thousands can be graded in minutes.
"""

import zipfile
from pathlib import Path

import numpy as np

from minitorch_attn.grader.grade.judge import Check
from minitorch_attn.grader.grade.task import Entry, Task

FILE = "minitorch_attn/work.py"
_CORRECT = """import numpy as np


def softmax(x):
    y = np.exp(x - x.max(axis=-1, keepdims=True))
    return y / y.sum(axis=-1, keepdims=True)


def backward(y, g):
    return y * (g - (g * y).sum(axis=-1, keepdims=True))
"""
_KINDS = {
    "correct": ("", "", 0), "wrong axis": (".sum(axis=-1, keepdims=True)", ".sum(axis=0)"),
    "wrong sign": ("(g - ", "(g + "), "no maximum": (" - x.max(axis=-1, keepdims=True)", ""),
    "no return": ("    return y / ", "    y / "), "error": ("(g * y)", "(g * z)"),
    "syntax error": ("def backward(y, g)", "def backward(y, g"),
    "ends the process": ("import numpy as np\n", "import os\n\nos._exit(0)\n"),
    "prints": ("    return y *", "    print('backward')\n    return y *"), "nothing": None,
}  # fmt: skip


def _forward_driver(inputs, settings):
    from minitorch_attn.work import softmax

    return {"y": softmax(inputs["x"])}


def _backward_driver(inputs, settings):
    from minitorch_attn.work import backward

    return {"grad": backward(inputs["y"], inputs["g"])}


def _softmax(x):
    y = np.exp(x - x.max(axis=-1, keepdims=True))
    return y / y.sum(axis=-1, keepdims=True)


def _forward(rng):
    x = rng.normal(size=(5, 7))
    return [Check("forward", _forward_driver, {"x": x}, {"y": _softmax(x)}, rtol=1e-12)]


def _large(rng):
    x = 1000 * rng.normal(size=(3, 11))
    return [Check("large", _forward_driver, {"x": x}, {"y": _softmax(x)}, rtol=1e-12)]


def _backward(rng):
    y, g = _softmax(rng.normal(size=(13, 17))), rng.normal(size=(13, 17))
    grad = y * (g - (g * y).sum(axis=-1, keepdims=True))
    return [Check("backward", _backward_driver, {"y": y, "g": g}, {"grad": grad}, rtol=1e-12)]


def quick_task(folder):
    """Write the quick assignment, without its solution, to `folder`, and return its Task."""
    package = Path(folder) / "minitorch_attn"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "work.py").write_text("raise NotImplementedError\n")
    entries = [
        Entry("forward", 2.0, _forward), Entry("large", 1.5, _large),
        Entry("backward", 3.0, _backward),
    ]  # fmt: skip
    return Task("quick", "Quick softmax", "1", [FILE], entries, Path(folder), "quick")


def quick_class(folder, count):
    """Write `count` submissions to a folder.

    Of every ten, two are correct, six have a bug, one calls os._exit(0), and one is empty.
    """
    kinds = list(_KINDS.values())
    for number in range(count):
        change, name = kinds[number % len(kinds)], f"Student {number:05d}"
        text = f"# {name}\n" + (_CORRECT.replace(*change) if change else "")
        if change is None:
            (Path(folder) / name).mkdir(parents=True)
        elif number % 3:
            path = Path(folder) / name / FILE
            path.parent.mkdir(parents=True)
            path.write_text(text)
        else:
            Path(folder).mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(Path(folder) / f"{name}.zip", "w") as archive:
                archive.writestr(zipfile.ZipInfo(FILE), text)
