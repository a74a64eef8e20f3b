"""Activation checkpointing: memory for time, by computing a part of the forward pass twice."""

import weakref

from ..backend.random import Position
from ..errors import GraphError
from ..tensor import Tensor
from .listener import Listener
from .modes import enable_grad, state

__all__ = ["checkpoint"]


def checkpoint(fn, *args, **kwargs):
    """`fn(*args, **kwargs)`, keeping its arguments for the backward pass but nothing from inside.

    What the operations inside would save is dropped as soon as each has run, and computed anew,
    all at once, when the backward pass first asks for it. With a checkpoint around each of n
    layers, memory for activations is that of n layer inputs and of one layer, at the price of a
    second forward pass (Chen et al. 2016 [1]_, section 4). Checkpoints may be nested.

    Parameters
    ----------
    fn : callable
        A module, or any function of tensors. It must do the same when called again: it draws the
        same random numbers then, and sees its arguments as they were.
    *args, **kwargs
        Tensors, also in tuples, lists and dicts, and anything else.

    Returns
    -------
    whatever `fn` returns
        The same values and the same graph as without the checkpoint, so that every gradient,
        second derivatives included, is equal to the last bit. Parameters that `fn` uses without
        being given them get theirs.

    Raises
    ------
    GraphError
        If `fn` changes a tensor that exists outside it, as batch normalisation does in training;
        if it runs a backward pass itself; in the backward pass, if what it used was changed in
        the meantime or if it does not do the same again.

    Notes
    -----
    Hooks of modules within `fn` are called both times. Under `no_grad()`, `fn` is just called.

    References
    ----------
    .. [1] "Training Deep Nets with Sublinear Memory Cost", arXiv:1604.06174v2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = mt.nn.TransformerEncoderLayer(6, 2, dropout=0.1)
    >>> x = mt.ones(5, 3, 6, requires_grad=True)
    >>> checkpoint(layer, x).sum().backward()
    >>> x.grad.shape, layer.linear1.weight.grad is not None
    ((5, 3, 6), True)
    """
    if not state.grad_enabled:
        return fn(*args, **kwargs)
    segment = _Segment(fn, args, kwargs)
    with segment:
        outputs = fn(*args, **kwargs)
    segment.close()
    return outputs


class _Segment(Listener):
    """The operations inside one checkpoint: empties them, and fills them again when asked to."""

    def __init__(self, fn, args, kwargs):
        self.fn = fn
        self.versions = {}  # of the tensors from outside: id -> (counter, value, weak tensor)
        self.inside = {}
        held = {}  # one tensor given twice stays one tensor when the function runs again
        self.inputs = _mapped((args, kwargs), Tensor, lambda x: _once(held, x, self._hold))
        self.contexts = []  # weakly: the graph keeps this object, and not the other way round
        self.steps = []  # what each operation was, to compare with
        self.start, self.end = Position(), None

    def _hold(self, tensor):
        self._see(tensor)
        return _Argument(tensor.detach(), tensor.requires_grad)

    def _see(self, tensor):
        counter = tensor._version
        if id(counter) not in self.inside and id(counter) not in self.versions:
            self.versions[id(counter)] = (counter, counter[0], weakref.ref(tensor))

    def record_forward(self, ctx, inputs, outputs):
        """Drop what the operation saved, unless a checkpoint around this one has done so."""
        for tensor in inputs:
            if isinstance(tensor, Tensor):
                self._see(tensor)
        for tensor in outputs if type(outputs) is tuple else (outputs,):
            if id(tensor._version) not in self.versions:
                self.inside[id(tensor._version)] = tensor._version
        if ctx.holds and ctx.freed is False:
            ctx.stash(self, len(self.contexts))
        self.contexts.append(weakref.ref(ctx))
        self.steps.append((ctx.function, ctx.shapes))

    def close(self):
        """The forward pass is through: refuse what could not be repeated."""
        self.inside = None
        for counter, value, tensor in list(self.versions.values()):
            if counter[0] == value:
                continue
            if tensor() is not None:
                raise GraphError(
                    f"checkpoint({_name(self.fn)}): it changes a tensor outside in place.",
                    got=f"another value of a tensor of shape {tensor().shape} than before",
                    expected="a function that can be called again with the same result",
                    hint="checkpoint the parts before and after it (batch normalisation changes "
                    "its running statistics in training)",
                )
            del self.versions[id(counter)]  # made and changed inside, and gone
        self.end = Position()
        if self.end.seed != self.start.seed:
            raise GraphError(f"checkpoint({_name(self.fn)}): it sets the random seed.")

    def bring_back(self):
        """Run the function again, and give each operation what it saved."""
        if self.end is None:
            raise GraphError(
                f"checkpoint({_name(self.fn)}): a backward pass runs inside the function.",
                got="a gradient through operations that the checkpoint has emptied",
                hint="checkpoint the parts before and after it",
            )
        for counter, value, _ in self.versions.values():
            if counter[0] != value:
                raise GraphError(
                    f"checkpoint({_name(self.fn)}): a tensor it used was changed in place since.",
                    expected="the values that the forward pass saw",
                    hint="call backward() before the optimiser's step",
                )
        again = self._run_again()
        for place, new in enumerate(again):
            old = self.contexts[place]()
            if old is not None and old.freed is self:
                old.take_over(new)
                if old.freed:  # by a checkpoint inside this one, which belongs to `old` from now on
                    old.freed.contexts[old.place] = weakref.ref(old)
                for listener in state.tracers:
                    listener.record_refilled(old)
            new.free()

    def _run_again(self):
        replay = _Replay()
        with enable_grad(), self.start.again(), replay:
            made = {}
            args, kwargs = _mapped(
                self.inputs, _Argument, lambda x: _once(made, x, _Argument.again)
            )
            self.fn(*args, **kwargs)
            end = Position()
        steps = [(ctx.function, ctx.shapes) for ctx in replay.contexts]
        if steps != self.steps or end.offset != self.end.offset:
            raise GraphError(
                f"checkpoint({_name(self.fn)}): it does not do the same when called again.",
                got=f"{_named(steps)}, random numbers up to {end.offset}",
                expected=f"{_named(self.steps)}, random numbers up to {self.end.offset}",
                hint="a function of its arguments, in the same mode (train or eval) both times",
            )
        return replay.contexts


class _Replay(Listener):
    """Collects the operations of a forward pass that is run again."""

    def __init__(self):
        self.contexts = []

    def record_forward(self, ctx, inputs, outputs):
        self.contexts.append(ctx)


class _Argument:
    """An argument as it was: the same memory, outside the graph."""

    def __init__(self, tensor, requires_grad):
        self.tensor, self.requires_grad = tensor, requires_grad

    def again(self):
        """A tensor that needs a gradient if the argument did."""
        tensor = self.tensor.detach()
        return tensor.requires_grad_() if self.requires_grad else tensor


def _once(made, x, change):
    """change(x), the same object each time for the same x."""
    if id(x) not in made:
        made[id(x)] = change(x)
    return made[id(x)]


def _mapped(value, kind, change):
    """`value` with each `kind` in it, however deep in tuples, lists and dicts, changed."""
    if isinstance(value, kind):
        return change(value)
    if type(value) is dict:
        return {name: _mapped(item, kind, change) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [_mapped(item, kind, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _name(fn):
    return getattr(fn, "__name__", type(fn).__name__)


def _named(steps):
    """The names of so many operations that the difference shows."""
    names = [function.__name__ for function, _ in steps]
    return f"{len(names)} operations" + (f", the last {names[-1]}" if names else "")
