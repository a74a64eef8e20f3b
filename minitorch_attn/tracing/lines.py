"""Record plain NumPy code line by line: each executed line that computes an array."""

import ast
import os
import sys

import numpy as np

from ..backend import is_array
from ..backend.arrays import as_array
from ..errors import DataError
from ..named_errors import names_arguments
from ..tensor import Tensor
from .line_values import computes, header_of, held_array, read, targets_of, values_read
from .record import Recording, describe_error
from .source_places import Place, position_of
from .steps import Entry, Step

__all__ = ["LineRecording"]

_INNER = {"<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"}  # their lines belong to the caller
_BACKWARD = "backward"  # lines that run during a call of this name belong to the backward pass


class LineRecording(Recording):
    """Records each executed line of the given files that computes an array or a float.

    Use it for code that does not use this package's operations, such as a framework of your own. A
    step is one executed statement, with the arrays that it reads, creates or changes. An object
    that holds an array, such as a tensor of your own, is shown as this array. Function calls are
    shown in place of modules. Lines that run during a call of `backward` belong to the backward
    pass.

    Parameters
    ----------
    files : sequence of str or path
        Python files to record.
    **options
        `max_steps`, `max_bytes` and `title`, as for `Recording`.

    Examples
    --------
    >>> import pathlib, runpy, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "own.py"
    ...     _ = path.write_text("import numpy as np\\nx = np.ones(3)\\ny = 2.0 * x\\n")
    ...     with LineRecording([path]) as t:
    ...         _ = runpy.run_path(str(path))
    >>> [(step.formula, step.outputs[0].values.array.tolist()) for step in t.steps]
    [('x = np.ones(3)', [1.0, 1.0, 1.0]), ('y = 2.0 * x', [2.0, 2.0, 2.0])]
    """

    @names_arguments
    def __init__(self, files, **options):
        super().__init__(**options)
        self._statements = {os.path.abspath(file): Statements(file) for file in files}
        self._frames = {}  # running frame -> Call
        self._made = set()  # numbers of the entries that steps created
        self._threads_trace = None

    def __enter__(self):
        self._threads_trace = sys.gettrace()
        sys.settrace(self._on_call)
        return self

    def __exit__(self, kind, *exc_info):
        sys.settrace(self._threads_trace)
        self._frames.clear()
        if kind is not None:
            self.ended_with = describe_error(kind, *exc_info)

    # Events

    def _on_call(self, frame, event, argument):
        """Trace a call if the function is in a recorded file. Return the callback for its lines."""
        code = frame.f_code
        statements = self._statements.get(os.path.abspath(code.co_filename))
        if statements is None or code.co_name in _INNER:
            return None
        frame.f_trace_lines = True
        call = Call(frame, statements, *self._caller(frame))
        self._frames[frame] = call
        if code.co_name == "<lambda>":
            self._begin(call, statements.at(code.co_firstlineno, ast.Lambda), frame)
        return self._on_event

    def _on_event(self, frame, event, argument):
        call = self._frames.get(frame)
        if call is None:
            return None
        if event == "line" and not isinstance(call.statement, ast.Lambda):
            statement = call.statements.at(frame.f_lineno)
            if statement is not call.statement:  # not another line of the same statement
                self._end(call, frame)
                self._begin(call, statement, frame)
        elif event == "exception":
            call.statement = None
        elif event == "return":
            self._end(call, frame, argument)
            del self._frames[frame]
        return self._on_event

    def _caller(self, frame):
        """Return the innermost recorded Call that encloses a frame, and the Place of the call."""
        called_at = None
        while (frame := frame.f_back) is not None:
            if os.path.abspath(frame.f_code.co_filename) in self._statements:
                called_at = called_at or Place.of(frame)  # may be in a comprehension
            if frame in self._frames:
                return self._frames[frame], called_at
        return None, None

    # Statements

    def _begin(self, call, statement, frame):
        """Store what a statement reads, before it runs."""
        call.statement, call.place = statement, Place.of(frame)
        if statement is not None:
            code, header = frame.f_code, header_of(statement)
            call.place = Place(code.co_filename, header.lineno, code.co_name, position_of(header))
        reads = [] if statement is None else self._seen(values_read(statement, frame), "input")
        named = {id(entry): (text, entry, array) for text, entry, array in reversed(reads)}
        call.reads = list(named.values())[::-1]  # `self` may be another name of `self.data`
        call.known = len(self.tensors)

    def _end(self, call, frame, result=None):
        """Record a statement that has run, if it created or changed an array."""
        statement, call.statement = call.statement, None
        if statement is None or not computes(statement):
            return
        if isinstance(statement, (ast.Return, ast.Lambda)):
            made = [("result", part) for part in held_array(result)]
        else:
            made = [(text, part) for target in targets_of(statement)
                    for text, part in [(ast.unparse(target), read(target, frame))]
                    for part in held_array(part)]  # fmt: skip
        outputs = self._seen(made, "result") + self._changed(call)
        outputs = [(text, entry) for text, entry, _ in outputs if entry.number >= call.known]
        if outputs and not self._full():
            self._add(call, statement, outputs)

    def _seen(self, pairs, role):
        """Return (source text, Entry or number, array) for each pair (source text, value)."""
        found = []
        for text, value in pairs:
            array = value.array if isinstance(value, Tensor) else as_array(value)
            if role == "result" and not is_array(array):
                array = np.asarray(array)
            entry = self.tensors.see(array, role, text)
            found.append((text, entry, array))
        return found

    def _changed(self, call):
        """Return the input arrays that the statement changed in place."""
        return [
            seen for text, entry, array in call.reads
            if isinstance(entry, Entry) and not entry.values.still(array)
            for seen in self._seen([(text, array)], "result")
        ]  # fmt: skip

    def _add(self, call, statement, outputs):
        outputs = list({entry.number: (text, entry) for text, entry in outputs}.values())
        step = Step(len(self.steps) + 1, "forward", call.name)
        step.formula = ast.unparse(statement).partition("\n")[0]
        step.side = _BACKWARD if call.in_backward else "forward"
        step.module = self._numbered(call)
        step.source, step.called_at = call.place, call.called_at or call.place
        step.inputs = [entry for _, entry, _ in call.reads]
        step.variables = step.input_names = [text for text, _, _ in call.reads]
        step.outputs = [entry for _, entry in outputs]
        step.output_names = [text for text, _ in outputs]
        self.steps.append(step)
        for text, entry in outputs:
            if entry.number not in self._made:
                self._made.add(entry.number)
                entry.name = f"{step.op} {step.number}"
            entry.variable = entry.variable if text == "result" else text

    def _numbered(self, call):
        """Append a call to `self.modules`, unless it is already there. Return the call.

        The calls that enclose it are appended first.
        """
        if call is not None and call.number is None:
            self._numbered(call.parent)
            call.number = len(self.modules)
            self.modules.append(call)
        return call


