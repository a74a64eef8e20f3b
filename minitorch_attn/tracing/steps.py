"""One step of a recording, and the lines of code that it belongs to."""

import linecache
import os
import sys

from ..autograd.trace import definition

__all__ = [
    "PACKAGE",
    "Addition",
    "Entry",
    "Fused",
    "Module",
    "Place",
    "Step",
    "definitions",
    "here",
]

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OPS = os.path.join(PACKAGE, "ops") + os.sep
# Below these an operation is made; above them it is used.
_MACHINERY = tuple(
    os.path.join(PACKAGE, name)
    for name in ("autograd", "backend", "kernels", "ops", "tensor.py", "methods", "tracing")
)


class Place:
    """A line of source code with its neighbours.

    Attributes
    ----------
    file : str
        From the current folder, or from the folder of this package, with forward slashes.
    line : int
    function : str
    """

    def __init__(self, file, line, function):
        self.path, self.line, self.function = file, line, function
        self.file = _short(file).replace(os.sep, "/")

    @property
    def text(self):
        """The line before, the line itself and the line after."""
        return [
            linecache.getline(self.path, number).rstrip() if number > 0 else ""
            for number in range(self.line - 1, self.line + 2)
        ]

    @property
    def source(self):
        """The line itself."""
        return linecache.getline(self.path, self.line).strip()

    def __str__(self):
        return f"{self.file}:{self.line}"


def _short(file):
    for start in (os.getcwd(), os.path.dirname(PACKAGE)):
        if file.startswith(start + os.sep):
            return os.path.relpath(file, start)
    return file


def here():
    """The lines that lead to the operation that is running.

    Returns
    -------
    source : Place
        The innermost line of mathematics: in your code, in a layer, or in the composed twin or the
        backward of an operation that is taken apart.
    called_at : Place
        The innermost line outside this package.
    names : dict of int to str
        The variables of the function of `source`: id of the value -> name.
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
    """Whether this is a forward, a backward or a twin: in ops/, with `ctx` as first argument."""
    first = code.co_varnames[0] if code.co_argcount else ""
    return first == "ctx" and code.co_filename.startswith(_OPS)


def _place(frame):
    if frame is None:
        return None
    return Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def definitions(function):
    """Where the forward and the backward of a Function are defined.

    Returns
    -------
    (Place or None, Place or None)
    """
    found = (definition(function.forward), definition(function.backward))
    return tuple(None if at is None else Place(at.file, at.number, at.function) for at in found)


class Module:
    """A module that was called.

    Attributes
    ----------
    number : int
    path : str
        Its dotted name in the outermost module; empty for that itself.
    name : str
        Of its class.
    parent : Module or None
        The one that called it.
    windows : (window_size, shift_size) or None
        Of the blocks of Swin.
    """

    def __init__(self, number, path, module, parent):
        self.number, self.path, self.parent = number, path, parent
        self.name = type(module).__name__
        sizes = [getattr(module, name, None) for name in ("window_size", "shift_size")]
        self.windows = tuple(sizes) if all(isinstance(size, tuple) for size in sizes) else None

    def __str__(self):
        return self.path or self.name


class Entry:
    """A tensor as it was at one moment; changed in place, it becomes another Entry.

    Attributes
    ----------
    number : int
    role : str
        "parameter", "input", "result" or "gradient".
    name : str
        The dotted name of a parameter, the variable of your code, or what made it.
    values : Values
    requires_grad : bool
    shares : list of int
        Numbers of earlier entries whose memory it lies in.
    was : int or None
        The number of the entry that was here before a change in place.
    """

    def __init__(self, number, role, name, values, requires_grad=False, was=None):
        self.number, self.role, self.name, self.values = number, role, name, values
        self.requires_grad, self.was = requires_grad, was
        self.shares = []
        self.variable = None

    def __repr__(self):
        return f"<Entry {self.number}: {self.name} {self.values.shape}>"


class Addition:
    """A gradient that grew: before + contribution = after.

    Attributes
    ----------
    tensor : Entry or None
        Whose gradient it is; None for what was made before the recording.
    before : Entry or None
        None for the first contribution.
    contribution, after : Entry
    from_step : int or None
        The forward step that made `tensor`.
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
        The name of the Function; "AddToGrad" for "accumulate".
    function : type or None
    formula : str
    module : Module or None
    source, called_at : Place or None
        Of the forward operation, also for its backward.
    settings : dict
    inputs, outputs : list
        Of Entry, number or None; of Entry. In a backward step the gradients of the outputs and
        those of the inputs.
    input_names, output_names : list of str
        The letters of the formula.
    variables : list of str or None
        What the code at `source` calls the inputs.
    aliases : list of (int, int)
        (output, input) that share memory.
    of : int or None
        The forward step of a backward one.
    added : list of Addition
    part_of : Fused or None
        The fused operation that this step is a part of.
    inside : int or None
        The backward step that was running.
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
    """A fused operation that was taken apart.

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
        """The name of the Function."""
        return self.function.__name__
