"""Operation log (op log) that records every operation, forward and backward, as it runs.

The log listens to each `Function.apply` and each call of a `backward`. Its record is enough to
draw the graph, to step through it, and to check every operation separately.
"""

import linecache
import os
import sys
from typing import NamedTuple

from ..tensor import Tensor
from .listener import Listener

__all__ = ["Line", "Step", "OpLog", "calling_lines", "definition", "op_log", "passes_on"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Code in these files belongs to the operations. The innermost frame of another file is the code
# that uses an operation.
_MACHINERY = tuple(
    os.path.join(_PACKAGE, name) for name in ("autograd", "backend", "ops", "tensor.py", "methods")
)


class Line(NamedTuple):
    """A line of source code."""

    file: str
    number: int
    function: str

    @property
    def source(self):
        """Text of the line."""
        return linecache.getline(self.file, self.number).strip()

    @property
    def place(self):
        """File and line, with the path relative to the current folder if possible."""
        return f"{_short(self.file)}:{self.number}"

    def __str__(self):
        where = "" if self.function == "<module>" else f" in {self.function}"
        return f"{self.place}{where}: {self.source}".removesuffix(": ")


def _short(file):
    """Return a path relative to the current folder or, if it is outside, to this package's parent.

    A path outside both folders stays as it is.
    """
    for start in (os.getcwd(), os.path.dirname(_PACKAGE)):
        if file.startswith(start + os.sep):
            return os.path.relpath(file, start)
    return file


class Step:
    """One operation that ran.

    Attributes
    ----------
    number : int
        Number of the step, counted from 1.
    function : type
        Function that ran.
    settings : dict
    inputs, outputs : tuple
        Arrays, numbers or None, as `forward` received and returned them.
    line : Line
        Line that uses the operation, in a layer, a model, or your own code.
    called_at : Line
        Line of your own code, outside this package, that led to the operation.
    context : Context
        Node of the operation in the graph.
    grads, results : tuple or None
        Arguments and results of `backward`, once it has run.
    """

    def __init__(self, number, ctx, inputs, outputs, line, called_at):
        self.number, self.context = number, ctx
        self.function, self.settings = ctx.function, ctx.settings
        self.inputs, self.outputs = inputs, outputs
        self.line, self.called_at = line, called_at
        self.grads = self.results = None

    @property
    def op(self):
        """Name of the operation."""
        return self.function.__name__

    @property
    def input_shapes(self):
        """Shapes of the inputs; None for numbers and absent inputs."""
        return tuple(getattr(array, "shape", None) for array in self.inputs)

    @property
    def output_shapes(self):
        """Shapes of the outputs."""
        return tuple(array.shape for array in self.outputs)

    def __repr__(self):
        return f"<Step {self.number}: {self.op}>"

    def __str__(self):
        given = ", ".join("-" if s is None else str(s) for s in self.input_shapes)
        made = ", ".join(map(str, self.output_shapes))
        return f"{self.number:>4}  {self.op:<16} {given} -> {made}    {self.line}"


class OpLog(Listener, list):
    """List of the operations that ran inside a `with` block, in order, each as a `Step`.

    Parameters
    ----------
    copies : bool
        Whether to keep copies of all values, so that in-place changes do not affect them.
    """

    def __init__(self, copies=False):
        super().__init__()
        self.copies = copies
        self._step_of = {}

    def __str__(self):
        return "\n".join(map(str, self))

    def record_forward(self, ctx, inputs, outputs):
        """Record an operation; the engine calls this method after each one."""
        outputs = outputs if type(outputs) is tuple else (outputs,)
        values = (self._values(inputs), self._values(outputs))
        step = Step(len(self) + 1, ctx, *values, *calling_lines())
        self._step_of[id(ctx)] = step
        self.append(step)

    def record_backward(self, ctx, grads, results):
        """Record a `backward` that the engine ran; a later backward pass overwrites the record."""
        step = self._step_of.get(id(ctx))
        if step is not None:
            step.grads, step.results = self._values(grads), self._values(results)

    def _values(self, given):
        arrays = [value.array if isinstance(value, Tensor) else value for value in given]
        if self.copies:
            arrays = [array.copy() if hasattr(array, "copy") else array for array in arrays]
        return tuple(arrays)


def op_log(copies=False):
    """Record every operation inside a `with` block.

    Parameters
    ----------
    copies : bool
        Whether to keep copies of all values, so that in-place changes do not affect them.

    Returns
    -------
    OpLog
        List of `Step`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([3.0], requires_grad=True)
    >>> with mt.autograd.op_log() as steps:
    ...     y = (x * x).sum()
    ...     y.backward()
    >>> [step.op for step in steps], steps[0].results
    (['Mul', 'Sum'], (array([3.], dtype=float32), array([3.], dtype=float32)))
    """
    return OpLog(copies)


def calling_lines():
    """Return the line that called an operation, and the line of the user's code that led to it.

    The first is the innermost line of the call stack outside the operations' own code
    (`_MACHINERY`). It may be in this library, for example in a layer. The second is the innermost
    line outside this library. If the stack has no such line, the second is equal to the first.

    Returns
    -------
    (Line, Line)
    """
    frame, used = sys._getframe(2), None
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_MACHINERY):
            if used is None and not passes_on(frame.f_code):
                used = frame
            if not file.startswith(_PACKAGE + os.sep):
                break
        frame = frame.f_back
    return _line(used), _line(frame or used)


def passes_on(code):
    """Return True for code of this package that only passes a call on to another function.

    A function that passes a call on takes `*args` and `**kwargs`. An example is the wrapper that
    names the arguments in errors.
    """
    return code.co_flags & 0x0C == 0x0C and code.co_filename.startswith(_PACKAGE + os.sep)


def _line(frame):
    if frame is None:
        return Line("<unknown>", 0, "<module>")
    return Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def definition(function):
    """Return the Line (file, number, function) of a function's `def`, below its decorators.

    Parameters
    ----------
    function : function

    Returns
    -------
    Line or None
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    number = code.co_firstlineno
    while linecache.getline(code.co_filename, number).lstrip().startswith("@"):
        number += 1
    return Line(code.co_filename, number, code.co_qualname)
