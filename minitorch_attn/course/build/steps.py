"""Load the steps of `mta build`: their texts and hints, the functions to write, and the answers."""

import ast
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import ArgumentError, DataError
from ..folders import course_folder
from ..minutes import minutes

__all__ = [
    "Function", "Step", "build_folder", "find_step", "functions_of", "header", "lesson_path",
    "load_steps", "unfinished", "unwritten",
]  # fmt: skip

_HEADING = re.compile(r"# Step (\d): ")
_LOOK = 3  # minutes to look at what the model can do
_CHECK = 1  # minutes to check a function, and to read what the check says


@dataclass(frozen=True)
class Function:
    """A function that the learner writes.

    Parameters
    ----------
    name : str
        Name of the function, such as "softmax" or "Tensor.sum".
    stub : str
        Signature and docstring, without indentation.
    answer : str
        The full function, without indentation.
    hint : str
    lines : int
        Number of lines of the answer below the docstring.
    """

    name: str
    stub: str
    answer: str
    hint: str
    lines: int


@dataclass(frozen=True)
class Step:
    """One step.

    Parameters
    ----------
    number : int
        Number of the step, from 1 to 8.
    title, text : str
        Title, and a paragraph that says what the learner builds in this step, and why.
    next : str
        Sentence that says what the model can do after this step.
    lessons : tuple of str
        Numbers of the lessons that explain the topic, and that belong to the path to GPT.
    functions : tuple of Function
    given : dict of str to str
        Maps the name of a class to the part that is given: the docstring and the methods already
        written.
    stub : str
        Text to append to the learner's file.
    answer : str
        Part of the answer that corresponds to the stub.
    measured : int, default 0
        Minutes that a student needed, rounded up to a multiple of five; 0 if unknown.
    short : dict of str to dict, optional
        Lessons of which a part is enough on this path: maps the number of the lesson to a dict with
        the keys "part" (such as 'up to "Detective work"') and "minutes" (time for that part).
    """

    number: int
    title: str
    text: str
    next: str
    lessons: tuple
    functions: tuple
    given: dict
    stub: str
    answer: str
    measured: int = 0
    short: dict = field(default_factory=dict)

    @property
    def minutes(self):
        """Minutes to read the step, write and check its functions, and see the result.

        This is the larger of the estimated and the measured minutes.
        """
        words = len(self.text.split()) + sum(len(item.stub.split()) for item in self.functions)
        typed = sum(item.lines for item in self.functions)
        other = _LOOK + _CHECK * len(self.functions)
        return max(self.measured, minutes(words, typed_lines=typed, other=other))

    @property
    def key(self):
        """Name of the step in the progress file."""
        return f"step-{self.number}"

    @property
    def names(self):
        """Top-level names of the step's functions: "Tensor" for "Tensor.sum", for example."""
        return list(dict.fromkeys(item.name.partition(".")[0] for item in self.functions))


def build_folder():
    """Find the folder of the steps and the answer. The environment variable MTA_BUILD overrides it.

    Returns
    -------
    Path
    """
    return course_folder(
        "my_gpt", "build/files", lambda path: (path / "steps.toml").is_file(), "MTA_BUILD"
    )


def load_steps(folder=None):
    """Load all steps, in order.

    Parameters
    ----------
    folder : str or path, optional
        Defaults to `build_folder()`.

    Returns
    -------
    list of Step
    """
    folder = Path(folder or build_folder())
    try:
        entries = tomllib.loads((folder / "steps.toml").read_text("utf-8"))["step"]
        text = (folder / "my_gpt.py").read_text("utf-8")
        parts = _HEADING.split(text)[2::2]
        return [
            _step(number, *pair) for number, pair in enumerate(zip(entries, parts, strict=True), 1)
        ]
    except (KeyError, OSError, TypeError, ValueError, SyntaxError) as error:
        raise DataError(
            f"the steps in {folder} could not be read", got=str(error), hint="reinstall the package"
        ) from None


def lesson_path(known):
    """Return the learning path to GPT: pairs (number of a lesson, step to write after it).

    Parameters
    ----------
    known : list of Step

    Returns
    -------
    list of (str, Step)
    """
    return [(lesson, step) for step in known for lesson in step.lessons]


