"""Run a gradient check, from validating the inputs to building the report."""

from dataclasses import dataclass, field, replace

import numpy as np

from .. import backend
from ..autograd import engine
from ..autograd.modes import enable_grad, is_grad_enabled, no_grad
from ..errors import ArgumentError, DTypeError
from ..tensor import Tensor, wrap
from .compare import compare
from .diagnose import explain, gather_evidence
from .localize import find_fault
from .numeric import Probe, argument_names, as_cotangents, float_outputs, host_normal
from .report import GradcheckReport, Hint

__all__ = ["Check", "Options", "second_order_check"]


@dataclass
class Options:
    """Options of a gradient check; see `gradcheck_report`."""

    eps: float = 1e-5
    tol: float = 1e-6
    seed: int = 0
    fast: bool = False
    detail: int = 2000
    localize: bool = True
    allow_float32: bool = False
    names: list = field(default_factory=list)
    title: str = "gradcheck"
    second_order_of: tuple | None = None  # (function, number of its inputs)

    @classmethod
    def of(cls, fn, inputs, given, title="gradcheck"):
        """Create options from keyword arguments, with a name for every input."""
        names = given.get("names") or argument_names(fn, len(inputs))
        if len(names) != len(inputs):
            raise ArgumentError(
                f"{title}: the number of names does not match the number of inputs",
                got=f"{len(names)} names and {len(inputs)} inputs",
            )
        return cls(**{**given, "names": list(names), "title": title})


