"""Localize the operation whose backward is wrong.

Each operation that ran is checked on its own with its actual inputs, from the output backwards. The
first operation whose gradient disagrees with central differences is the faulty one. If all
gradients agree, the fault is between operations: a tensor's gradients from several uses were not
summed, or a value was detached.
"""

from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np

from .. import backend
from ..autograd import engine
from ..autograd.inplace import WriteThrough
from ..autograd.modes import enable_grad
from ..autograd.op_log import definition, op_log
from ..errors import MiniTorchError
from ..tensor import wrap
from .numeric import Perturbed, argument_names, as_cotangents, host_normal
from .report import Hint, wrapped

__all__ = ["Fault", "find_fault"]

_DETAIL = 20_000  # maximum number of entries of an input for a diagnosis


@dataclass
class Fault:
    """Operation at which a gradient becomes wrong, with hints about the cause.

    Attributes
    ----------
    headline : str
    step : Step
        Operation at which the gradient becomes wrong.
    hints : list of Hint
    report : GradcheckReport or None
        Report of a gradient check of this operation alone. None if every operation is correct on
        its own.
    is_whole : bool
        Whether the checked function consists of this operation only.
    """

    headline: str
    step: object
    hints: list = field(default_factory=list)
    report: object = None
    is_whole: bool = False

    def __str__(self):
        return "\n".join(self.lines())

    def lines(self, known=()):
        """Return the lines that describe the fault, omitting the hints in `known`."""
        step = self.step
        lines = wrapped(self.headline, "    ", "  ")
        lines += _place("used at", step.line)
        if step.called_at != step.line:
            lines += _place("called at", step.called_at)
        for label in ("forward", "backward"):
            found = definition(getattr(step.function, label))
            lines += [] if found is None else [f"    {label:<10} {found.place}"]
        for item in self.report.items if self.report is not None else ():
            if not item.ok:
                lines.append(f"    its input  {item.name} {item.shape}: error {item.error:.1e}")
                lines += _guesses(item.hints, known)
        lines += _guesses(self.hints if self.report is None else self.report.problems, known)
        return lines


def _place(label, line):
    return wrapped(str(line), " " * 15, f"    {label:<10} ")


def _guesses(hints, known):
    new = [hint.text for hint in hints if hint.text not in known]
    return [line for text in new for line in wrapped(text, " " * 15, "    likely     ")]


def find_fault(check, wrong):
    """Find the first fault of a failed check, from the output backwards.

    Parameters
    ----------
    check : Check
    wrong : bool
        Whether a gradient of the whole function is wrong. If not, only individual operations are
        examined.

    Returns
    -------
    Fault or None
    """
    if check.options.second_order_of is not None:
        fn, count = check.options.second_order_of
        with op_log(copies=True) as steps, enable_grad():
            fn(*check.inputs[:count])
        return _wrong_operation(check, steps, second_order=True)
    with op_log(copies=True) as steps, enable_grad():
        outputs = check.probe.outputs()
        found, arrived = _run(check, outputs)
    fault = _wrong_operation(check, steps)
    if fault is None and wrong:
        fault = _wrong_sum(check, steps, found, arrived) or _cut(check, steps)
    return fault


def _run(check, outputs):
    """Run the backward pass; return the gradients of the leaves and of the outputs."""
    given = as_cotangents(check.probe.cotangent.copy(), outputs)
    pairs = [(o, g) for o, g in zip(outputs, given, strict=True) if o.requires_grad]
    if not pairs:
        return [None] * len(check.leaves), []
    roots, grads = zip(*pairs, strict=True)
    arrived = [(root._current_edge(), g.array.copy()) for root, g in pairs]
    found = engine.run_backward(roots, grads, targets=check.leaves, retain_graph=True)
    return found, arrived


def _wrong_operation(check, steps, second_order=False):
    for step in reversed(steps):
        recorded = any(edge is not None for edge in step.context.edges)
        if not recorded or step.function is WriteThrough:
            continue
        orders = ((False, "backward pass"), (True, "second derivative"))
        for order, what in orders[: 1 + second_order]:
            report = _check_alone(check, step, order)
            if report is None or report.ok:
                continue
            headline = (
                f"Going back from the output, the first operation whose own {what} is wrong: "
                f"{step.op}, step {step.number} of {len(steps)}."
            )
            return Fault(headline, step, report.hints, report, is_whole=len(steps) == 1)
    return None


