"""Steps of a recording, and the lines of code that they come from."""

import linecache
import os
import sys

from ..autograd.op_log import definition

__all__ = [
    "PACKAGE", "Addition", "Entry", "Fused", "Module", "Place", "Step", "definitions", "here",
]  # fmt: skip

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OPS = os.path.join(PACKAGE, "ops") + os.sep
# Files that implement operations. Frames outside these files use the operations.
_MACHINERY = tuple(
    os.path.join(PACKAGE, name)
    for name in ("autograd", "backend", "ops", "tensor.py", "methods", "tracing")
)


class Place:
    """A line of source code with its neighbors.

    Attributes
    ----------
    file : str
        Path relative to the current folder or this package's folder, with slashes.
    line : int
    function : str
    """

    def __init__(self, file, line, function):
        self.path, self.line, self.function = file, line, function
        self.file = _short(file).replace(os.sep, "/")

    @property
    def text(self):
        """Source text of the line, with the lines before and after it."""
        return [
            linecache.getline(self.path, number).rstrip() if number > 0 else ""
            for number in range(self.line - 1, self.line + 2)
        ]

    @property
    def source(self):
        """Source text of this line."""
        return linecache.getline(self.path, self.line).strip()

    def __str__(self):
        return f"{self.file}:{self.line}"


def _short(file):
    for start in (os.getcwd(), os.path.dirname(PACKAGE)):
        if file.startswith(start + os.sep):
            return os.path.relpath(file, start)
    return file


def here():
    """Find the lines of code that called the running operation.

    Returns
    -------
    source : Place
        Innermost line that uses the operation: in your code, in a layer, or, for a fused
        operation that runs step by step, in its composed version or its backward.
    called_at : Place
        Innermost line outside this package.
    names : dict of int to str
        Variables in the function that contains `source`, as {id of the value: name}.
    """
    frame, used = sys._getframe(1), None
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if used is None and (not file.startswith(_MACHINERY) or _is_mathematics(code)):
            used = frame
        if not file.startswith(PACKAGE + os.sep):
            break
        frame = frame.f_back
    names = {}
    if used is not None:
        for name, value in used.f_locals.items():
            if hasattr(value, "dtype") or isinstance(value, float):
                names.setdefault(id(value), name)
    return _place(used), _place(frame or used), names


def _is_mathematics(code):
    """Return True for a method of an operation: code in `ops/` whose first argument is `ctx`."""
    first = code.co_varnames[0] if code.co_argcount else ""
    return first == "ctx" and code.co_filename.startswith(_OPS)


def _place(frame):
    if frame is None:
        return None
    return Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def definitions(function):
    """Return the lines at which a Function's forward and backward are defined.

    Returns
    -------
    (Place or None, Place or None)
    """
    found = (definition(function.forward), definition(function.backward))
    return tuple(None if at is None else Place(at.file, at.number, at.function) for at in found)


class Module:
    """A module that was called during a recording.

    Attributes
    ----------
    number : int
    path : str
        Dotted name within the outermost module; empty for the outermost module itself.
    name : str
        Name of the module's class.
    parent : Module or None
        Module that called this one; None for an outermost module.
    windows : (window_size, shift_size) or None
        Window size and shift of a Swin block; None for other modules.
    """

    def __init__(self, number, path, module, parent):
        self.number, self.path, self.parent = number, path, parent
        self.name = type(module).__name__
        sizes = [getattr(module, name, None) for name in ("window_size", "shift_size")]
        self.windows = tuple(sizes) if all(isinstance(size, tuple) for size in sizes) else None

    def __str__(self):
        return self.path or self.name


class Entry:
    """State of a tensor at one moment. A change in place creates another Entry.

    Attributes
    ----------
    number : int
    role : str
        "parameter", "input", "result" or "gradient".
    name : str
        Parameter's dotted name, variable in your code, or operation that created the tensor.
    values : Values
    requires_grad : bool
    shares : list of int
        Numbers of the earlier entries whose memory this entry shares.
    was : int or None
        Number of the entry before a change in place; None if there was no change.
    """

    def __init__(self, number, role, name, values, requires_grad=False, was=None):
        self.number, self.role, self.name, self.values = number, role, name, values
        self.requires_grad, self.was = requires_grad, was
        self.shares = []
        self.variable = None

    def __repr__(self):
        return f"<Entry {self.number}: {self.name} {self.values.shape}>"


class Addition:
    """An addition to a gradient: before + contribution = after.

    Attributes
    ----------
    tensor : Entry or None
        Tensor to which the gradient belongs; None if it was created before the recording.
    before : Entry or None
        Gradient before the addition; None for the first contribution.
    contribution, after : Entry
    from_step : int or None
        Forward step that created `tensor`.
    """

    def __init__(self, tensor, before, contribution, after, from_step):
        self.tensor, self.before = tensor, before
        self.contribution, self.after, self.from_step = contribution, after, from_step


class Step:
    """One operation, forward or backward, or one addition to the `.grad` of a leaf.

    Attributes
    ----------
    number : int
    kind : str
        "forward", "backward" or "accumulate".
    op : str
        Name of the Function; "AddToGrad" for "accumulate".
    function : type or None
    formula : str
    module : Module or None
    source, called_at : Place or None
        Lines of the forward operation, even for a backward step.
    settings : dict
    inputs, outputs : list
        Inputs (Entry, number or None) and outputs (Entry). In a backward step, the output
        gradients and the input gradients.
    input_names, output_names : list of str
        Names in the formula, such as "a" and "b".
    variables : list of str or None
        Names of the inputs in the code at `source`.
    aliases : list of (int, int)
        Pairs (output, input) that share memory.
    of : int or None
        Number of the forward step to which a backward step belongs.
    added : list of Addition
    part_of : Fused or None
        Fused operation to which this step belongs.
    inside : int or None
        Number of the backward step during which this step ran.
    notes : list of str
    """

    def __init__(self, number, kind, op, function=None, **more):
        self.number, self.kind, self.op, self.function = number, kind, op, function
        self.formula, self.module, self.source, self.called_at = "", None, None, None
        self.settings, self.inputs, self.outputs = {}, [], []
        self.input_names, self.output_names, self.variables = [], [], []
        self.aliases, self.added, self.notes = [], [], []
        self.of = self.part_of = self.inside = None
        self.__dict__.update(more)

    def __repr__(self):
        return f"<Step {self.number}: {self.op} {self.kind}>"


class Fused:
    """A fused operation, recorded as the individual steps that compute it.

    Attributes
    ----------
    number : int
    function : type
    settings : dict
    inputs, outputs : list of Entry
    module : Module or None
    """

    def __init__(self, number, function, settings, inputs, module):
        self.number, self.function, self.settings = number, function, settings
        self.inputs, self.outputs, self.module = inputs, [], module

    @property
    def op(self):
        """Name of the operation's Function class."""
        return self.function.__name__