class Check:
    """A gradient check of a function at given inputs.

    Parameters
    ----------
    fn : callable
    inputs : tuple
    options : Options
    """

    def __init__(self, fn, inputs, options):
        self.fn, self.inputs, self.options = fn, inputs, options
        self.named = [
            (name, x)
            for name, x in zip(options.names, inputs, strict=False)
            if isinstance(x, Tensor) and x.requires_grad
        ]
        self.leaves = [leaf for _, leaf in self.named]
        self.problems = []

    def run(self):
        """Run the check.

        Returns
        -------
        GradcheckReport
        """
        self.refuse_bad_inputs()
        self.probe = Probe(self.fn, self.inputs)
        try:
            derived = self._derive()
            items = [
                compare(self.probe, name, leaf, gradient, self.options, self._gradient_of(i))
                for i, ((name, leaf), gradient) in enumerate(zip(self.named, derived, strict=True))
            ]
            self._only_sometimes_random()
            report = GradcheckReport(
                [item for item, _ in items], self.problems, title=self.options.title
            )
            report.notes = self._notes()
            if not report.ok:
                self._explain(report, [jacobian for _, jacobian in items])
        finally:
            self.probe.close()
        return report

    def refuse_bad_inputs(self):
        """Raise an error for inputs that cannot be checked meaningfully."""
        title = self.options.title
        if not self.leaves:
            raise ArgumentError(
                f"{title}: at least one of inputs must require grad",
                hint="create an input with mt.tensor(..., dtype=mt.float64, requires_grad=True)",
            )
        for name, leaf in self.named:
            if leaf.dtype != np.float64 and not self.options.allow_float32:
                raise DTypeError(
                    f"{title}: {name} must have dtype float64",
                    got=f"{leaf.dtype} (at most 7 digits); with step size 1e-05, the error would "
                    "be near 1e-2 even for a correct gradient",
                    expected="float64",
                    hint="call x.double() or module.double(), or check in float32 with "
                    "allow_float32=True, eps=1e-3, tol=1e-2",
                )
            if _overlaps_itself(leaf.array):
                raise ArgumentError(
                    f"{title}: entries of {name} must not share memory",
                    got=f"shape {leaf.shape}, made by expand or by overlapping windows",
                    hint="use x.clone(), or call expand inside the function that is checked",
                )
        for i, (name, leaf) in enumerate(self.named):
            for other_name, other in self.named[:i]:
                if _share_memory(leaf.array, other.array):
                    raise ArgumentError(
                        f"{title}: {other_name} and {name} must not share memory",
                        got="the same tensor twice"
                        if leaf is other
                        else "two views of the same elements",
                        hint="pass the tensor once, as in gradcheck(lambda x: fn(x, x), x)",
                    )

    def _derive(self):
        """Compute each leaf's gradient with the backward pass, and check for side effects."""
        before = [(x, backend.to_host(x.array).copy(), x._version[0]) for x in self._tensors()]
        with enable_grad():
            outputs = self.probe.outputs()
        self._refuse_low_precision(outputs)
        values = np.concatenate([o.numpy().reshape(-1) for o in outputs])
        self.output_values = [o.numpy().copy() for o in outputs]
        self._unchanged(before, "the function changes its input")
        cotangent = host_normal(values.size, self.options.seed).astype(values.dtype)
        self.probe.cotangent = cotangent
        self.probe.values = values
        derived = self._gradients(outputs, cotangent)
        nothing = self._gradients(outputs, cotangent * 0)
        again = self._gradients(outputs, cotangent)
        self._unchanged(before, "the backward pass changes the input")
        self._zero_gives_zero(nothing)
        self._same_again(derived, again)
        del outputs
        self._same_values(values)
        return derived

    def _tensors(self):
        return [x for x in self.inputs if isinstance(x, Tensor)]

    def _refuse_low_precision(self, outputs):
        for output in outputs:
            if output.dtype != np.float64 and not self.options.allow_float32:
                raise DTypeError(
                    f"{self.options.title}: the function must return float64 for float64 inputs",
                    got=str(output.dtype),
                    hint="remove the cast or constant that lowers the precision in the function",
                )

    def _gradients(self, outputs, weights, leaves=None):
        """Return each leaf's gradient as a host array, or None if no gradient reaches the leaf."""
        leaves = self.leaves if leaves is None else leaves
        given = as_cotangents(weights.copy(), outputs)
        pairs = [(o, g) for o, g in zip(outputs, given, strict=True) if o.requires_grad]
        if not pairs:
            return [None] * len(leaves)
        roots, grads = zip(*pairs, strict=True)
        found = engine.run_backward(roots, grads, targets=leaves, retain_graph=True)
        now = np.concatenate([g.numpy().reshape(-1) for g in given])
        if not np.array_equal(now, weights, equal_nan=True):
            self._problem(
                "mutates",
                "a backward changes its incoming gradient in place, but other operations may use "
                "the same memory. Use `grad = grad + ...`, not `grad += ...`.",
            )
        return [None if g is None else backend.to_host(g).copy() for g in found]

    def _gradient_of(self, number):
        """Return a function that computes the gradient of one leaf at the current inputs."""

        def gradient():
            with enable_grad():
                outputs = self.probe.outputs()
            leaf = self.leaves[number]
            (found,) = self._gradients(outputs, self.probe.cotangent, [leaf])
            return np.zeros(leaf.shape) if found is None else found

        return gradient

    def _problem(self, kind, text):
        hint = Hint(kind, text)
        if hint not in self.problems:
            self.problems.append(hint)

    def _unchanged(self, before, what):
        for number, (tensor, values, version) in enumerate(before):
            name = self._name_of(tensor, number)
            if not np.array_equal(backend.to_host(tensor.array), values, equal_nan=True):
                self._problem("mutates", f"{what} {name}: its values are different afterwards.")
            elif tensor._version[0] != version:
                self._problem("mutates", f"{what} {name} in place and then restores its values.")

    def _name_of(self, tensor, number):
        for name, value in zip(self.options.names, self.inputs, strict=False):
            if value is tensor:
                return name
        return f"input {number}"

    def _zero_gives_zero(self, nothing):
        for (name, _), gradient in zip(self.named, nothing, strict=True):
            if gradient is not None and gradient.any():
                self._problem(
                    "ignores_gradient",
                    f"the gradient of {name} is not zero although the output gradient is zero: a "
                    "backward adds a term that is not multiplied by its incoming gradient.",
                )

    def _same_again(self, derived, again):
        for (name, _), first, second in zip(self.named, derived, again, strict=True):
            if first is not None and _differ(first, second):
                self._problem(
                    "nondeterministic",
                    f"a second backward pass through the same graph gives {name} a different "
                    "gradient: a backward changes its saved tensors, or draws random numbers.",
                )

    def _same_values(self, values):
        with no_grad():
            second = self.probe.vector()
        if not _differ(values, second):
            return
        with enable_grad():
            third = np.concatenate([o.numpy().reshape(-1) for o in self.probe.outputs()])
        if third.shape == values.shape and not _differ(values, third):
            text = "the function returns different values under no_grad() than under enable_grad()."
        else:
            text = (
                "two runs with the same inputs and the same seed differ: the function uses a "
                "separate random generator, or keeps state from one call to the next."
            )
        self._problem("nondeterministic", text)

    def _only_sometimes_random(self):
        if not self.probe.draws and backend.get_rng_state() != self.probe.start:
            backend.set_rng_state(self.probe.start)
            self._problem(
                "nondeterministic",
                "the function drew no random numbers in its first run, but did in a later one.",
            )

    def _explain(self, report, jacobians):
        """Find the faulty operation. Add it, and hints for the wrong gradients, to the report."""
        if self.options.localize:
            report.fault = find_fault(self, any(not item.ok for item in report.items))
        evidence = gather_evidence(
            report.items, jacobians, self.inputs, self.options.names, self.probe.cotangent,
            self.output_values,
        )  # fmt: skip
        fault = report.fault
        deep = fault is None or fault.is_whole  # hints about terms assume a single operation
        for item, clue in zip(report.items, evidence, strict=True):
            if not item.ok:
                item.hints += explain(clue, evidence, deep and self.options.second_order_of is None)
        if fault is None and self.options.localize and any(not item.ok for item in report.items):
            report.notes.append("each recorded operation by itself is correct")

    def check_again(self, fn, inputs, options, second_order):
        """Run a gradient check of `fn`, a single operation, and return the report."""
        check = (
            second_order_check(fn, inputs, options) if second_order else Check(fn, inputs, options)
        )
        return check.run()

    def _notes(self):
        options = self.options
        kind = "three random directions per input" if options.fast else "every entry"
        dtypes = " and ".join(sorted({str(leaf.dtype) for leaf in self.leaves}))
        notes = [
            f"{kind}, {dtypes}, steps of {options.eps:g}, random cotangent (seed {options.seed}), "
            f"tolerance {options.tol:g}"
        ]
        if self.probe.draws:
            notes.append(
                "the function draws random numbers: each evaluation started from the same seed, "
                "so that all drew the same numbers"
            )
        return notes


