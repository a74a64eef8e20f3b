"""Parameter initialization: fill tensors with constants or random values.

Every function fills its tensor in place, without recording the change in the graph, and returns the
tensor. Random values are drawn on the CPU, so they do not depend on the device.
"""

import math
from contextlib import contextmanager

from ..absent_names import absent as _absent
from ..autograd.modes import no_grad
from ..backend import array_module, host_generator
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments

__all__ = [
    "calculate_gain", "constant_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_",
    "ones_", "orthogonal_", "skip_init", "trunc_normal_", "uniform_", "xavier_normal_",
    "xavier_uniform_", "zeros_",
]  # fmt: skip


_skipping = False


@contextmanager
def skip_init():
    """Skip random initialization inside a `with` block, for parameters that are loaded later.

    This saves time, because drawing random values takes longer than reading a checkpoint. It also
    saves memory, because the operating system reserves memory only when values are written.
    Initialization with constants still takes place.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> with skip_init():
    ...     layer = mt.nn.Linear(3, 5)
    >>> mt.nn.init.ones_(layer.weight).sum().item()
    15.0
    """
    global _skipping
    before, _skipping = _skipping, True
    try:
        yield
    finally:
        _skipping = before


def _write(tensor, values):
    with no_grad():
        return tensor.copy_(values)


@names_arguments
def constant_(tensor, val):
    """Fill a tensor with one value.

    Parameters
    ----------
    tensor : Tensor
    val : float

    Returns
    -------
    Tensor
        `tensor` itself.
    """
    with no_grad():
        return tensor.fill_(val)


@names_arguments
def zeros_(tensor):
    """Fill a tensor with 0."""
    return constant_(tensor, 0.0)


@names_arguments
def ones_(tensor):
    """Fill a tensor with 1."""
    return constant_(tensor, 1.0)


@names_arguments
def eye_(tensor):
    """Fill a matrix with the identity."""
    if tensor.ndim != 2:
        raise ShapeError(
            "eye_: tensor must have 2 axes",
            got=f"{tensor.shape}",
            hint="use eye_(tensor.view(len(tensor), -1)) for the kernel of a convolution",
        )
    rows, columns = tensor.shape
    return _write(tensor, [[float(i == j) for j in range(columns)] for i in range(rows)])


@names_arguments
def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Fill a tensor with samples from the uniform distribution on [a, b).

    Parameters
    ----------
    tensor : Tensor
    a, b : float
    generator : numpy.random.Generator, optional
        Random generator. Default: the generator that `mt.manual_seed` seeds.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x = mt.nn.init.uniform_(mt.empty(1000), -2, 2)
    >>> bool(x.abs().max() <= 2)
    True
    """
    if _skipping:
        return tensor
    generator = generator or host_generator()
    return _write(tensor, generator.uniform(a, b, tensor.shape))


@names_arguments
def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Fill a tensor with samples from the normal distribution N(mean, std^2)."""
    if _skipping:
        return tensor
    generator = generator or host_generator()
    return _write(tensor, generator.normal(mean, std, tensor.shape))


@names_arguments
def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Fill a tensor with samples from a normal distribution that is truncated to [a, b].

    Parameters
    ----------
    tensor : Tensor
    mean, std : float
        Mean and standard deviation before truncation.
    a, b : float
        Smallest and largest allowed values, not given as multiples of `std`. Samples outside this
        range are drawn again.
    generator : numpy.random.Generator, optional
    """
    if not a < b:
        raise ArgumentError(
            "trunc_normal_: a must be less than b",
            got=f"a={a}, b={b}",
            hint=f"use a={b}, b={a}, or constant_() if the limits are equal",
        )
    if _skipping:
        return tensor
    generator = generator or host_generator()
    values = generator.normal(mean, std, tensor.shape).reshape(-1)
    outside = (values < a) | (values > b)
    for _ in range(1000):
        if not outside.any():
            return _write(tensor, values.reshape(tensor.shape))
        values[outside] = generator.normal(mean, std, int(outside.sum()))
        outside = (values < a) | (values > b)
    raise ArgumentError(
        "trunc_normal_: too few values fall between a and b",
        got=f"mean={mean}, std={std}, a={a}, b={b}",
        expected="limits that contain a large part of the distribution",
        hint=f"use values, not multiples of std: a={mean - 2 * std:g}, b={mean + 2 * std:g}",
    )


@names_arguments
def calculate_gain(nonlinearity, param=None):
    """Return the gain that preserves the variance of a signal through an activation.

    Parameters
    ----------
    nonlinearity : {"linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu"}
    param : float, optional
        Negative slope of "leaky_relu", default 0.01.

    Examples
    --------
    >>> calculate_gain("relu") ** 2
    2.0000000000000004
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 0.75}
    gains.update({f"conv{kind}": 1.0 for kind in ("1d", "2d", "3d")})
    if nonlinearity not in gains:
        raise ArgumentError(
            "calculate_gain: nonlinearity is not supported",
            got=repr(nonlinearity),
            expected="one of " + ", ".join([*gains, "leaky_relu"]),
            hint="pass the gain as a number to xavier_normal_(tensor, gain)",
        )
    return gains[nonlinearity]


