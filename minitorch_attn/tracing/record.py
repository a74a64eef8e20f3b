"""Record every operation, forward and backward, to step through the computation afterwards."""

import os

from ..autograd.function import Function
from ..autograd.listener import Listener
from ..autograd.modes import state
from ..errors import ArgumentError
from ..files import atomic_file
from ..named_errors import names_arguments
from ..tensor import Tensor
from .attention import is_attention
from .entries import Entries
from .formulas import formula, labels, with_index
from .gradients import Arrivals
from .source_places import PACKAGE, Place, here
from .steps import Entry, Fused, Module, Step

__all__ = ["Recording", "describe_error"]

_KEEP = 65_536  # maximum number of values to keep per tensor


class Recording(Listener):
    """Records every operation that runs in a `with` block on this thread, forward and backward.

    Inside the block, attention runs step by step, so that scores and weights are recorded. The
    results differ from those of the fused operation only by rounding. Operations on other threads
    are not recorded. The backward pass of an `mt.checkpoint` must be in the same recording as its
    forward pass, because it repeats the forward pass.

    Parameters
    ----------
    expand : bool or sequence of str, default False
        If True, run not only attention but all fused operations step by step: also layer norm,
        GELU, cross-entropy and recurrent layers. A sequence such as ("LayerNorm", "CrossEntropy")
        selects some of them.
    max_steps : int, default 5000
        Maximum number of steps to record. Later steps are only counted.
    max_bytes : int
        Total size in bytes of the copies, above which only samples of later tensors are kept.
    labels : list of str, optional
        Tokens. They label each query axis and key axis of attention that has length `len(labels)`.
    title : str, optional

    Attributes
    ----------
    steps : list of Step
    tensors : list of Entry
    modules : list of Module
    fused : list of Fused
        Fused operations that ran step by step.
    skipped : int
        Number of steps beyond `max_steps`.
    ended_with : str
        Error that ended the block, with the line that raised it; "" if there was no error.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([3.0], requires_grad=True)
    >>> with mt.trace() as t:
    ...     (x * x).sum().backward()
    >>> [(step.op, step.kind) for step in t.steps[:4]]
    [('Mul', 'forward'), ('Sum', 'forward'), ('Sum', 'backward'), ('Mul', 'backward')]
    >>> [(a.before and a.before.values.mean, a.after.values.mean) for a in t.steps[3].added]
    [(None, 3.0), (3.0, 6.0)]
    """

    @names_arguments
    def __init__(self, expand=False, *, max_steps=5000, max_bytes=2**28, labels=None, title=None):
        self.expand = expand if isinstance(expand, bool) else _checked(expand)
        self.max_steps, self.labels, self.title = max_steps, labels, title
        self.steps, self.modules, self.fused = [], [], []
        self.tensors = Entries(_KEEP, max_bytes)
        self.skipped = 0
        self.ended_with = ""
        self._arrivals = Arrivals(self.tensors)
        self._numbers = {}  # id of a module -> Module
        self._roots = []  # outermost modules, kept alive so that their ids are not reused
        self._paths = {}
        self._calls, self._apart, self._running = [], [], []
        self._before = None  # (entries of the inputs, lines) for the running operation
        self._outer = None

    def __enter__(self):
        self._outer = state.take_apart
        state.take_apart = self._takes_apart
        return super().__enter__()

    def __exit__(self, kind, *exc_info):
        state.take_apart = self._outer
        if kind is not None:
            self.ended_with = describe_error(kind, *exc_info)
        self._before = None
        for stack in (self._calls, self._apart, self._running):
            stack.clear()
        self._arrivals.clear()
        return super().__exit__(kind, *exc_info)

    def _takes_apart(self, function):
        if self.expand is True or is_attention(function):
            return True
        return self.expand is not False and function.__name__ in self.expand

    def _full(self):
        """Return True if the recording is full. In this case, count the step as skipped."""
        if len(self.steps) < self.max_steps:
            return False
        self.skipped += 1
        return True

    # Forward

    def before_forward(self, ctx, inputs):
        if len(self.steps) >= self.max_steps:
            return
        source, called_at, names = here()
        entries = [self.tensors.see(value, "input", None, names) for value in inputs]
        for entry in entries:
            if isinstance(entry, Entry) and not entry.name:
                entry.name = f"input {entry.number}"
        self._before = (ctx, entries, source, called_at, [names.get(id(x)) for x in inputs])

    def record_forward(self, ctx, inputs, outputs):
        if self._full() or self._before is None or self._before[0] is not ctx:
            return
        _, entries, source, called_at, variables = self._before
        self._before = None
        outputs = outputs if type(outputs) is tuple else (outputs,)
        step = self._new_step("forward", ctx)
        step.source, step.called_at, step.settings = source, called_at, ctx.settings
        step.module = self._calls[-1] if self._calls else None
        step.part_of = self._apart[-1] if self._apart else None
        running = self._running[-1] if self._running else None
        step.inside = None if running is None else running.number
        step.inputs, step.variables = entries, variables
        self._made(step, inputs, outputs)
        step.input_names, step.output_names = labels(ctx.function, len(inputs), len(outputs))
        self._place_in_graph(ctx, step, inputs)

    def _new_step(self, kind, ctx):
        step = Step(len(self.steps) + 1, kind, ctx.function.__name__, ctx.function)
        text = formula(ctx.function)[kind == "backward"]
        step.formula = with_index(text, ctx.settings)
        self.steps.append(step)
        return step

    def _made(self, step, inputs, outputs):
        """Record the outputs of a step, and the inputs that share memory with the outputs."""
        given = [
            (entry, value.array if isinstance(value, Tensor) else value, position)
            for position, (entry, value) in enumerate(zip(step.inputs, inputs, strict=True))
            if isinstance(entry, Entry)
        ]
        for index, output in enumerate(outputs):
            several = f"[{index}]" if len(outputs) > 1 else ""
            entry = self.tensors.see(output, "result", f"{step.op} {step.number}{several}")
            step.outputs.append(entry)
            pairs = [(other, array) for other, array, _ in given]
            for found in self.tensors.link(entry, output.array, pairs):
                step.aliases.append((index, given[found][2]))

    def _place_in_graph(self, ctx, step, inputs):
        tensors = self._arrivals.tensors
        for edge, entry in zip(ctx.edges, step.inputs, strict=True):
            if edge is not None and isinstance(entry, Entry):
                tensors[edge[0].number, edge[1]] = entry
        if hasattr(ctx, "number"):
            self._arrivals.made_by[ctx.number] = step.number
            for index, entry in enumerate(step.outputs):
                tensors[ctx.number, index] = entry

    # Fused operations

    def enter_fused(self, ctx, inputs):
        entries = [self.tensors.see(value, "input") for value in inputs]
        module = self._calls[-1] if self._calls else None
        self._apart.append(Fused(len(self.fused), ctx.function, ctx.settings, entries, module))
        self.fused.append(self._apart[-1])

    def leave_fused(self, ctx, outputs):
        fused = self._apart.pop()
        if outputs is not None:
            outputs = outputs if type(outputs) is tuple else (outputs,)
            fused.outputs = [self.tensors.see(output, "result") for output in outputs]

    # Backward

    def start_backward(self, roots, grads):
        if not self._running:
            self._arrivals.clear()
        names = here()[2]
        for root, grad in zip(roots, grads, strict=True):
            edge = root._current_edge()
            key = (edge[0].number, edge[1])
            root = self.tensors.see(root, "result", "a result from before the recording", names)
            self._arrivals.tensors.setdefault(key, root)
            name = f"gradient of {self._arrivals.name(key)}"
            self._arrivals.add(edge, grad, self.tensors.see(grad, "gradient", name))

    def before_backward(self, ctx, grads):
        if self._full():
            self._running.append(None)
            return
        forward = self._arrivals.made_by.get(ctx.number)
        step = self._new_step("backward", ctx)
        if forward is not None:
            of = self.steps[forward - 1]
            step.of, step.module, step.part_of = forward, of.module, of.part_of
            step.source, step.called_at, step.settings = of.source, of.called_at, of.settings
        given, made = labels(ctx.function, len(ctx.edges), len(grads))
        step.input_names = [f"grad_{name}" for name in made]
        step.output_names = [f"grad_{name}" for name in given]
        for index, grad in enumerate(grads):
            entry, odd = self._arrivals.arrive((ctx.number, index), grad)
            step.inputs.append(entry)
            step.notes += [] if odd is None else [odd]
        self._running.append(step)

    def record_backward(self, ctx, grads, results):
        step = self._running.pop()
        if step is None:
            return
        for edge, result, name in zip(ctx.edges, results, step.output_names, strict=False):
            if edge is None or result is None:
                step.outputs.append(None)
                continue
            called = f"{name} of {step.op}" if step.of is None else f"{name} of step {step.of}"
            entry = self.tensors.see(result, "gradient", called)
            step.outputs.append(entry)
            step.added.append(self._arrivals.add(edge, result, entry))

    def record_gradient(self, tensor):
        if self._full():
            return
        addition, odd = self._arrivals.settle(tensor)
        step = Step(len(self.steps) + 1, "accumulate", "AddToGrad")
        step.formula = "grad = grad + the new gradient" if addition.before else "grad = gradient"
        step.added = [addition]
        step.notes += [] if odd is None else [odd]
        self.steps.append(step)

    # Modules

    def enter_module(self, module):
        if not self._calls and id(module) not in self._numbers:
            self._learn(module)
        known = self._numbers.get(id(module))
        if known is None:
            parent = self._calls[-1] if self._calls else None
            path = self._paths.get(id(module))
            if path is None:
                path = f"{parent.path}.{type(module).__name__}".lstrip(".") if parent else ""
                self._roots.append(module)
            known = Module(len(self.modules), path, module, parent)
            self._numbers[id(module)] = known
            self.modules.append(known)
        self._calls.append(known)

    def leave_module(self, module):
        known = self._numbers.get(id(module))  # None if it was called before the recording
        while known is not None and self._calls and self._calls.pop() is not known:
            pass

    def _learn(self, root):
        """Store the names of the modules, parameters and buffers of an outermost module."""
        self._roots.append(root)
        for path, module in root.named_modules():
            self._paths.setdefault(id(module), path)
        for path, tensor in (*root.named_parameters(), *root.named_buffers()):
            self.tensors.known_names.setdefault(id(tensor.array), path)

    # Results

    @property
    def message(self):
        """Text that says why the recording is incomplete. Empty if the recording is complete."""
        parts = []
        if self.ended_with:
            parts.append(self.ended_with)
        if self.skipped:
            parts.append(
                f"the recording is full: {len(self.steps):,} steps are kept, {self.skipped:,} more "
                "ran. Record one forward and backward pass of a small input, or use a larger "
                "max_steps"
            )
        return ". ".join(parts)

    def document(self, values=4096):
        """Return the recording as a dict for JSON; see `minitorch_attn.tracing.document`.

        Parameters
        ----------
        values : int
            Maximum number of values saved per tensor.

        Returns
        -------
        dict
        """
        from .document import document

        return document(self, values)

    def table(self, rows=80, depth=None, width=None, colour=None):
        """Return all steps as text. Use `print(t.table())` in a script, `t.table()` at a prompt.

        Parameters
        ----------
        rows : int
            Approximate number of rows in each part. Modules are folded to fit this number.
        depth : int, optional
            Nesting depth at which modules are folded. By default, `rows` determines the depth.
        width : int, optional
            Width of the table in characters. Default: the width of the terminal.
        colour : bool, optional
            If True, use color. Default: only on a terminal, and if NO_COLOR is not set.

        Returns
        -------
        str
        """
        from .table import trace_table

        return trace_table(self, rows, depth, width, colour)

    def save_html(self, path, values=4096):
        """Write a self-contained HTML page to step through the recording in a browser.

        Parameters
        ----------
        path : str or path
        values : int
            Maximum number of values saved per tensor.
        """
        from .page import page

        with atomic_file(path) as file:
            file.write(page(self.document(values)).encode())

    def _repr_html_(self):
        """Return the page of this recording as HTML, which a notebook displays inline."""
        from .page import frame, page

        return frame(page(self.document(values=1024)))

    def __str__(self):
        return self.table()

    def __repr__(self):
        return f"<Recording: {len(self.steps)} steps, {len(self.tensors)} tensors>"


def _checked(names):
    """Return `names` as a set. Raise an error if a name is not that of a fused operation."""
    names = frozenset([names] if isinstance(names, str) else names)
    known = {function.__name__ for function in _below(Function) if function.composed is not None}
    if not names <= known:
        raise ArgumentError(
            "mt.trace: expand must contain only names of fused operations",
            got=", ".join(map(repr, sorted(names - known))),
            expected=f"some of {', '.join(sorted(known))}, or True for all",
        )
    return names


def _below(function):
    for cls in function.__subclasses__():
        yield cls
        yield from _below(cls)


def describe_error(kind, error, trail):
    """Describe an error in one line, including the innermost code line outside this package."""
    place = None
    while trail is not None:
        code = trail.tb_frame.f_code
        if not code.co_filename.startswith((PACKAGE + os.sep, "<")):
            place = Place(code.co_filename, trail.tb_lineno, code.co_name)
        trail = trail.tb_next
    first = (str(error).splitlines() or [""])[0].rstrip(".")
    at = "" if place is None else f", at {place}"
    return f"the block ended with {kind.__name__}: {first}{at}".replace(": ,", ",")
