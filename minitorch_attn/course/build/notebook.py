"""Notebook of `mta build`: check the functions in its cells, and show what the model can do."""

import ast
import builtins
import dataclasses
import re
import subprocess
import textwrap

from ..exercises.rules import not_python
from ..exercises.work import near
from ..lesson import pick
from ..run_lesson import environment
from ..your_turn import CheckFailed, passed_line
from .cell_source import cell_source, function_text
from .check import check_step, demonstrate
from .checks import CHECKS
from .failed_cells import FailedCells
from .passed import PassedFunctions
from .progress import BuildProgress
from .run import ONE_THREAD, arguments, record
from .steps import find_step, functions_of, load_steps, unfinished, unwritten
from .work_file import WorkFile, digest

__all__ = ["Build"]

_ASPECTS = {"plain": [], "value": ["gradients"], "tensor": ["shapes", "gradients", "float32"]}
_LINE = re.compile(r"\bline (\d+)(?=: )")
_UNWRITTEN = re.compile(r"line \d+ is not written yet: (\S+)$")
_UNKNOWN_NAME = re.compile(r"NameError: name '(\w+)' is not defined")
_CELL = re.compile(r"line \d+ of the cell of ([\w.]+)")
_FAST_STEPS = 12


class Build:
    """Checks and runs the learner's GPT in a notebook, and keeps the cells' functions in a file.

    Whenever something is checked or run, the functions that the cells have defined replace the
    functions of the same names in the file. So the notebook and `mta build` check, train and trace
    the same file. After a restart, the kernel loads everything that the file contains.

    Parameters
    ----------
    namespace : dict
        Global namespace of the notebook, `globals()`. The names that the file defines are added.
    file : str or path
        The learner's file. It is created if it does not exist.
    remember : bool, default True
        Whether steps that pass are recorded as the learner's progress.
    """

    def __init__(self, namespace, file="my_gpt.py", remember=True):
        self.namespace, self.remember = namespace, remember
        self.steps, self.progress = load_steps(), BuildProgress()
        self.file = WorkFile(file)
        self._known = {item.name: step for step in self.steps for item in step.functions}
        self.passed = PassedFunctions(self.steps, self.progress, remember)
        self._put = {}  # name -> digest of the text that a cell put into the file
        self._codes = {}  # name -> code of the function that was put into the file last
        self._open()
        self._failed = FailedCells(namespace, self._codes_of_cells)
        self._failed.watch()

    # What the cells define

    def given(self, cls):
        """Decorate a class of the notebook, so that running its cell again does not replace it.

        The class stays the same object, its definition is updated, and it keeps the methods that
        other cells have added to it.
        """
        known = self.namespace.get(cls.__name__)
        if not isinstance(known, type) or known is cls or known.__bases__ != cls.__bases__:
            return cls
        for name, value in vars(cls).items():
            if name not in ("__dict__", "__weakref__"):
                setattr(known, name, value)
        return known

    def add_to(self, cls):
        """Return a decorator that makes a function a method of `cls`."""

        def add(function):
            function.__qualname__ = f"{cls.__qualname__}.{function.__name__}"
            setattr(cls, function.__name__, function)
            return vars(builtins).get(function.__name__, function)  # `sum` stays Python's sum

        return add

    # What the cells call

    def check(self, name):
        """Check one function against the library, and print what was compared.

        Parameters
        ----------
        name : str
            Name of the function, such as "softmax" or "Tensor.sum".

        Raises
        ------
        CheckFailed
            If the function is not written yet, raises an error, or returns something wrong.
        """
        step = self._step_of(name)
        sources = self._keep(step)
        if name in unwritten(self._text()):
            rows = ("found", self._elsewhere(name, sources)), ("cell", self._failed.error_of(name))
            raise CheckFailed(f"{name} is not written yet", *rows, is_written=False)
        outcome = check_step(step, self.file.path, only=name)
        self._print(outcome.output)
        if not outcome.passed:
            self._print(self._version(name, sources))
            raise self._failure(outcome.wrong, sources)
        self.passed.remember(outcome, self._text())
        found = {aspect: None for check in CHECKS if check.function == name
                 for aspect in (*_ASPECTS.get(check.kind, _ASPECTS["tensor"]), check.aspect)
                 if aspect}  # fmt: skip
        print(passed_line(name, ["values", *found]))
        self._print(self._version(name, sources))

    def demonstrate(self, number):
        """Check all functions of a step, show what the model can do now, and mark the step done.

        Parameters
        ----------
        number : int

        Raises
        ------
        CheckFailed
            If a function is missing or wrong, or if they do not work together.
        """
        step = find_step(number, self.steps)
        sources = self._keep(step)
        missing = unfinished(step, self._text())
        if missing:
            raise CheckFailed(f"step {number} is not finished", ("to write", ", ".join(missing)))
        outcome = check_step(step, self.file.path)
        if outcome.passed:
            demonstrate(outcome, step, self.file.path)
        else:
            self._print(outcome.output)
        if outcome.wrong:
            raise self._failure(outcome.wrong, sources)
        self.passed.remember(outcome, self._text())
        for item in step.functions:
            if self._failed.error_of(item.name):
                print(self._version(item.name, sources))
        if self.remember:
            self.progress.finish_step(step)
            self._print_note()
        print(f"step {number} is done. {step.next}\n\n{textwrap.indent(outcome.shown, '  ')}")

    def train(self, steps=None, alone=False):
        """Train your GPT, and the library's GPT of the same size, on the text of the tour.

        Parameters
        ----------
        steps : int, optional
            Number of training steps. Defaults to 1,500.
        alone : bool, default False
            Whether to skip the library's GPT; training then takes two thirds of the time.
        """
        self._complete(8)
        count = pick(1500, _FAST_STEPS) if steps is None else steps
        self._run("train", count, "alone" if alone else "beside")

    def sample(self, prompt="The ", length=400):
        """Print text that your trained GPT writes.

        Parameters
        ----------
        prompt : str
            Text to continue.
        length : int
            Number of characters.
        """
        self._complete(8)
        if not self.file.path.with_suffix(".npz").is_file():
            raise CheckFailed("your GPT is not trained yet", ("try", "build.train()"))
        self._run("sample", prompt, pick(length, min(length, 40)))

    def trace(self):
        """Record each line of one forward and backward pass of your GPT.

        Returns
        -------
        LineRecording
            The recorded lines. A notebook shows them as a page, which is also written to an HTML
            file next to your GPT file.
        """
        self._complete(7)
        page = self.file.path.with_suffix(".html")
        recording = record(str(self.file.path), page)
        print(f"{len(recording.steps):,} steps. For a larger page, open {near(page)} in a browser.")
        return recording

    # The file

    def _open(self):
        """Load the learner's file, and print how far the learner has come."""
        if not self.file.path.exists():
            self.file.start(self.steps[0])
        if self.remember:
            self.progress.use_file(self.file.path)
            self._print_note()
        text = self._text()
        written = [name for name in self._known if name in functions_of(text)]
        written = [name for name in written if name not in unwritten(text)]
        print(f"Your file: {near(self.file.path)}\n{self._state(written)}")
        try:
            exec(_definitions(text, self.file.path), self.namespace)
        except Exception as error:
            print(f"It could not be loaded: {type(error).__name__}: {error}")

    def _state(self, written):
        """Describe how many functions are written, how many have passed, and what comes next."""
        if not written:
            return "Nothing is written yet: start with step 1."
        open_ = self.passed.left(self._known, self._text())
        passed = len(self._known) - len(open_)
        count = f"{len(written)} of {len(self._known)} functions are written, {passed} have passed"
        step = self.progress.current(self.steps)
        here = "the training below"
        if open_:
            here = f"{open_[0]} in step {self._known[open_[0]].number}"
        elif step:
            here = f"build.demonstrate({step.number})"
        return f"{count}: continue with {here}."

    def _text(self):
        try:
            text = self.file.path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CheckFailed(f"{near(self.file.path)} could not be read: {error}") from None
        unclear = not_python(text, near(self.file.path))
        if unclear:
            raise CheckFailed(f"{near(self.file.path)} is not valid Python", ("", unclear))
        return text

    def _keep(self, step):
        """Copy the functions that cells have newly defined to the learner's file.

        Return the sources of all functions that the cells define, as {name: CellSource}.
        """
        if not self.file.path.exists():
            self.file.start(self.steps[0])
        self._text()  # raises an error if functions cannot be replaced
        functions = self._functions()
        sources = {name: cell_source(item, self.namespace) for name, item in functions.items()}
        sources = {name: source for name, source in sources.items() if source is not None}
        new = [name for name in sources if self._codes.get(name) is not functions[name].__code__]
        written = [name for name in new if sources[name].is_written]
        last = max([step.number, *(self._known[name].number for name in written)])
        for earlier in self.steps[:last]:
            self.file.start(earlier)
        known = {**self.progress.digests(), **self._put}
        kept = self.file.put({name: sources[name] for name in written}, known)
        if kept:
            print(f"{near(self.file.path)} was edited elsewhere: that version is in {near(kept)}")
        text = self._text()
        for name in written:
            self._codes[name] = functions[name].__code__
            self._put[name] = digest(function_text(text, name))
            if self.remember:
                self.progress.put_from_cell(name, self._put[name])
        return sources

    def _functions(self):
        """Return the steps' functions that cells of the notebook have defined, as {name: function}.

        Functions that were loaded from the learner's file are left out.
        """
        found = {}
        for name in self._known:
            prefix, _, last = name.rpartition(".")
            cls = self.namespace.get(prefix)
            place = self.namespace if not prefix else vars(cls) if isinstance(cls, type) else {}
            code = getattr(place.get(last), "__code__", None)
            if code is not None and code.co_filename != str(self.file.path):
                found[name] = place[last]
        return found

    def _codes_of_cells(self):
        return {name: function.__code__ for name, function in self._functions().items()}

    def _version(self, name, sources):
        """Say why the file's version, not the cell's, was checked; "" if they are the same.

        Text that was typed into a cell but not run is not considered.
        """
        this, error = f"This is {name} in {near(self.file.path)}", self._failed.error_of(name)
        if error:
            return f"{this}, an earlier version: the last run of its cell ended with a\n{error}"
        if name not in sources:
            return f"{this}: no cell has defined it since the kernel started."
        if not sources[name].is_written:
            return f"{this}: the function in the cell above is not written yet."
        if function_text(self._text(), name) != sources[name].text:
            return f"{this}, which differs from its cell: run the cell to use that version."
        return ""

    def _elsewhere(self, name, sources):
        """If neither a cell nor the learner's file defines the function, say where it is from."""
        function = None if name in sources else self._functions().get(name)
        return function and f"a function that no cell defines, from {function.__code__.co_filename}"

    def _step_of(self, name):
        if name not in self._known:
            raise CheckFailed(f"{name!r} is not a function of the build",
                              ("expected", ", ".join(self._known)))  # fmt: skip
        return self._known[name]

    def _complete(self, count):
        """Raise an error unless all functions of steps 1 to `count` are written."""
        self._keep(self.steps[count - 1])
        text = self._text()
        for step in self.steps[:count]:
            missing = unfinished(step, text)
            if missing:
                raise CheckFailed(
                    f"this needs steps 1 to {count}, and step {step.number} is not finished",
                    ("to write", ", ".join(missing)),
                )

    # Results

    def _failure(self, part, sources):
        """Return the CheckFailed for a failed Part, with line numbers that refer to the cells."""
        text = _LINE.sub(lambda found: self._line(int(found[1]), sources), part.text)
        text, _, hint = text.partition("\nhint: ")
        what, _, rest = text.partition("\n")
        unwritten_one = _UNWRITTEN.search(text)
        if unwritten_one:
            what_first = f"{part.name} cannot be checked before {unwritten_one[1]} is written"
            return CheckFailed(what_first, ("call", what))
        moved = ("try", self._move(part, text))
        if part.name in self._known:
            rows = [("call", what), ("found", rest)] if rest else [("found", what)]
            earlier = None if moved[1] else self._earlier(part.name)
            if earlier:
                rows = [("call", what), ("found", earlier.text.partition("\n")[2])]
                first = f"{earlier.name} has not passed yet: check it before {part.name}"
                return CheckFailed(first, *rows)
            return CheckFailed(f"{part.name} is wrong", *rows, ("hint", hint), moved)
        if part.name.startswith("the file"):
            what, rest = f"{near(self.file.path)} cannot be checked", text
        return CheckFailed(what, ("found", rest), moved)

    def _move(self, part, text):
        """Return advice for a function that uses a name from a different cell, otherwise ""."""
        unknown, cell = _UNKNOWN_NAME.search(text), _CELL.search(text)
        if not unknown or unknown[1] not in self.namespace:
            return ""
        name = cell[1] if cell else part.name
        return f"{unknown[1]} is in another cell: move it into the cell of {name}"

    def _earlier(self, name):
        """Return the result of the first function before `name` that fails, or None if all pass."""
        step, names = self._step_of(name), list(self._known)
        left = self.passed.left(names[: names.index(name)], self._text())
        functions = [item for s in self.steps for item in s.functions if item.name in left]
        if not functions:
            return None
        before = dataclasses.replace(step, functions=tuple(functions))
        outcome = check_step(before, self.file.path)
        self.passed.remember(outcome, self._text())
        wrong = outcome.wrong
        return wrong if wrong and wrong.name in self._known else None

    def _line(self, line, sources):
        """Name a line of the learner's file or, if it comes from a cell, the line of that cell."""
        text = self._text()
        for name, node in functions_of(text).items():
            if name in sources and node.lineno <= line <= node.end_lineno:
                start = min([node.lineno, *(item.lineno for item in node.decorator_list)])
                if function_text(text, name) == sources[name].text:
                    return f"line {line - start + sources[name].line} of the cell of {name}"
        return f"line {line} of {self.file.path.name}"

    def _print(self, output):
        if output.strip():
            print(output.rstrip())

    def _print_note(self):
        if self.progress.note:
            print(self.progress.note)

    def _run(self, what, *rest):
        """Run the learner's GPT in a child process, and print the output of the child process."""
        process = subprocess.Popen(
            arguments(what, self.file.path, *rest), env={**ONE_THREAD, **environment()},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
        )  # fmt: skip
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
            status = process.wait()
        except KeyboardInterrupt:  # the notebook's stop button
            print("stopped")
            return
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        if status:
            raise CheckFailed(f"the program exited with status {status}")


def _definitions(text, path):
    """Compile a file without its function `main` and its top-level `if` statements."""
    tree = ast.parse(text)
    kept = [node for node in tree.body if not isinstance(node, ast.If)]
    tree.body = [node for node in kept if getattr(node, "name", None) != "main"]
    return compile(tree, str(path), "exec")
