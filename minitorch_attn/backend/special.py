r"""Special functions that NumPy lacks: the error function and the Gaussian CDF.

    erf(x) = tanh(x R(x^2))   with   R(t) = 9/8 + P(t) / Q(t)

atanh(erf(x)) / x is an even and smooth function of x, so a rational function R with few terms fits
it closely. tanh keeps the result between -1 and 1 and reduces the error of R. A direct
rational fit of erf (x times a ratio of polynomials in x^2) needs about twice as many coefficients.
The constant 9/8 in R is exact in binary and close to R(0) = 2/sqrt(pi). For small t, P / Q is
therefore small, and so are its rounding errors compared with R. Every coefficient is positive, so
there is no cancellation. `tools/fit_erf.py` computes the coefficients.

Largest error against `math.erf`: 2.3e-16 (2 units in the last place) in float64, 9.7e-8 in float32.
"""

import math

import numpy as np

from minitorch_attn.backend.devices import platform_of

__all__ = ["erf", "erf_host", "normal", "normal_host"]

# Beyond the limit, erf(x) rounds to +-1. P and Q are lists of the coefficients of t^0, t^1, ...;
# the last term of Q, t^n, has the coefficient 1 and is not in the list.
# fmt: off
_LIMIT = {"float32": 4.5, "float64": 5.93}
_P = {
    "float32": (10.39988373542648, 317.9288344651372, 49.22811365292614, 5.578967972546124),
    "float64": (
        117420929.6395174594, 3626678722.165978, 1696227293.761884277, 464022809.3900623052,
        81763797.86456344915, 9945150.254499457139, 850599.3740197488385, 48185.91150001829817,
        1706.853442635554794, 15.17856982101020407,
    ),
}
_Q = {
    "float32": (3077.643661568918, 482.8594888716110, 72.90909842821994),
    "float64": (
        34748482783.06458278, 16420225514.01394947, 4719259742.667256866, 873914764.3931153994,
        113810711.9793198284, 10551426.95026558064, 664486.1432313933136, 28056.8951537316267,
        481.6288030720116971,
    ),
}
# fmt: on


class _Fit:
    """Coefficients of R for one dtype and one scale s: erf(s x) = tanh(x s R(s^2 x^2)).

    The coefficients of P and Q (R = 9/8 + P / Q) are the two rows of one matrix, so that a single
    product with the powers of x^2 computes both. A few long operations are faster than many short
    ones: after each operation, a thread may wait for Python's global interpreter lock, and on small
    blocks the wait can take as long as the operation.
    """

    def __init__(self, name, scale=1.0):
        p, q = _P[name], (*_Q[name], 1.0)
        rows = np.zeros((2, max(len(p), len(q))))
        rows[0, : len(p)], rows[1, : len(q)] = p, q
        rows *= (scale * scale) ** np.arange(rows.shape[1])
        rows[0] *= scale
        self.rows = rows.astype(name)  # (2, power)
        self.base = np.array(1.125 * scale, name)  # 0-d arrays are the fastest in NumPy
        self.low, self.high = (np.array(sign * _LIMIT[name] / scale, name) for sign in (-1, 1))
        self.block = _BYTES // self.rows.itemsize  # entries that stay in the cache of a core
        if name == "float64":
            self.block //= 4  # float64 has more powers


_BYTES = 1 << 18
_FITS = {np.dtype(name): _Fit(name) for name in ("float32", "float64")}
_NORMAL = {np.dtype(name): _Fit(name, math.sqrt(0.5)) for name in ("float32", "float64")}


def erf(x):
    """Return the error function of every entry of an array.

    Parameters
    ----------
    x : floating-point array on any device

    Returns
    -------
    array of the same shape and dtype

    Examples
    --------
    >>> erf(np.array([-np.inf, 0.0, 0.5]))
    array([-1.        ,  0.        ,  0.52049988])
    """
    return platform_of(x).erf(x)


def normal(x):
    """Return the Gaussian CDF, (1 + erf(x / sqrt 2)) / 2, of every entry.

    Parameters
    ----------
    x : floating-point array on any device

    Returns
    -------
    array of the same shape and dtype

    Examples
    --------
    >>> normal(np.array([-np.inf, 0.0, 0.5]))
    array([0.        , 0.5       , 0.69146246])
    """
    return platform_of(x).normal(x)


def erf_host(x, out=None):
    """Return erf of a NumPy array. `out` may be a contiguous array for the result, even `x`."""
    return _in_blocks(_FITS, _erf_block, x, out)


def normal_host(x, out=None):
    """Return the Gaussian CDF of a NumPy array. See `erf_host` for `out`."""
    return _in_blocks(_NORMAL, _normal_block, x, out)


def _in_blocks(fits, evaluate, x, out):
    fit = fits.get(x.dtype)
    if fit is None:
        wide = x.astype(np.float32 if x.dtype == np.float16 else np.float64)
        result = _in_blocks(fits, evaluate, wide, wide)
        return result.astype(x.dtype) if x.dtype.kind == "f" else result
    if out is None:
        out = np.empty(x.shape, x.dtype)
    elif not out.flags.c_contiguous:
        raise ValueError("erf_host(x, out): out must be contiguous")
    flat_x, flat_out = np.ascontiguousarray(x).reshape(-1), out.reshape(-1)
    size = min(flat_x.size, fit.block)
    powers = np.empty((fit.rows.shape[1], size), x.dtype)
    powers[0] = 1
    sums = np.empty((2, size), x.dtype)
    for start in range(0, flat_x.size, fit.block):
        block = flat_x[start : start + fit.block]
        n = len(block)
        evaluate(fit, block, flat_out[start : start + n], powers[:, :n], sums[:, :n])
    return out


def _erf_block(fit, x, out, powers, sums):
    """Write erf(s x) into `out`, where s is the scale of `fit`.

    `powers` and `sums` are scratch arrays. The first row of `powers` must contain ones.
    """
    p, q = sums
    x.clip(fit.low, fit.high, out=out)
    t = np.multiply(out, out, powers[1])
    for k in range(2, len(powers)):
        np.multiply(powers[k - 1], t, powers[k])
    np.matmul(fit.rows, powers, out=sums)  # (2, power) @ (power, entry)
    np.divide(p, q, p)
    np.add(p, fit.base, p)
    np.multiply(out, p, out)
    np.tanh(out, out)


def _normal_block(fit, x, out, powers, sums):
    _erf_block(fit, x, out, powers, sums)
    out += 1
    out *= 0.5
