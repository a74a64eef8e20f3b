"""Numeric derivatives of a function: central differences.

    df/dx_i  =  (f(x + h e_i) - f(x - h e_i)) / 2h  +  O(h^2)  +  O(u f / h)

Here, h is the step size and e_i the i-th unit vector. The first error term is the truncation error.
The second is the rounding error, where u is the machine epsilon. In float64, both are near 1e-10 at
h = 1e-5. In float32, the best step still has an error of 1e-4, which is why a gradient check
requires float64.
"""

import inspect

import numpy as np

from .. import backend
from ..autograd.modes import no_grad
from ..errors import DTypeError
from ..tensor import Tensor, wrap

__all__ = [
    "Perturbed", "Probe", "argument_names", "as_cotangents", "directional_slope", "float_outputs",
    "host_normal", "slopes",
]  # fmt: skip

_KEEP = 4_000_000  # maximum number of entries of a Jacobian to keep for a diagnosis


def float_outputs(result):
    """Return the floating-point tensors in a function's result, which may be nested.

    Parameters
    ----------
    result : Tensor, or nested tuple, list or dict of Tensors

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
    """A function of tensors, whose outputs are concatenated into one vector.

    Every evaluation starts from the same random state, so that dropout draws the same mask each
    time.

    Parameters
    ----------
    fn : callable
    inputs : tuple
        Arguments of the function.

    Attributes
    ----------
    cotangent : array of shape (n,)
        Weights of the n outputs; the slopes are derivatives of the weighted sum of the outputs.
    values : array of shape (n,)
        Outputs at the unchanged inputs.
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
        """Call the function and return its floating-point outputs."""
        if self.draws:
            backend.set_rng_state(self.start)
        result = self.fn(*self.inputs)
        if self.draws is None:
            self.draws = backend.get_rng_state() != self.start
        found = float_outputs(result)
        if not found:
            raise DTypeError(
                "gradcheck: the function must return a floating-point tensor",
                got=f"{type(result).__name__}",
                expected="a Tensor, or a tuple, list or dict that contains a Tensor",
                hint="return the tensor itself, not .numpy() or .item()",
            )
        return found

    def vector(self):
        """Return all outputs, concatenated, as a new array on the host."""
        return np.concatenate([output.numpy().reshape(-1) for output in self.outputs()])

    def close(self):
        """Restore the random state."""
        if backend.get_rng_state() != self.start:
            backend.set_rng_state(self.start)


class Perturbed:
    """Context manager that replaces a leaf's array with a copy whose entries can be changed.

    The copy is stored in the leaf itself, because a function may refer to the leaf directly, as a
    module refers to its parameters. The original array is never changed.
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
        """Give the leaf the values of `host`, an array in host memory."""
        self.leaf.array = backend.like(host, self.original)


def slopes(probe, leaf, step):
    """Compute the numeric derivative at every entry of a leaf.

    Parameters
    ----------
    probe : Probe
    leaf : Tensor
    step : float

    Returns
    -------
    slopes : array of the shape of the leaf
    bends : array of the shape of the leaf
        Right derivative minus left derivative: near 0 unless the step crosses a kink.
    jacobian : array of shape (entries, outputs), or None if it would be too large
    """
    values = backend.to_host(leaf.array).reshape(-1)
    vector, cotangent = probe.vector, probe.cotangent
    here = 2.0 * float(probe.values @ cotangent)
    found, bends = np.empty((2, values.size))
    keep = values.size * cotangent.size <= _KEEP
    jacobian = np.empty((values.size, cotangent.size)) if keep else None
    ups, downs = values + step, values - step
    widths = (ups - downs).tolist()  # the actual steps after rounding
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
    """Compute the numeric derivative along `direction`, an array with the shape of the leaf."""
    values = backend.to_host(leaf.array)
    with Perturbed(leaf) as moved, no_grad(), np.errstate(all="ignore"):
        moved.replace(values + step * direction)
        difference = probe.vector()
        moved.replace(values - step * direction)
        difference -= probe.vector()
    return float(difference @ probe.cotangent) / (2 * step)


def as_cotangents(weights, outputs):
    """Split a flat vector of weights into tensors with the shapes of the outputs."""
    ends = np.cumsum([output.array.size for output in outputs])[:-1]
    parts = np.split(weights, ends)
    return [
        wrap(backend.like(part.reshape(output.shape), output.array))
        for part, output in zip(parts, outputs, strict=True)
    ]


def host_normal(size, seed):
    """Return samples from the standard normal distribution that depend only on the seed."""
    return np.random.default_rng(seed).standard_normal(size)


def argument_names(fn, count):
    """Return `count` argument names: the parameters of `fn`, then "input i" for the rest."""
    owner = getattr(fn, "__self__", None)  # for Op.apply, use the names in Op.forward, after ctx
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
