"""Activation checkpointing: save memory by computing part of the forward pass twice."""

import weakref

from ..backend.random import Position
from ..errors import DTypeError, GraphError
from ..named_errors import names_arguments
from ..tensor import Tensor
from .autocast import using_casts
from .listener import Listener
from .modes import enable_grad, state
from .nested import mapped

__all__ = ["checkpoint"]


@names_arguments
def checkpoint(fn, *args, **kwargs):
    """Call `fn(*args, **kwargs)` and keep only its arguments for the backward pass.

    Each operation in `fn` drops its saved arrays as soon as it has run. When the backward pass
    first needs one of these arrays, `fn` runs again and recomputes all of them. With a checkpoint
    around each of n layers, memory holds n layer inputs and the activations of one layer, at the
    cost of a second forward pass (Chen et al. 2016 [1]_, section 4). Checkpoints may be nested.

    Parameters
    ----------
    fn : callable
        Module or function of tensors. When it is called again with the same random numbers and the
        same arguments, it must run the same operations.
    *args, **kwargs
        Arguments of any type; tensors may be nested in tuples, lists and dicts.

    Returns
    -------
    whatever `fn` returns
        The same values and the same graph as without the checkpoint, so all gradients and second
        derivatives are the same to the last bit. Parameters that `fn` uses but does not take as
        arguments also receive their gradients.

    Raises
    ------
    GraphError
        If `fn` runs a backward pass, or changes in place a tensor that it did not create, as batch
        normalization does in training. The backward pass raises the error if a tensor that `fn`
        used has changed since, or if the second call of `fn` does not match the first.

    Notes
    -----
    Hooks of modules in `fn` run in both forward passes. Under `no_grad()`, `fn` is called once.

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
    if not callable(fn):
        raise DTypeError("checkpoint: fn must be callable", got=f"fn={fn!r:.60}")
    if not state.grad_enabled:
        return fn(*args, **kwargs)
    segment = _Segment(fn, args, kwargs)
    with segment, using_casts(segment.autocast):
        outputs = fn(*args, **kwargs)
    segment.close()
    return outputs


class _Segment(Listener):
    """Listener that drops the arrays saved in a checkpoint and recomputes them when needed."""

    def __init__(self, fn, args, kwargs):
        self.fn = fn
        self.versions = {}  # outside tensors: id(counter) -> (counter, value, weak reference)
        self.inside = {}
        held = {}  # a tensor passed twice is one tensor in the second run, too
        self.inputs = mapped((args, kwargs), Tensor, lambda x: _once(held, x, self._hold))
        self.contexts = []  # weak references, because the graph keeps this object alive
        self.steps = []  # operations of the first run, for comparison
        self.start, self.end = Position(), None
        # With a cache of converted weights, the second run would convert fewer tensors.
        self.autocast = state.autocast and state.autocast.without_cache()

    def _hold(self, tensor):
        self._see(tensor)
        return _Argument(tensor.detach(), tensor.requires_grad)

    def _see(self, tensor):
        counter = tensor._version
        if id(counter) not in self.inside and id(counter) not in self.versions:
            self.versions[id(counter)] = (counter, counter[0], weakref.ref(tensor))

    def record_forward(self, ctx, inputs, outputs):
        """Drop the arrays that the operation saved, unless an outer checkpoint has dropped them."""
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
        """End the forward pass; raise an error if running `fn` again would change the result."""
        self.inside = None
        for counter, value, tensor in list(self.versions.values()):
            if counter[0] == value:
                continue
            if tensor() is not None:
                raise GraphError(
                    f"checkpoint({_name(self.fn)}): fn changed a tensor that it did not create",
                    got=f"new values in a tensor of shape {tensor().shape}",
                    expected="a function that can be called again with the same result",
                    hint="use separate checkpoints for the code before and after the change (batch "
                    "normalization changes its running statistics in training)",
                )
            del self.versions[id(counter)]  # a tensor that fn created, changed and deleted
        self.end = Position()
        if self.end.seed != self.start.seed:
            raise GraphError(
                f"checkpoint({_name(self.fn)}): the function must not set the random seed",
                hint="call manual_seed() before the checkpoint",
            )

    def bring_back(self):
        """Run the function again to restore the arrays that its operations had saved."""
        if self.end is None:
            raise GraphError(
                f"checkpoint({_name(self.fn)}): the function must not run a backward pass",
                got="a gradient through operations whose saved arrays were dropped",
                hint="use separate checkpoints for the code before and after the backward pass",
            )
        for counter, value, _ in self.versions.values():
            if counter[0] != value:
                raise GraphError(
                    f"checkpoint({_name(self.fn)}): a tensor that fn used was changed in place",
                    expected="the values that the forward pass used",
                    hint="call backward() before the optimizer's step",
                )
        again = self._run_again()
        for place, new in enumerate(again):
            old = self.contexts[place]()
            if old is not None and old.freed is self:
                old.take_over(new)
                if old.freed:
                    # An inner checkpoint dropped the arrays of `new`. Now it must restore `old`.
                    old.freed.contexts[old.place] = weakref.ref(old)
                for listener in state.listeners:
                    listener.record_refilled(old)
            new.free()

    def _run_again(self):
        replay = _Replay()
        with enable_grad(), self.start.again(), replay, using_casts(self.autocast):
            made = {}
            args, kwargs = mapped(self.inputs, _Argument, lambda x: _once(made, x, _Argument.again))
            self.fn(*args, **kwargs)
            end = Position()
        steps = [(ctx.function, ctx.shapes) for ctx in replay.contexts]
        if steps != self.steps or end.offset != self.end.offset:
            raise GraphError(
                f"checkpoint({_name(self.fn)}): the second call does not match the first one",
                got=f"{_named(steps)}, random numbers up to {end.offset}",
                expected=f"{_named(self.steps)}, random numbers up to {self.end.offset}",
                hint="make fn depend on its arguments only, in the same mode (train or eval)",
            )
        return replay.contexts


class _Replay(Listener):
    """Listener that collects the operations of a checkpoint's second forward pass."""

    def __init__(self):
        self.contexts = []

    def record_forward(self, ctx, inputs, outputs):
        self.contexts.append(ctx)


class _Argument:
    """Tensor argument of the checkpoint: detached, but in the memory of the original tensor."""

    def __init__(self, tensor, requires_grad):
        self.tensor, self.requires_grad = tensor, requires_grad

    def again(self):
        """Return the argument for the second run: detached, with its original `requires_grad`."""
        tensor = self.tensor.detach()
        return tensor.requires_grad_() if self.requires_grad else tensor


def _once(made, x, change):
    """Return `change(x)`, computed once for each object x and then stored in `made`."""
    if id(x) not in made:
        made[id(x)] = change(x)
    return made[id(x)]


def _name(fn):
    return getattr(fn, "__name__", type(fn).__name__)


def _named(steps):
    """Describe the operations for an error: their number, and the name of the last one."""
    names = [function.__name__ for function, _ in steps]
    return f"{len(names)} operations" + (f", the last {names[-1]}" if names else "")
