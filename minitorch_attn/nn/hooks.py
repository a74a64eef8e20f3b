"""Module hooks: user functions that run before and after a module's forward and backward pass."""

from itertools import count

from ..autograd import modes
from ..autograd.function import Function
from ..autograd.modes import state
from ..errors import DTypeError
from ..tensor import Tensor, wrap

__all__ = ["Hooks", "RemovableHandle", "call_watched", "call_with_hooks"]

_next_key = count().__next__
_GRADIENT = (Tensor, type(None))


def is_plain(module, kind):
    """Return True if a module is of class `kind`, not of a subclass, and does not have hooks.

    A fused operation can use the parameters of such a module directly instead of calling the
    module.
    """
    return type(module) is kind and (module._hooks is None or not module._hooks.any())


def is_taken_apart():
    """Return True inside `mt.trace`, which records modules and operations one by one."""
    return bool(modes.watchers) and state.take_apart is not None


class RemovableHandle:
    """Handle that removes a registered hook with `remove()` or at the end of a `with` block.

    Parameters
    ----------
    hooks : dict
        Dictionary that contains the hook.
    entry : tuple
        The hook and its options.
    prepend : bool
        Whether the hook runs before the existing hooks.
    """

    def __init__(self, hooks, entry, prepend=False):
        self.hooks, self.key = hooks, _next_key()
        others = dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        hooks[self.key] = entry
        hooks.update(others)

    def remove(self):
        """Remove the hook. A second call does nothing."""
        self.hooks.pop(self.key, None)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.remove()


class Hooks:
    """The hooks of one module, in the order in which they run.

    Attributes
    ----------
    forward_pre, forward, backward_pre, backward : dict
        Dictionaries that map a handle's key to (hook, *options).
    """

    def __init__(self):
        self.forward_pre, self.forward = {}, {}
        self.backward_pre, self.backward = {}, {}

    def any(self):
        """Return True if the module has at least one hook."""
        return any(vars(self).values())


def call_with_hooks(module, args, kwargs):
    """Run the forward pass of a module with its hooks. Return the output.

    Parameters
    ----------
    module : Module
    args : tuple
    kwargs : dict

    Returns
    -------
    object
        Output of `forward`, or the value with which a hook replaced it.
    """
    hooks = module._hooks
    called = set()
    try:
        args, kwargs = _before(module, args, kwargs)
        seams = None
        if hooks.backward or hooks.backward_pre:
            seams = BackwardSeams(module)
            args = seams.around_inputs(args)
        output = module.forward(*args, **kwargs)
        for key, (hook, with_kwargs, _) in list(hooks.forward.items()):
            called.add(key)
            result = (
                hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
            )
            output = output if result is None else result
    except BaseException:
        for key, (hook, with_kwargs, always) in list(hooks.forward.items()):
            if always and key not in called:
                hook(module, args, kwargs, None) if with_kwargs else hook(module, args, None)
        raise
    return output if seams is None else seams.around_outputs(output)


def call_watched(module, args, kwargs):
    """Run a module's forward pass, and notify this thread's listeners of its start and end."""
    listeners = state.listeners
    for listener in listeners:
        listener.enter_module(module)
    try:
        if module._hooks is None:
            return module.forward(*args, **kwargs)
        return call_with_hooks(module, args, kwargs)
    finally:
        for listener in listeners:
            listener.leave_module(module)


def _before(module, args, kwargs):
    """Run the forward pre-hooks. Return the arguments, which the hooks may have replaced."""
    for hook, with_kwargs in list(module._hooks.forward_pre.values()):
        if with_kwargs:
            result = hook(module, args, kwargs)
            if result is not None:
                args, kwargs = _pair(result)
        else:
            result = hook(module, args)
            if result is not None:
                args = result if isinstance(result, tuple) else (result,)
    return args, kwargs


