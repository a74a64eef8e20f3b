"""Record the memory blocks held by tensors and the autograd graph, using weak references."""

import weakref

from ..autograd.listener import Listener
from ..autograd.op_log import calling_lines
from ..backend import is_array
from ..backend.devices import memory_of
from ..errors import DTypeError
from ..nn import Parameter
from ..nn.module import Module
from ..optim.optimizer import Optimizer
from ..tensor import Tensor
from .block import GRADIENT, KINDS, ON_ITS_WAY, OPTIMIZER, PARAMETER, RESULT, YOURS, Block, Keep
from .table import peak_table

__all__ = ["MemoryTracker", "track"]


class MemoryTracker(Listener):
    """Records the memory that tensors and the autograd graph hold inside a `with` block.

    A memory block is counted once, no matter how many views it has. The count starts when an
    operation creates the block, and ends when nothing refers to it any more. A block that no
    operation created, such as a parameter, is counted from its first use. If its owner (a module or
    an optimizer) is one of the arguments `owners`, it is counted from the start. The tracker does
    not record temporary memory within an operation, or the memory of other threads.

    Parameters
    ----------
    *owners : Module or Optimizer
        Objects whose parameters, buffers, gradients and state are counted from the start.

    Attributes
    ----------
    peak, peak_moment : int
        Maximum number of bytes held, and the moment at which it is reached (see `Block`).
    peak_op : str
        Operation that was running when the memory reached its peak.
    held : int
        Number of bytes held now, or at the end of the `with` block.
    blocks : list of Block
        All recorded blocks.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.ones(1000, requires_grad=True)
    >>> with mt.memory.track() as memory:
    ...     y = x.exp()
    ...     z = y.reshape(10, 100).tanh()
    >>> memory.peak
    12000
    >>> [(block.op, block.kind_at(memory.peak_moment)) for block in memory.at_peak()]
    [('-', 'your tensor'), ('Exp', 'saved for backward'), ('Tanh', 'saved for backward')]
    """

    def __init__(self, *owners):
        self.owners = owners
        self.peak = self.held = self.peak_moment = 0
        self.peak_op = "-"
        self.blocks = []
        self._moments = [0]  # bytes held after each change
        self._live = {}  # id of the array that owns the memory -> (Block, weak reference)
        self._keepers = {}  # id of a Context -> (its Keeps, weak reference)
        self._lines = {}  # number of a Context -> Line
        self._pending = []  # Contexts that may have been emptied since the last event
        self._running = "-"
        self._open = True

    def __enter__(self):
        self._see_owners()
        return super().__enter__()

    def __exit__(self, *exc_info):
        self._settle()
        self._see_owners()  # an optimizer creates its state in its first step
        self._open = False
        self._live.clear()
        self._keepers.clear()
        return super().__exit__(*exc_info)

    # Hooks called by the engine

    def before_forward(self, ctx, inputs):
        self._settle()

    def record_forward(self, ctx, inputs, outputs):
        self._settle()
        self._running = name = ctx.function.__name__
        line = calling_lines()[0]
        for value in inputs:
            if isinstance(value, Parameter):
                self._see(value, PARAMETER)
            elif isinstance(value, Tensor):
                self._see(value, YOURS)
            else:
                self._see(value, RESULT, name, line)  # created for this operation, such as a mask
        for output in outputs if type(outputs) is tuple else (outputs,):
            self._see(output, RESULT, name, line)
        if hasattr(ctx, "number"):
            self._lines[ctx.number] = line
        self._keep(ctx, line)

    def record_refilled(self, ctx):
        self._settle()
        self._keep(ctx, self._lines.get(ctx.number))

    def before_backward(self, ctx, grads):
        self._settle()
        self._see_gradients(ctx, grads, f"gradient of {ctx.function.__name__}")

    def record_backward(self, ctx, grads, results):
        self._settle()
        self._see_gradients(ctx, results, f"{ctx.function.__name__}.backward")
        if id(ctx) in self._keepers:
            self._pending.append(weakref.ref(ctx))  # the engine frees the context next

    def record_gradient(self, tensor):
        self._settle()
        self._running = "backward"
        block = self._see(tensor.grad, GRADIENT, "gradient")
        block.made_as = GRADIENT

    def _see_gradients(self, ctx, grads, name):
        self._running = name
        line = self._lines.get(getattr(ctx, "number", None))
        for grad in grads:
            self._see(grad, ON_ITS_WAY, name, line)

    def _see_owners(self):
        for owner in self.owners:
            if isinstance(owner, Optimizer):
                for state in owner.state.values():
                    for value in state.values():
                        self._see(value, OPTIMIZER)
                continue
            for parameter in owner.parameters():
                self._see(parameter, PARAMETER)
                if parameter.grad is not None:
                    self._see(parameter.grad, GRADIENT, "gradient")
            for buffer in owner.buffers():
                self._see(buffer, YOURS)

    # Blocks

    def _see(self, value, kind, op="-", line=None):
        """Return the block that holds `value`, or None for a number. Create the block if needed."""
        array = value.array if isinstance(value, Tensor) else value
        if not is_array(array) or array.nbytes == 0 or not type(array).__weakrefoffset__:
            return None
        owner, nbytes = memory_of(array)
        key = id(owner)
        if key in self._live:
            return self._live[key][0]
        self._change(nbytes)
        whole = owner if getattr(owner, "nbytes", None) == nbytes else array
        block = Block(kind, op, whole, nbytes, line, len(self._moments) - 1)
        self._live[key] = (block, weakref.ref(owner, lambda _: self._died(key)))
        self.blocks.append(block)
        return block

    def _died(self, key):
        if self._open and key in self._live:
            block, _ = self._live.pop(key)
            self._change(-block.nbytes)
            block.died = len(self._moments) - 1

    def _change(self, nbytes):
        self.held += nbytes
        self._moments.append(self.held)
        if self.held > self.peak:
            self.peak, self.peak_moment = self.held, len(self._moments) - 1
            self.peak_op = self._running

    # Memory kept by the graph

    def _keep(self, ctx, line):
        """Record that `ctx` keeps its blocks from now on.

        The record ends when `ctx` frees its arrays or is deleted.
        """
        if not ctx.holds or id(ctx) in self._keepers:
            return
        keeps, name = [], ctx.function.__name__
        start = len(self._moments) - 1
        for array in (*ctx._saved, *ctx._constant, *(ctx._intermediate or ())):
            block = self._see(array, RESULT, name, line)
            if block is not None:
                keeps.append(Keep(name, start))
                block.keeps.append(keeps[-1])
        key = id(ctx)
        self._keepers[key] = (keeps, weakref.ref(ctx, lambda _: self._let_go(key)))
        self._pending.append(weakref.ref(ctx))  # a checkpoint may empty the context at once

    def _let_go(self, key):
        for keep in self._keepers.pop(key, ((), None))[0]:
            keep.stop = len(self._moments)  # from the next change on, the block is not kept

    def _settle(self):
        """End the `Keep`s of the contexts that were freed since this method was last called."""
        pending, self._pending = self._pending, []
        for reference in pending:
            ctx = reference()
            if ctx is not None and ctx.freed:
                self._let_go(id(ctx))

    # Results

    def at_peak(self):
        """Return the memory blocks held at the peak, the largest first.

        Returns
        -------
        list of Block
        """
        held = [block for block in self.blocks if block.lives_at(self.peak_moment)]
        return sorted(held, key=lambda block: -block.nbytes)

    def by_kind(self):
        """Return the number of bytes in use at each moment, for each kind of memory block.

        See `Block` for the definition of a moment.

        Returns
        -------
        dict of str to list of int
        """
        steps = {kind: [0] * (len(self._moments) + 1) for kind in KINDS}
        for block in self.blocks:
            moments = block.moments()
            ends = [*moments[1:], len(self._moments)]
            for start, stop in zip(moments, ends, strict=True):
                if block.lives_at(start) and start < stop:
                    kind = block.kind_at(start)
                    steps[kind][start] += block.nbytes
                    steps[kind][stop] -= block.nbytes
        return {kind: _running_sum(changes)[:-1] for kind, changes in steps.items()}

    def table(self, rows=20):
        """Return a text table of the blocks that were held at the peak. Equal blocks share a row.

        Parameters
        ----------
        rows : int
            Maximum number of rows. A line below them states the total size of the other blocks.
        """
        return peak_table(self, rows)

    def __str__(self):
        return self.table()

    def save_picture(self, path):
        """Plot the memory of each kind of block over time, and write the figure to a PNG file.

        Parameters
        ----------
        path : str or path
        """
        from ..viz import memory_figure
        from ..viz.style import save_figure

        save_figure(memory_figure(self.by_kind(), self.peak_moment, self.peak_op), path)


def track(*owners):
    """Record the memory that tensors and the autograd graph hold inside a `with` block.

    Parameters
    ----------
    *owners : Module or Optimizer
        Objects whose parameters, buffers, gradients and state are counted from the start. The
        memory of other objects is counted from its first use.

    Returns
    -------
    MemoryTracker

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.nn.Linear(3, 5)
    >>> with mt.memory.track() as memory:
    ...     y = model(mt.ones(2, 3))
    >>> memory.peak == 4 * (2 * 3 + 5 * 3 + 5 + 2 * 5)  # input, weight, bias, output
    True
    """
    for owner in owners:
        if not isinstance(owner, (Module, Optimizer)):
            raise DTypeError(
                "memory.track: owners must be modules or optimizers",
                got=type(owner).__name__,
                hint="track the model; a tensor is counted from its first use",
            )
    return MemoryTracker(*owners)


def _running_sum(changes):
    total, sums = 0, []
    for change in changes:
        total += change
        sums.append(total)
    return sums
