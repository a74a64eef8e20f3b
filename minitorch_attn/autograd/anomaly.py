"""Anomaly detection: the NaN checks that `detect_anomaly` turns on."""

import os
import traceback

from ..errors import NumericError

__all__ = ["check_forward", "check_backward", "caller"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def caller():
    """Return the innermost stack frame outside this package: the user's line that called into it.

    Returns
    -------
    traceback.FrameSummary
    """
    stack = traceback.extract_stack()
    outside = [frame for frame in stack if not frame.filename.startswith(_PACKAGE)]
    return (outside or stack)[-1]


def _place(frame):
    return f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}"


def _has_nan(array):
    return array.dtype.kind == "f" and bool((array != array).any())


def check_forward(ctx, outputs):
    """Remember the line that called this operation; raise an error if an output contains NaN."""
    frame = caller()
    ctx.created_at = frame
    for output in outputs if type(outputs) is tuple else (outputs,):
        if _has_nan(output.array):
            raise NumericError(
                f"{ctx.function.__name__}.forward returned NaN",
                got=f"an output of shape {output.shape}; forward was called at {_place(frame)}",
                hint="check the inputs of that line: NaN results from the log or sqrt of a "
                "negative number, 0/0, inf - inf, or a softmax row with no allowed entry",
            )


def check_backward(ctx, grads):
    """Raise an error if `backward` returned NaN, and name the line that called the operation."""
    for i, grad in enumerate(grads):
        if grad is not None and _has_nan(getattr(grad, "array", grad)):
            where = f"; forward was called at {_place(ctx.created_at)}" if ctx.created_at else ""
            raise NumericError(
                f"{ctx.function.__name__}.backward returned NaN in the gradient of its input {i}",
                got=f"a gradient of shape {grad.shape}{where}",
                hint="look for an infinite derivative, such as that of sqrt at 0, "
                "and for 0 * inf in a masked branch",
            )
