"""Summary of a model: parameters, FLOPs and memory of each layer in a forward pass."""

import sys
from contextlib import ExitStack

from ..autograd.listener import Listener
from ..autograd.modes import no_grad
from ..backend.gemm import dry_run
from ..errors import ArgumentError
from ..formatting import short_bytes, short_count
from ..named_errors import NamedErrors, names_arguments
from ..ops import zeros
from ..ops.plumbing.flops import forward_flops
from ..tensor import Tensor
from .eval_mode import evaluating

__all__ = ["Summary", "summary"]


class Row:
    """One module of a model, as a row of the summary.

    Attributes
    ----------
    name : str
        Dotted name of the module. "" is the model itself.
    kind : str
        Name of the module's class.
    depth : int
        Number of modules that contain this module.
    parameters : int
        Number of parameters, including the parameters of submodules. A shared parameter counts
        once.
    input_shape, output_shape : tuple or None
        Input and output shapes of the first call.
    calls : int
        Number of calls.
    flops : int
        FLOPs of all calls, including the FLOPs of submodules.
    output_bytes : int
        Size in bytes of all operation outputs inside the module, not counting views.
    """

    def __init__(self, name, module):
        self.name, self.kind = name, type(module).__name__
        self.depth = name.count(".") + 1 if name else 0
        self.parameters = sum(p.array.size for p in module.parameters())
        self.input_shape = self.output_shape = None
        self.calls = self.flops = self.output_bytes = 0


class Summary(NamedErrors):
    """Summary of a forward pass: shapes, parameters, FLOPs and memory of every module.

    A multiply-add in a matrix product or a convolution counts as two operations. The forward pass
    is a dry run: matrix products return zeros without being computed, and without reading the
    parameters. If the model was built under `nn.init.skip_init()`, its weights are not written
    either, so that the summary of a very large model requires little time and memory.

    Parameters
    ----------
    model : Module
    *inputs : Tensor or tuple of int
        Inputs of the model. A tuple of sizes stands for zeros of that shape.
    **kwargs
        Keyword arguments of the model.

    Attributes
    ----------
    rows : list of Row
        Modules in the order of `named_modules`. The first module is the model.
    parameters, trainable, flops, parameter_bytes, output_bytes : int
        Totals of the whole model: number of parameters, number of trainable parameters, FLOPs of
        the forward pass, and size in bytes of the parameters and of all operation outputs.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.nn.Sequential(mt.nn.Linear(3, 5), mt.nn.ReLU())
    >>> counted = Summary(model, (2, 3))
    >>> counted.parameters, counted.flops
    (20, 60)
    """

    def __init__(self, model, *inputs, **kwargs):
        self.rows = [Row(name, module) for name, module in model.named_modules()]
        row_of = dict(zip((m for _, m in model.named_modules()), self.rows, strict=True))
        parameters = list(model.parameters())
        self.parameters = sum(p.array.size for p in parameters)
        self.trainable = sum(p.array.size for p in parameters if p.requires_grad)
        self.parameter_bytes = sum(p.array.nbytes for p in parameters)
        like = parameters[0] if parameters else None
        inputs = [_as_input(value, like) for value in inputs]
        with ExitStack() as stack:
            counter = stack.enter_context(_Counter())
            for module, row in row_of.items():
                counter.watch(stack, module, row)
            with evaluating(model), no_grad(), dry_run():
                model(*inputs, **kwargs)
        self.flops, self.output_bytes = self.rows[0].flops, self.rows[0].output_bytes

    def table(self, depth=None):
        """Format the summary as a text table.

        Parameters
        ----------
        depth : int, optional
            Maximum nesting depth of the modules to show.
        """
        head = ("layer", "input", "output", "parameters", "FLOPs", "memory")
        lines = [head]
        for row in self.rows:
            if depth is None or row.depth <= depth:
                name = "  " * row.depth + (row.name.rpartition(".")[2] or "model")
                ran = row.calls > 0
                lines.append((
                    f"{name} ({row.kind})" + (f" x{row.calls}" if row.calls > 1 else ""),
                    _sizes(row.input_shape),
                    _sizes(row.output_shape),
                    f"{row.parameters:,}" if row.parameters else "-",
                    short_count(row.flops) if ran and row.flops else "-",
                    short_bytes(row.output_bytes) if ran and row.output_bytes else "-",
                ))  # fmt: skip
        widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
        rule = "-" * (sum(widths) + 2 * (len(head) - 1))
        text = [_aligned(line, widths) for line in lines]
        return "\n".join([text[0], rule, *text[1:], rule, self._totals()])

    def _totals(self):
        frozen = self.parameters - self.trainable
        kept = f", {frozen:,} of them frozen" if frozen else ""
        return (
            f"{self.parameters:,} parameters{kept}, {short_bytes(self.parameter_bytes)}\n"
            f"{short_count(self.flops)} FLOPs for one forward pass: two for each multiply-add of "
            f"matrix products and convolutions\n"
            f"{short_bytes(self.output_bytes)} of intermediate results, "
            f"most of which training keeps"
        )

    def __str__(self):
        return self.table()