def _pair(result):
    """Return a pre-hook's result if it is a pair (args, kwargs), otherwise raise an error."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
        return result
    raise DTypeError(
        "register_forward_pre_hook: a hook with kwargs must return None or (args, kwargs)",
        got=f"{result!r:.60}",
    )


class Seam(Function):
    """Identity operation that passes the gradients of its outputs to a module's backward hooks.

    Forward:  the outputs are the inputs
    Backward: the gradients of the outputs, or the gradients that the hooks return instead
    Derivation: y = x. In the backward pass, hooks see the gradients and may replace them.
    Saved: nothing.
    """

    @staticmethod
    def forward(ctx, *inputs, deliver):
        ctx.deliver = deliver
        return inputs

    @staticmethod
    def backward(ctx, *grads):
        return ctx.deliver(grads)


class BackwardSeams:
    """Identity operations (`Seam`) at the inputs and outputs of one call of a module.

    In the backward pass, the output gradients first go through the `Seam` at the outputs. The
    module's own backward pass then computes the input gradients, which go through the `Seam` at the
    inputs. The backward hooks then receive both input and output gradients.
    """

    def __init__(self, module):
        self.module = module
        self.inputs = _Slots()
        self.outputs = _Slots()
        self.grad_output = None

    def around_inputs(self, args):
        """Return `args`, with the tensors that require grad passed through a `Seam`."""
        return self.inputs.sew(args, self._inputs_arrived)

    def around_outputs(self, output):
        """Return `output`, with the tensors that require grad passed through a `Seam`."""
        if isinstance(output, Tensor):
            return self.outputs.sew((output,), self._outputs_arrived)[0]
        if isinstance(output, tuple):
            return self.outputs.sew(output, self._outputs_arrived)
        return output

    def _outputs_arrived(self, grads):
        for hook, *_ in list(self.module._hooks.backward_pre.values()):
            grads = self._after(hook(self.module, self.outputs.spread(grads)), grads, self.outputs)
        self.grad_output = self.outputs.spread(grads)
        if not self.inputs.positions:  # no input requires a gradient
            self._run_hooks(())
        return grads

    def _inputs_arrived(self, grads):
        return self._run_hooks(grads)

    def _run_hooks(self, grads):
        if self.grad_output is None:  # the loss does not depend on the outputs
            return grads
        for hook, *_ in list(self.module._hooks.backward.values()):
            result = hook(self.module, self.inputs.spread(grads), self.grad_output)
            grads = self._after(result, grads, self.inputs)
        self.grad_output = None
        return grads

    @staticmethod
    def _after(result, grads, slots):
        """Return the gradients in a hook's result, with those in `grads` in place of None."""
        if result is None:
            return grads
        result = result if isinstance(result, tuple) else (result,)
        if len(result) != slots.count or not all(isinstance(g, _GRADIENT) for g in result):
            raise DTypeError(
                "register_full_backward_hook: the hook must return None or gradients",
                got=f"{result!r:.60}",
                expected=f"a tuple of length {slots.count}, each entry a Tensor or None",
            )
        return slots.gather(result, grads)


class _Slots:
    """Positions, within a tuple of values, of the tensors that require grad."""

    def __init__(self):
        self.positions, self.count = [], 0

    def sew(self, values, deliver):
        self.count = len(values)
        self.positions = [
            i for i, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad
        ]
        if not self.positions:
            return values
        inside = [values[i] for i in self.positions]
        result = list(values)
        for i, x, y in zip(
            self.positions, inside, Seam.apply(*inside, deliver=deliver), strict=True
        ):
            y._version = x._version  # the same memory, so the same version counter
            result[i] = y
        return tuple(result)

    def spread(self, grads):
        """Return a tuple with one entry per value of the original tuple.

        The entry is the value's gradient from `grads`, or None if the value does not require grad.
        """
        result = [None] * self.count
        for i, grad in zip(self.positions, grads, strict=True):
            result[i] = grad if isinstance(grad, Tensor) else wrap(grad)
        return tuple(result)

    def gather(self, result, grads):
        """Return one gradient per tensor that requires grad.

        It is the gradient in `result`, which the hook returned, or the one in `grads` if the hook
        returned None for this tensor.
        """
        chosen = []
        for i, grad in zip(self.positions, grads, strict=True):
            new = grad if result[i] is None else result[i]
            raw = isinstance(new, Tensor) and not isinstance(grad, Tensor)
            chosen.append(new.array if raw else new)
        return tuple(chosen)
