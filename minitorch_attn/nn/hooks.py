"""Hooks: functions of yours that run before, after and behind the forward of a module."""

from itertools import count

from ..autograd.function import Function
from ..autograd.modes import state
from ..tensor import Tensor, wrap

__all__ = ["Hooks", "RemovableHandle", "call_watched", "call_with_hooks"]

_next_key = count().__next__


class RemovableHandle:
    """What registering a hook returns: `remove()`, or leaving a `with` block, takes it away.

    Parameters
    ----------
    hooks : dict
        Where the hook lives.
    entry : tuple
        The hook and how it is called.
    prepend : bool
        Before the hooks that are there already.
    """

    def __init__(self, hooks, entry, prepend=False):
        self.hooks, self.key = hooks, _next_key()
        others = dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        hooks[self.key] = entry
        hooks.update(others)

    def remove(self):
        """Take the hook away; a second call does nothing."""
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
        From the key of a handle to (hook, *options).
    """

    def __init__(self):
        self.forward_pre, self.forward = {}, {}
        self.backward_pre, self.backward = {}, {}

    def any(self):
        """Whether there is one."""
        return any(vars(self).values())


def call_with_hooks(module, args, kwargs):
    """The forward of a module between its hooks.

    Parameters
    ----------
    module : Module
    args : tuple
    kwargs : dict

    Returns
    -------
    whatever forward returns, or what a hook put in its place
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
    """The same while somebody listens: the listeners of this thread are told of the call."""
    listeners = state.tracers
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
    """The arguments after the forward pre-hooks have seen and perhaps replaced them."""
    for hook, with_kwargs in list(module._hooks.forward_pre.values()):
        if with_kwargs:
            result = hook(module, args, kwargs)
            if result is not None:
                args, kwargs = result
        else:
            result = hook(module, args)
            if result is not None:
                args = result if isinstance(result, tuple) else (result,)
    return args, kwargs


class Seam(Function):
    """y_i = x_i for several tensors at once, so that their gradients arrive together.

    Derivative: 1; on its way back the gradient is shown to the hooks, which may replace it.
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
    """One call of a module, with a seam around its inputs and one around its outputs.

    The gradients of the outputs pass the outer seam before the module's own backward starts,
    those of the inputs pass the inner seam when it has ended: then the hooks can be shown both.
    """

    def __init__(self, module):
        self.module = module
        self.inputs = _Slots()
        self.outputs = _Slots()
        self.grad_output = None

    def around_inputs(self, args):
        """The same arguments, with a seam through those tensors that require grad."""
        return self.inputs.sew(args, self._inputs_arrived)

    def around_outputs(self, output):
        """The same output, tensor or tuple, with a seam through its tensors."""
        if isinstance(output, Tensor):
            return self.outputs.sew((output,), self._outputs_arrived)[0]
        if isinstance(output, tuple):
            return self.outputs.sew(output, self._outputs_arrived)
        return output

    def _outputs_arrived(self, grads):
        for hook, *_ in list(self.module._hooks.backward_pre.values()):
            grads = self._after(hook(self.module, self.outputs.spread(grads)), grads, self.outputs)
        self.grad_output = self.outputs.spread(grads)
        if not self.inputs.positions:  # nothing will come out at the other end
            self._run_hooks(())
        return grads

    def _inputs_arrived(self, grads):
        return self._run_hooks(grads)

    def _run_hooks(self, grads):
        if self.grad_output is None:  # the outputs took no part in the loss
            return grads
        for hook, *_ in list(self.module._hooks.backward.values()):
            result = hook(self.module, self.inputs.spread(grads), self.grad_output)
            grads = self._after(result, grads, self.inputs)
        self.grad_output = None
        return grads

    @staticmethod
    def _after(result, grads, slots):
        """The gradients after a hook: its own, where it returned some."""
        if result is None:
            return grads
        result = result if isinstance(result, tuple) else (result,)
        return slots.gather(result, grads)


class _Slots:
    """Which of several values are tensors that require grad, and where they stand."""

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
            y._version = x._version  # the same memory, so the same count of changes
            result[i] = y
        return tuple(result)

    def spread(self, grads):
        """One entry per value: a Tensor, or None where there is no gradient."""
        result = [None] * self.count
        for i, grad in zip(self.positions, grads, strict=True):
            result[i] = grad if isinstance(grad, Tensor) else wrap(grad)
        return tuple(result)

    def gather(self, result, grads):
        """Back from one entry per value to one per tensor, arrays where arrays were."""
        chosen = []
        for i, grad in zip(self.positions, grads, strict=True):
            new = grad if result[i] is None else result[i]
            raw = isinstance(new, Tensor) and not isinstance(grad, Tensor)
            chosen.append(new.array if raw else new)
        return tuple(chosen)
