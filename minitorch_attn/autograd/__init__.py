"""Autograd (automatic differentiation): the graph of operations and the backward pass."""

from importlib import import_module

from .. import backend
from ..absent_names import absent
from ..errors import ArgumentError, DTypeError, GraphError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor, wrap
from . import engine
from .broadcasting import broadcast_shapes, sum_to_shape
from .function import Context, Function, Leaf
from .modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from .op_log import OpLog, Step, op_log

__all__ = [
    "Context", "Function", "Leaf", "backward", "broadcast_shapes", "detect_anomaly", "enable_grad",
    "grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled", "sum_to_shape",
]  # fmt: skip


def _as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _roots(outputs, gradients, where):
    """Return the incoming gradient of each output. The default for a one-element output is 1."""
    gradients = _as_list(gradients)
    if len(gradients) == 1 and gradients[0] is None:
        gradients = [None] * len(outputs)
    if len(gradients) != len(outputs):
        raise ArgumentError(
            f"{where}: outputs and gradients must have the same length",
            got=f"{len(outputs)} outputs and {len(gradients)} gradients",
        )
    return [_incoming(o, g, where) for o, g in zip(outputs, gradients, strict=True)]


def _incoming(output, gradient, where):
    if not isinstance(output, Tensor):
        raise DTypeError(f"{where}: outputs must be Tensors", got=f"{output!r:.60}")
    if not output.requires_grad:
        raise GraphError(
            f"{where}: the tensor does not have a graph",
            got=f"a tensor of shape {output.shape} with requires_grad=False",
            hint="set requires_grad=True on an input, and compute the tensor outside no_grad()",
        )
    if gradient is None:
        if output.array.size != 1:
            raise GraphError(
                f"{where}: gradient= must be given unless the output has exactly one element",
                got=f"an output of shape {output.shape}",
                hint="reduce it to a loss first, or pass gradient= with the shape of the output",
            )
        return wrap(backend.like(1, output.array).reshape(output.shape))
    if not isinstance(gradient, Tensor):
        gradient = wrap(backend.like(gradient, output.array))
    if gradient.shape != output.shape:
        raise ShapeError(
            f"{where}: the shape of the gradient does not match the shape of the output",
            got=f"{gradient.shape}",
            expected=f"{output.shape}",
        )
    if gradient.dtype != output.dtype:
        gradient = gradient.to(output.dtype)
    return gradient


@names_arguments
def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Add the gradients of `tensors` to the `.grad` of the leaves that they depend on.

    Parameters
    ----------
    tensors : Tensor or sequence of Tensor
        Results, such as a loss, where the backward pass starts.
    grad_tensors : Tensor or sequence of Tensor, optional
        Gradient dL/d(tensor) for each tensor; by default 1 for one-element tensors.
    retain_graph : bool, optional
        Whether to keep the saved buffers for another pass; the same as `create_graph` by default.
    create_graph : bool
        Whether to record the backward pass itself, for second derivatives.
    inputs : sequence of Tensor, optional
        Tensors to which gradients are added; by default all leaves.
    """
    outputs = _as_list(tensors)
    grads = _roots(outputs, grad_tensors, "backward()")
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        engine.run_backward(outputs, grads, retain_graph=retain, create_graph=create_graph)
        return
    inputs = _as_list(inputs)
    for target in inputs:
        if not isinstance(target, Tensor) or not target.requires_grad:
            raise GraphError(
                "backward(): inputs must be Tensors that require grad", got=f"{target!r:.60}"
            )
    found = engine.run_backward(
        outputs, grads, targets=inputs, retain_graph=retain, create_graph=create_graph
    )
    for target, gradient in zip(inputs, found, strict=True):
        if gradient is not None:
            engine.accumulate(target, gradient, create_graph)


@names_arguments
def grad(
    outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=None,
    materialize_grads=False,
):  # fmt: skip
    """Return the gradients of `outputs` with respect to `inputs`, without changing any `.grad`.

    Parameters
    ----------
    outputs, inputs : Tensor or sequence of Tensor
    grad_outputs, retain_graph : optional
        See `grad_tensors` and `retain_graph` of `backward`.
    create_graph : bool
        Whether the returned gradients can be differentiated again.
    allow_unused : bool, optional
        Whether to return None for an input that no output depends on, instead of raising an error.
    materialize_grads : bool
        Whether to return zeros instead of None for such an input.

    Returns
    -------
    tuple of Tensor or None, with one entry per input

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.tensor([2.0], requires_grad=True)
    >>> (slope,) = grad(x * x * x, x, create_graph=True)
    >>> slope.item(), grad(slope, x)[0].item()
    (12.0, 12.0)
    """
    outputs, inputs = _as_list(outputs), _as_list(inputs)
    for i, target in enumerate(inputs):
        if not isinstance(target, Tensor):
            raise DTypeError("autograd.grad: inputs must be Tensors", got=f"{target!r:.60}")
        if not target.requires_grad:
            raise GraphError(
                f"autograd.grad: input {i} does not require grad",
                got=f"a tensor of shape {target.shape}",
                hint="call x.requires_grad_() before you compute the outputs",
            )
    grads = _roots(outputs, grad_outputs, "autograd.grad")
    retain = create_graph if retain_graph is None else retain_graph
    found = engine.run_backward(
        outputs, grads, targets=inputs, retain_graph=retain, create_graph=create_graph
    )
    may_be_unused = materialize_grads if allow_unused is None else allow_unused
    results, used = [], {id(g.array) for g in grads}
    for i, (target, gradient) in enumerate(zip(inputs, found, strict=True)):
        if gradient is None:
            if not may_be_unused:
                raise GraphError(
                    f"autograd.grad: input {i} was not used to compute the outputs",
                    hint="pass allow_unused=True to get None for this input",
                )
            results.append(_zeros_like(target) if materialize_grads else None)
        elif create_graph:
            results.append(gradient)
        else:
            gradient = backend.as_array(gradient)
            own = gradient.flags.owndata and id(gradient) not in used
            results.append(wrap(gradient if own else gradient.copy()))
            used.add(id(gradient))
    return tuple(results)


def _zeros_like(tensor):
    return wrap(backend.zeros_like_device(tensor.array, tensor.shape, tensor.dtype))


from .checkpoint import checkpoint  # noqa: E402

__all__ += ["OpLog", "Step", "checkpoint", "op_log"]

# `torch.autograd` has these names, too. Here, `gradcheck/` has them and is imported on first use.
_GRADCHECK = {
    "GradcheckError", "GradcheckItem", "GradcheckReport", "Hint", "gradcheck", "gradcheck_module",
    "gradcheck_module_report", "gradcheck_report", "gradgradcheck", "gradgradcheck_report",
    "presets",
}  # fmt: skip


def __getattr__(name):
    if name in _GRADCHECK:
        return getattr(import_module("minitorch_attn.gradcheck"), name)
    return absent(__name__)(name)
