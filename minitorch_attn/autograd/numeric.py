"""Slopes of a function from its values alone: central differences.

    df/dx_i  =  (f(x + h e_i) - f(x - h e_i)) / 2h  +  O(h^2)  +  O(u f / h)

The first error is what the step cuts off, the second is rounding (u its unit). In float64 both
are near 1e-10 at h = 1e-5; in float32 the best step leaves 1e-4, which is why a gradient check
wants float64.
"""

import inspect

import numpy as np

from .. import backend
from ..errors import DTypeError
from ..tensor import Tensor, wrap
from .modes import no_grad

__all__ = [
    "Perturbed",
    "Probe",
    "argument_names",
    "as_cotangents",
    "directional_slope",
    "float_outputs",
    "host_normal",
    "slopes",
]

_KEEP = 4_000_000  # entries of a Jacobian worth keeping for a diagnosis


def float_outputs(result):
    """The floating-point tensors in what a function returned: a tensor, or nested containers.

    Parameters
    ----------
    result : Tensor, or tuple, list or dict of such

    Returns
    -------
    list of Tensor
    """
    if isinstance(result, Tensor):
        return [result] if result.dtype.kind == "f" else []
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in float_outputs(part)]
    return []


class Probe:
    """A function of tensors as a map from the entries of one input to a vector of outputs.

    Every evaluation starts from the same state of the random numbers, so that a function with
    dropout draws the same mask each time.

    Parameters
    ----------
    fn : callable
    inputs : tuple
        Its arguments.

    Attributes
    ----------
    cotangent : array of shape (n,)
        The weights of the n outputs: the slopes are those of the weighted sum.
    values : array of shape (n,)
        The outputs at the inputs themselves.
    draws : bool
        Whether the function draws random numbers.
    """

    def __init__(self, fn, inputs):
        self.fn = fn
        self.inputs = inputs
        self.start = backend.get_rng_state()
        self.draws = None
        self.cotangent = None
        self.values = None

    def outputs(self):
        """Call the function; its floating-point outputs."""
        if self.draws:
            backend.set_rng_state(self.start)
        result = self.fn(*self.inputs)
        if self.draws is None:
            self.draws = backend.get_rng_state() != self.start
        found = float_outputs(result)
        if not found:
            raise DTypeError(
                "gradcheck: the function returns no floating-point tensor.",
                got=f"{type(result).__name__}",
                expected="a Tensor, or a tuple, list or dict with one",
            )
        return found

    def vector(self):
        """All outputs, one after the other, as a new array on the host."""
        return np.concatenate([output.numpy().reshape(-1) for output in self.outputs()])

    def close(self):
        """Leave the random numbers as they were found."""
        if backend.get_rng_state() != self.start:
            backend.set_rng_state(self.start)


class Perturbed:
    """A leaf with a copy of its array in its place, whose entries may be moved.

    The leaf itself is used, not a stand-in, because a function may hold it (a module its
    parameters). Its own memory is never written.
    """

    def __init__(self, leaf):
        self.leaf = leaf
        self.original = leaf.array

    def __enter__(self):
        self.leaf.array = self.original.copy()
        self.flat = self.leaf.array.reshape(-1)
        return self

    def __exit__(self, *exc_info):
        self.leaf.array = self.original
        return False

    def replace(self, host):
        """Let the leaf have these values."""
        self.leaf.array = backend.like(host, self.original)


def slopes(probe, leaf, step):
    """The slope at every entry of a leaf.

    Parameters
    ----------
    probe : Probe
    leaf : Tensor
    step : float

    Returns
    -------
    slopes : array of the shape of the leaf
    bends : array of the shape of the leaf
        The slope above minus the slope below: near 0 unless the step meets a kink.
    jacobian : array of shape (entries, outputs), or None if it would be large
    """
    values = backend.to_host(leaf.array).reshape(-1)
    vector, cotangent = probe.vector, probe.cotangent
    here = 2.0 * float(probe.values @ cotangent)
    found, bends = np.empty((2, values.size))
    keep = values.size * cotangent.size <= _KEEP
    jacobian = np.empty((values.size, cotangent.size)) if keep else None
    ups, downs = values + step, values - step
    widths = (ups - downs).tolist()  # what the step became after rounding
    starts, ups, downs = values.tolist(), ups.tolist(), downs.tolist()
    with Perturbed(leaf) as moved, no_grad(), np.errstate(all="ignore"):
        flat = moved.flat
        for i, start in enumerate(starts):
            flat[i] = ups[i]
            above = vector()
            flat[i] = downs[i]
            below = vector()
            flat[i] = start
            bends[i] = (above @ cotangent + below @ cotangent - here) / step
            above -= below
            above /= widths[i] or np.nan
            found[i] = above @ cotangent
            if keep:
                jacobian[i] = above
    return found.reshape(leaf.shape), bends.reshape(leaf.shape), jacobian


def directional_slope(probe, leaf, direction, step):
    """The slope along one direction, an array of the shape of the leaf."""
    values = backend.to_host(leaf.array)
    with Perturbed(leaf) as moved, no_grad(), np.errstate(all="ignore"):
        moved.replace(values + step * direction)
        difference = probe.vector()
        moved.replace(values - step * direction)
        difference -= probe.vector()
    return float(difference @ probe.cotangent) / (2 * step)


def as_cotangents(weights, outputs):
    """A flat vector of weights cut into tensors like the outputs."""
    ends = np.cumsum([output.array.size for output in outputs])[:-1]
    parts = np.split(weights, ends)
    return [
        wrap(backend.like(part.reshape(output.shape), output.array))
        for part, output in zip(parts, outputs, strict=True)
    ]


def host_normal(size, seed):
    """Standard normal numbers that depend on the seed alone, not on the library's generator."""
    return np.random.default_rng(seed).standard_normal(size)


def argument_names(fn, count):
    """What a function calls its first arguments; "input 0" and so on where it does not say."""
    owner = getattr(fn, "__self__", None)  # Op.apply: ask Op.forward, whose first is ctx
    forward = getattr(owner, "forward", None) if isinstance(owner, type) else None
    try:
        parameters = list(inspect.signature(forward or fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    if forward is not None:
        parameters = parameters[1:]
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in parameters if p.kind in plain][:count]
    return names + [f"input {i}" for i in range(len(names), count)]
