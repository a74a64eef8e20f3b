"""The inverse of the error function, by Wichura's rational functions for the Gaussian quantile.

erfinv(x) = z((1 + x) / 2) / sqrt(2), where z(p) is the Gaussian quantile: a standard Gaussian
variable is below z(p) with probability p. For x near 0, with q = x / 2, z is q times a rational
function of q^2. In the tails, z is a rational function of sqrt(-log((1 - |x|) / 2)). For |x| close
to 1 the difference 1 - |x| is exact, so the tails are as accurate as the middle.

M. J. Wichura, "Algorithm AS 241: The Percentage Points of the Normal Distribution", Applied
Statistics 37 (1988), 477-484, PPND16.
"""

import math

from minitorch_attn.backend.devices import array_module

__all__ = ["erfinv"]

# Numerator and denominator, coefficients of 1, r, r^2, ...
# fmt: off
_MIDDLE, _TAIL, _FAR_TAIL = (
    ((
        3.3871328727963665, 133.14166789178438, 1971.5909503065513, 13731.69376550946,
        45921.95393154987, 67265.7709270087, 33430.57558358813, 2509.0809287301227,
    ), (
        1.0, 42.31333070160091, 687.1870074920579, 5394.196021424751, 21213.794301586597,
        39307.89580009271, 28729.085735721943, 5226.495278852854,
    )),
    ((
        1.4234371107496835, 4.630337846156546, 5.769497221460691, 3.6478483247632045,
        1.2704582524523684, 0.2417807251774506, 0.022723844989269184, 0.0007745450142783414,
    ), (
        1.0, 2.053191626637759, 1.6763848301838038, 0.6897673349851, 0.14810397642748008,
        0.015198666563616457, 0.0005475938084995345, 1.0507500716444169e-09,
    )),
    ((
        6.657904643501103, 5.463784911164114, 1.7848265399172913, 0.29656057182850487,
        0.026532189526576124, 0.0012426609473880784, 2.7115555687434876e-05,
        2.0103343992922881e-07,
    ), (
        1.0, 0.599832206555888, 0.1369298809227358, 0.014875361290850615,
        0.0007868691311456133, 1.8463183175100548e-05, 1.421511758316446e-07,
        2.0442631033899397e-15,
    )),
)
# fmt: on


def erfinv(x):
    """Return the inverse error function of every entry of a float64 array.

    Parameters
    ----------
    x : float64 array on any device

    Returns
    -------
    array of the same shape
        The entries are infinite where x is -1 or 1, and NaN where |x| > 1.

    Examples
    --------
    >>> import numpy as np
    >>> erfinv(np.array([0.0, 0.5, -1.0, 2.0]))
    array([0.        , 0.47693628,       -inf,         nan])
    """
    xp = array_module(x)
    size = xp.abs(x)
    q = 0.5 * xp.minimum(size, 0.85)
    r = xp.sqrt(-xp.log(0.5 * (1 - xp.clip(size, 0.85, 1 - 2.0**-53))))
    z = xp.where(r <= 5, _quotient(_TAIL, r - 1.6), _quotient(_FAR_TAIL, r - 5))
    z = xp.where(size <= 0.85, q * _quotient(_MIDDLE, 0.180625 - q * q), z)
    z = xp.where(size < 1, z, xp.where(size == 1, math.inf, math.nan))
    return xp.copysign(z * math.sqrt(0.5), x)


def _quotient(coefficients, r):
    numerator, denominator = (_polynomial(row, r) for row in coefficients)
    return numerator / denominator


def _polynomial(row, r):
    total = r * row[-1]
    for coefficient in row[-2:0:-1]:
        total = (total + coefficient) * r
    return total + row[0]