def second_order_check(fn, inputs, options, grad_outputs=None):
    """Create a Check of second derivatives of `fn` with respect to its inputs and the cotangents.

    Parameters
    ----------
    fn : callable
    inputs : tuple
    options : Options
    grad_outputs : tuple of Tensor, optional
        Cotangents. Default: random numbers.

    Returns
    -------
    Check
    """
    Check(fn, inputs, options).refuse_bad_inputs()
    with enable_grad():
        outputs = [o for o in float_outputs(fn(*inputs)) if o.requires_grad]
    if grad_outputs is None:
        flat = host_normal(sum(o.array.size for o in outputs), options.seed + 1)
        grad_outputs = as_cotangents(flat, outputs) if outputs else ()
    cotangents = [c.detach().requires_grad_() for c in grad_outputs]
    count = len(inputs)
    leaves = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]

    def gradient(*arguments):
        recorded = is_grad_enabled()
        with enable_grad():
            outputs = [o for o in float_outputs(fn(*arguments[:count])) if o.requires_grad]
            return _gradients(outputs, leaves, arguments[count:], recorded)

    many = len(cotangents) > 1
    names = [f"cotangent {i}" if many else "cotangent" for i in range(len(cotangents))]
    options = replace(
        options, names=options.names + names, title="gradgradcheck", second_order_of=(fn, count)
    )
    return Check(gradient, (*inputs, *cotangents), options)


def _gradients(outputs, leaves, cotangents, recorded):
    """Return a function's gradients as Tensors. The gradient of an unused input is zero."""
    found = engine.run_backward(
        outputs, cotangents, targets=leaves, retain_graph=recorded, create_graph=recorded
    )
    gradients = []
    for leaf, gradient in zip(leaves, found, strict=True):
        if gradient is None:
            gradient = backend.zeros_like_device(leaf.array, leaf.shape, leaf.dtype)
        gradients.append(
            gradient if isinstance(gradient, Tensor) else wrap(backend.as_array(gradient))
        )
    return tuple(gradients)


def _differ(first, second):
    """Return True if two runs differ by more than a different summation order can explain."""
    if second is None or first.shape != second.shape:
        return True
    if np.array_equal(first, second, equal_nan=True):
        return False
    size = np.abs(first).max(initial=0.0)
    unit = np.finfo(first.dtype).eps
    return not np.abs(first - second).max(initial=0.0) <= 1e5 * unit * size


def _overlaps_itself(array):
    """Return True if two entries of an array have the same address, according to its strides."""
    if array.size == 0:
        return False
    pairs = zip(array.shape, array.strides, strict=True)
    axes = sorted((abs(stride), size) for size, stride in pairs if size > 1)
    reach = array.dtype.itemsize if hasattr(array.dtype, "itemsize") else 1
    for stride, size in axes:
        if stride < reach:
            return True
        reach = stride * (size - 1) + reach
    return False


def _share_memory(a, b):
    """Return True if two arrays overlap in memory."""
    if a is b:
        return True
    if not backend.shares_memory(a, b) or a.size == 0 or b.size == 0:
        return False
    (low_a, high_a), (low_b, high_b) = _reach(a), _reach(b)
    return low_a < high_b and low_b < high_a


def _reach(array):
    """Return the first address of an array's data, and the first address after the data."""
    low = high = backend.address(array)
    for size, stride in zip(array.shape, array.strides, strict=True):
        end = (size - 1) * stride
        low, high = low + min(end, 0), high + max(end, 0)
    return low, high + array.dtype.itemsize