@names_arguments
def summary(model, *inputs, depth=3, file=None, **kwargs):
    """Print a summary of a model: parameters, FLOPs and memory of a forward pass.

    Parameters
    ----------
    model : Module
    *inputs : Tensor or tuple of int
        Inputs of the model. A tuple of sizes stands for zeros of that shape.
    depth : int, optional
        Maximum nesting depth of the modules to show. None shows all modules.
    file : text file, optional
        File to print to. Default: the standard output.
    **kwargs
        Keyword arguments of the model.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> summary(mt.nn.Sequential(mt.nn.Linear(3, 5), mt.nn.ReLU()), (2, 3))
    layer               input   output  parameters  FLOPs  memory
    -------------------------------------------------------------
    model (Sequential)  (2, 3)  (2, 5)          20     60    80 B
      0 (Linear)        (2, 3)  (2, 5)          20     60    40 B
      1 (ReLU)          (2, 5)  (2, 5)           -      -    40 B
    -------------------------------------------------------------
    20 parameters, 80 B
    60 FLOPs for one forward pass: two for each multiply-add of matrix products and convolutions
    80 B of intermediate results, most of which training keeps
    """
    (file or sys.stdout).write(Summary(model, *inputs, **kwargs).table(depth) + "\n")


class _Counter(Listener):
    """Listener that adds each operation's FLOPs and bytes to the rows of the running modules.

    While a submodule runs, the modules that contain it are running, too.
    """

    def __init__(self):
        self.running = []

    def watch(self, stack, module, row):
        """Count the operations of `module` in `row`.

        Hooks put `row` into `running` before each call of the module, and remove it afterwards.
        `stack` removes the hooks.
        """

        def enter(module, args, kwargs):
            self.running.append(row)
            if not row.calls:
                row.input_shape = _first_shape((*args, *kwargs.values()))
            row.calls += 1

        def leave(module, args, output):
            self.running.pop()
            if row.output_shape is None:
                row.output_shape = _first_shape((output,))

        stack.enter_context(module.register_forward_pre_hook(enter, with_kwargs=True))
        stack.enter_context(module.register_forward_hook(leave, always_call=True))

    def record_forward(self, ctx, inputs, outputs):
        """Count an operation. The engine calls this method after every operation."""
        flops = forward_flops(ctx, inputs, outputs)
        outputs = outputs if type(outputs) is tuple else (outputs,)
        made = 0 if ctx.function.view else sum(output.array.nbytes for output in outputs)
        for row in self.running:
            row.flops += flops
            row.output_bytes += made


def _as_input(value, like):
    if isinstance(value, tuple) and all(isinstance(n, int) for n in value):
        place = {} if like is None else {"dtype": like.dtype, "device": like.device}
        return zeros(*value, **place)
    if isinstance(value, Tensor) or value is None:
        return value
    raise ArgumentError(
        "summary: each input must be a tensor or a tuple of sizes",
        got=f"{value!r:.60} of type {type(value).__name__}",
        expected="a tensor, or a tuple of sizes for zeros of that shape",
        hint="use mt.tensor([[1, 2, 3]]) for token ids",
    )


def _first_shape(values):
    """Return the shape of the first tensor in `values`, which may contain tuples and dicts."""
    for value in values:
        if isinstance(value, Tensor):
            return value.shape
        inside = value.values() if isinstance(value, dict) else value
        if isinstance(value, (tuple, list, dict)):
            shape = _first_shape(inside)
            if shape is not None:
                return shape
    return None


def _sizes(shape):
    return "-" if shape is None else str(shape)


def _aligned(cells, widths):
    """Format a line of the table: the first three cells left-aligned, the others right-aligned."""
    left = [cell.ljust(width) for cell, width in zip(cells[:3], widths[:3], strict=True)]
    right = [cell.rjust(width) for cell, width in zip(cells[3:], widths[3:], strict=True)]
    return "  ".join(left + right).rstrip()