class Call:
    """One call of a function from a recorded file.

    In a recording of lines, the `module` of a step is a Call instead of a `Module`.

    Attributes
    ----------
    number : int or None
        Index in the list of modules; None until a line of the call is recorded.
    path, name : str
        Names of the calls from the outermost call to this call, and name of the function.
    parent : Call or None
    called_at : Place or None
        Expression that called the function; None if no recorded function called it.
    in_backward : bool
    statement : ast.AST or None
        Statement that is running.
    reads : list of (str, Entry or number, array)
        Names and values that the statement read.
    known : int
        Number of entries before the statement ran.
    """

    windows = None

    def __init__(self, frame, statements, parent, called_at):
        name = frame.f_code.co_qualname.replace(".<locals>", "").replace("<lambda>", "lambda")
        self.name = os.path.basename(statements.file) if name == "<module>" else name
        self.statements, self.parent, self.number = statements, parent, None
        self.called_at = called_at
        self.path = self.name if parent is None else f"{parent.path}.{self.name}"
        below = parent is not None and parent.in_backward
        self.in_backward = below or frame.f_code.co_name == _BACKWARD
        self.statement, self.place, self.reads, self.known = None, None, [], 0

    def __str__(self):
        return self.path


class Statements:
    """The statements of a file, found by line number."""

    def __init__(self, file):
        self.file = os.fspath(file)
        try:
            with open(file, "rb") as opened:
                tree = ast.parse(opened.read())
        except (OSError, SyntaxError, ValueError) as error:
            raise DataError(
                f"LineRecording: {self.file} could not be read as Python code", got=str(error)
            ) from None
        self.by_line = {}
        for node in ast.walk(tree):  # outer statements first, so that inner ones replace them
            if isinstance(node, (ast.stmt, ast.Lambda)):
                body = getattr(node, "body", None)
                simple = not isinstance(body, list) or not body
                end = node.end_lineno if simple else max(node.lineno, body[0].lineno - 1)
                kind = ast.Lambda if isinstance(node, ast.Lambda) else ast.stmt
                for line in range(node.lineno, end + 1):
                    self.by_line[kind, line] = node

    def at(self, line, kind=ast.stmt):
        """Return the innermost statement or lambda that contains a line, or None."""
        return self.by_line.get((kind, line))