def _check_alone(check, step, second_order):
    """Check the gradient of one operation on its actual inputs."""
    inputs, names = [], argument_names(step.function.apply, len(step.inputs))
    for array, edge in zip(step.inputs, step.context.edges, strict=True):
        if not backend.is_array(array):
            inputs.append(array)
            continue
        inputs.append(wrap(array.copy()))
        if edge is not None:
            inputs[-1].requires_grad = True
    options = replace(
        check.options, fast=True, detail=_DETAIL, localize=False, names=names, second_order_of=None
    )

    def alone(*values):
        return step.function.apply(*values, **step.settings)

    try:
        return check.check_again(alone, tuple(inputs), options, second_order)
    except MiniTorchError:
        return None


def _wrong_sum(check, steps, found, arrived):
    """Find a tensor whose gradient is not the sum of the gradients from all its uses."""
    shares = {}
    for edge, grad in arrived:
        shares.setdefault(edge, []).append(backend.to_host(grad))
    for step in reversed(steps):
        if step.grads is None:
            continue
        for index, grad in enumerate(step.grads):
            parts = shares.get((step.context, index))
            if parts and not _close(backend.to_host(grad), sum(parts)):
                what = f"output of {step.op}, step {step.number} of {len(steps)}"
                return _sum_fault(what, step, parts, backend.to_host(grad))
        for edge, result in zip(step.context.edges, step.results, strict=True):
            if edge is not None and result is not None:
                shares.setdefault(tuple(edge), []).append(backend.to_host(result))
    for (name, leaf), grad in zip(check.named, found, strict=True):
        parts = shares.get(tuple(leaf._current_edge()))
        if parts and grad is not None and not _close(backend.to_host(grad), sum(parts)):
            users = [s for s in steps if leaf._current_edge() in s.context.edges]
            return _sum_fault(name, users[0], parts, backend.to_host(grad))
    return None


def _sum_fault(what, step, parts, got):
    headline = (
        "The backward of every operation is correct, but between operations the gradient of "
        f"{what} becomes wrong."
    )
    count = len(parts)
    text = f"{count} gradients arrive there, but their sum is not passed on"
    if count == 1:
        text = "the gradient that arrives is not passed on: a hook replaces it, or an "
        text += "operation writes to memory that it shares with another"
    for i, part in enumerate(parts):
        if count > 1 and _close(got, part):
            which = "first" if i == 0 else "last" if i == count - 1 else f"number {i + 1}"
            text = f"the tensor is used {count} times, but only the {which} gradient is kept: the "
            text += "gradients of its uses must be added with `+=`, not assigned with `=`"
        elif count > 1 and _close(got, sum(parts) + part):
            text = f"the tensor is used {count} times, but the gradient of one use is counted twice"
    if step.context.hooks:
        text += " (it has a hook)"
    return Fault(headline, step, [Hint("accumulation", text + ".")])


def _close(a, b):
    size = np.abs(b).max(initial=0.0)
    return a.shape == b.shape and np.abs(a - b).max(initial=0.0) <= 1e-9 * size


def _cut(check, steps):
    """Find an operation's input that is detached, although it depends on the checked inputs."""
    with ExitStack() as stack, op_log(copies=True) as again, enable_grad():
        for number, leaf in enumerate(check.leaves):
            values = backend.to_host(leaf.array)
            shift = host_normal(values.size, number).reshape(values.shape)
            moved = stack.enter_context(Perturbed(leaf))
            moved.replace((values + 1e-3 * shift).astype(values.dtype))
        check.probe.outputs()
    for step, other in zip(steps, again, strict=False):
        if step.function is not other.function:
            return None
        for i, edge in enumerate(step.context.edges):
            if edge is None and _changed(step.inputs[i], other.inputs[i]):
                headline = (
                    "The backward of every operation is correct, but a value leaves the graph: "
                    f"{step.op}, step {step.number} of {len(steps)}, takes its input {i} "
                    "without a gradient although that input depends on a checked input."
                )
                hint = Hint(
                    "cut",
                    "detach(), .data, .numpy(), .item(), float() or no_grad() is used between the "
                    "checked input and this line.",
                )
                return Fault(headline, step, [hint])
    return None


def _changed(before, after):
    if isinstance(before, (int, float)):
        return before != after
    if not backend.is_array(before) or before.dtype.kind != "f" or before.shape != after.shape:
        return False
    return not np.array_equal(backend.to_host(before), backend.to_host(after), equal_nan=True)