def header(folder=None):
    """Return the first lines of the learner's file: its docstring and imports."""
    text = (Path(folder or build_folder()) / "my_gpt.py").read_text("utf-8")
    return _HEADING.split(text)[0].rstrip() + "\n"


def find_step(name, known):
    """Find a step by its number.

    Parameters
    ----------
    name : int or str
    known : list of Step

    Returns
    -------
    Step

    Raises
    ------
    ArgumentError
        If there is no such step.
    """
    for step in known:
        if str(name) == str(step.number):
            return step
    raise ArgumentError(
        f"no step has the number {name!r}", expected=f"a number from 1 to {len(known)}",
        hint="list the steps: mta build show",
    )  # fmt: skip


def _step(number, entry, part):
    title, _, body = part.strip("\n").partition("\n")
    source, tree = body.splitlines(), ast.parse(body)
    hints, functions = entry["hints"], []
    written = list(_written(tree))
    for name, node in written:
        functions.append(_function(name, node, source, hints[name]))
    if set(hints) != {name for name, _ in written}:
        raise ValueError(f"step {number}: the names of the hints and of the functions differ")
    heading = f"# Step {number}: {title}\n"
    return Step(
        number, entry["title"], " ".join(entry["text"].split()), entry["next"],
        tuple(entry["lessons"]), tuple(functions), _given_classes(tree, written, source),
        f"{heading}{_with_holes(written, source)}\n", f"{heading}{body.rstrip()}\n",
        entry.get("minutes", 0), entry.get("short", {}),
    )  # fmt: skip


def _written(tree):
    """Yield (name, node) for each function that the learner writes: those with a docstring."""
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for item in inner:
            if isinstance(item, ast.FunctionDef) and ast.get_docstring(item):
                yield prefix + item.name, item


def _function(name, node, source, hint):
    start, docstring, end = node.lineno - 1, node.body[0].end_lineno, node.end_lineno
    indent = node.col_offset
    lines = [line[indent:] for line in source[start:end]]
    body = [line for line in source[docstring:end] if line.strip()]
    stub = "\n".join(lines[: docstring - start])
    return Function(name, stub, "\n".join(lines), hint, len(body))


def _given_classes(tree, written, source):
    """Return the text of each class without the methods that the learner writes."""
    lines = dict(enumerate(source, 1))
    for _, node in written:
        for number in range(node.lineno, node.end_lineno + 1):
            lines.pop(number, None)
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            kept = (lines[n] for n in range(node.lineno, node.end_lineno + 1) if n in lines)
            found[node.name] = re.sub(r"\n\n+", "\n\n", "\n".join(kept)).rstrip()
    return found


def _with_holes(written, source):
    """Return the source, with the body of each function in `written` replaced by a `raise`."""
    lines = list(source)
    for name, node in reversed(written):
        indent = " " * (node.col_offset + 4)
        hole = f'{indent}raise NotImplementedError("{name}")'
        lines[node.body[0].end_lineno : node.end_lineno] = [hole]
    return "\n\n" + "\n".join(lines).strip("\n")


def functions_of(text):
    """Return the functions and methods of a file, with or without a docstring.

    Parameters
    ----------
    text : str
        Valid Python.

    Returns
    -------
    dict of str to ast.FunctionDef
        Definition of each function, under a name such as "Value.exp".
    """
    found = {}
    for node in ast.parse(text).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        found |= {prefix + item.name: item for item in inner if isinstance(item, ast.FunctionDef)}
    return found


def unwritten(text):
    """Return the names of a file's functions that only raise NotImplementedError.

    Parameters
    ----------
    text : str
        Valid Python.

    Returns
    -------
    set of str
    """
    found = set()
    for name, node in functions_of(text).items():
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        if body and isinstance(body[0], ast.Raise) and "NotImplementedError" in ast.dump(body[0]):
            found.add(name)
    return found


def unfinished(step, text):
    """Return the names of a step's functions that a file lacks or contains only as stubs.

    Parameters
    ----------
    step : Step
    text : str
        Valid Python.

    Returns
    -------
    list of str
    """
    written = set(functions_of(text)) - unwritten(text)
    return [item.name for item in step.functions if item.name not in written]
