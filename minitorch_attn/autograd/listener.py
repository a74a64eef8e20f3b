"""Listening to the engine: what a recorder, a counter or a profiler is told, and when.

The engine announces each operation, each `backward` and each gradient that arrives at a leaf, and
`nn.Module` each call. While nobody listens (`modes.watchers` is 0) that costs nothing.
"""

from . import modes
from .modes import state

__all__ = ["Listener"]


class Listener:
    """Hears what the engine does on this thread inside a `with` block; override what you need.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> class Names(Listener):
    ...     def record_forward(self, ctx, inputs, outputs):
    ...         print(ctx.function.__name__, inputs[0].shape)
    >>> x = mt.ones(2, 3)
    >>> with Names():
    ...     y = (x * 2).sum()
    Mul (2, 3)
    Sum (2, 3)
    """

    def __enter__(self):
        modes.watch(+1)
        state.tracers = (*state.tracers, self)
        return self

    def __exit__(self, *exc_info):
        state.tracers = tuple(tracer for tracer in state.tracers if tracer is not self)
        modes.watch(-1)
        return False

    def before_forward(self, ctx, inputs):
        """An operation starts; its `ctx` knows the function and the settings."""

    def record_forward(self, ctx, inputs, outputs):
        """It has run: `outputs` is a Tensor or a tuple of them."""

    def enter_fused(self, ctx, inputs):
        """A fused operation is taken apart: what runs next is its composed twin."""

    def leave_fused(self, ctx, outputs):
        """The twin has run, or raised: then `outputs` is None."""

    def start_backward(self, roots, grads):
        """A backward pass starts at these tensors with these gradients, one each."""

    def before_backward(self, ctx, grads):
        """A `backward` starts with these gradients of the outputs."""

    def record_backward(self, ctx, grads, results):
        """It has run: `results` has one gradient, or None, for each input."""

    def record_refilled(self, ctx):
        """A checkpoint has computed anew what `ctx` had saved."""

    def record_gradient(self, tensor):
        """The `.grad` of a leaf was made or added to."""

    def enter_module(self, module):
        """A module is called."""

    def leave_module(self, module):
        """It has returned, or raised."""
