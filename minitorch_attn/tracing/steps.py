"""Steps of a recording, with the modules, tensors and fused operations that they refer to."""

__all__ = ["Addition", "Entry", "Fused", "Module", "Step"]


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
        Module that called this module; None for an outermost module.
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
    """State of a tensor at one moment. An in-place change creates a new Entry.

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
        Number of the entry before an in-place change; None if there was no change.
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
        Counted from 1: `recording.steps[step.number - 1]` is `step`.
    kind : str
        "forward", "backward" or "accumulate".
    op : str
        Name of the Function, or "AddToGrad" for "accumulate". For a line of plain code, name of
        the Python function that contains the line.
    function : type or None
    side : str or None
        "forward" or "backward" for a line of a `LineRecording`; None for an operation.
    formula : str
    module : Module or None
    source, called_at : Place or None
        Lines of the forward operation, even for a backward step.
    settings : dict
    inputs, outputs : list
        Inputs (Entry, number or None) and outputs (Entry). The inputs of a backward step are the
        gradients of the forward outputs, and its outputs are the gradients of the forward inputs.
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
        self.of = self.part_of = self.inside = self.side = None
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
