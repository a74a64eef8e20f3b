"""Listener: the methods that the engine calls for a recorder, a counter or a profiler.

The engine reports each operation, each `backward` and each gradient that reaches a leaf, and
`nn.Module` reports each call. Without a listener (`modes.watchers` is 0), the reports are skipped.
"""

from . import modes
from .modes import state

__all__ = ["Listener"]


class Listener:
    """Base class of listeners, called for engine events on this thread inside a `with` block.

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
        state.listeners = (*state.listeners, self)
        return self

    def __exit__(self, *exc_info):
        state.listeners = tuple(listener for listener in state.listeners if listener is not self)
        modes.watch(-1)
        return False

    def before_forward(self, ctx, inputs):
        """Called when an operation starts; `ctx` holds its function and settings."""

    def record_forward(self, ctx, inputs, outputs):
        """Called when an operation has returned `outputs`, a Tensor or a tuple of Tensors."""

    def enter_fused(self, ctx, inputs):
        """Called when the composed version of a fused operation starts."""

    def leave_fused(self, ctx, outputs):
        """Called when the composed version of a fused operation ends.

        `outputs` is None if the composed version raised an error.
        """

    def start_backward(self, roots, grads):
        """Called when a backward pass starts at `roots`, with one gradient for each root."""

    def before_backward(self, ctx, grads):
        """Called when the `backward` of an operation starts with the gradients of its outputs."""

    def record_backward(self, ctx, grads, results):
        """Called when an operation's `backward` has returned a gradient or None for each input."""

    def record_refilled(self, ctx):
        """Called when activation checkpointing has recomputed the values that `ctx` had saved."""

    def record_gradient(self, tensor):
        """Called when a gradient has been stored in, or added to, the `.grad` of a leaf."""

    def enter_module(self, module):
        """Called when a module is called, before its forward pass."""

    def leave_module(self, module):
        """Called when the module has returned or raised an error."""