@names_arguments
def fans(tensor):
    """Return (fan_in, fan_out): the number of inputs per output and of outputs per input.

    Parameters
    ----------
    tensor : Tensor of shape (out, in, ...)
        Weight. fan_in is `in` and fan_out is `out`, each multiplied by the sizes of all further
        axes, such as the axes of a convolution kernel.
    """
    if tensor.ndim < 2:
        raise ShapeError(
            "fan_in and fan_out: the weight must have at least 2 axes",
            got=f"a tensor of shape {tensor.shape}",
            expected="at least 2 axes: (out, in, ...)",
            hint="use uniform_ or normal_ for vectors",
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = fans  # PyTorch's name for fans


@names_arguments
def orthogonal_(tensor, gain=1.0, generator=None):
    """Fill a matrix with orthogonal rows (or columns, if there are fewer) of norm `gain`.

    Parameters
    ----------
    tensor : Tensor of shape (row, ...)
        Weight. The axes after the first axis are flattened into columns.
    gain : float
        Norm of each row (or column). With a gain of 1, multiplication by a square matrix preserves
        norms.
    generator : numpy.random.Generator, optional

    Notes
    -----
    Saxe et al. 2013, arXiv:1312.6120v3, section 3. The function computes the QR decomposition of a
    random Gaussian matrix and multiplies the columns of Q by the signs of R's diagonal. Without the
    signs, Q would not be uniformly distributed (Mezzadri 2007, arXiv:math-ph/0609050v2, section 5).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> w = mt.nn.init.orthogonal_(mt.empty(2, 3, dtype=mt.float64))
    >>> mt.allclose(w @ w.T, mt.eye(2, dtype=mt.float64))
    True
    """
    fans(tensor)  # raises an error if there are fewer than 2 axes
    if _skipping or tensor.numel() == 0:
        return tensor
    generator = generator or host_generator()
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    draw = generator.normal(0.0, 1.0, (max(rows, columns), min(rows, columns)))
    xp = array_module(draw)
    q, r = xp.linalg.qr(draw)
    q = q * xp.where(xp.diagonal(r) < 0, -gain, gain)
    return _write(tensor, (q.T if rows < columns else q).reshape(tensor.shape))


@names_arguments
def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Xavier (Glorot) initialization: uniform, with variance `2 gain^2 / (fan_in + fan_out)`.

    Notes
    -----
    Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward neural
    networks", Eq. 16.
    """
    fan_in, fan_out = fans(tensor)
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


@names_arguments
def xavier_normal_(tensor, gain=1.0, generator=None):
    """Xavier (Glorot) initialization: normal, with variance `2 gain^2 / (fan_in + fan_out)`."""
    fan_in, fan_out = fans(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)), generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(
            "kaiming: mode must be 'fan_in' or 'fan_out'",
            got=repr(mode),
            hint="use 'fan_in' to preserve the signal's variance, 'fan_out' for the gradient's",
        )
    fan = fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


@names_arguments
def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Kaiming (He) initialization: uniform, with variance `gain^2 / fan`.

    Parameters
    ----------
    tensor : Tensor
    a : float
        Negative slope of the leaky ReLU that follows.
    mode : {"fan_in", "fan_out"}
        Which variance to preserve: the variance of the signal ("fan_in") or of the gradient
        ("fan_out").
    nonlinearity : str
        Activation that follows; see `calculate_gain`.
    generator : numpy.random.Generator, optional

    Notes
    -----
    He et al. 2015, arXiv:1502.01852v1, Eqs. 10 and 14.
    """
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


@names_arguments
def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Kaiming (He) initialization: normal. For the arguments, see `kaiming_uniform_`."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


__getattr__ = _absent(__name__)
