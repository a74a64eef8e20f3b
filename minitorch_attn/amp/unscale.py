"""Unscale gradients: divide them by the loss scale, and find infinities and NaN."""

from ..backend import array_module
from ..backend.kernel_table import with_kernel

__all__ = ["unscale_all"]


@with_kernel
def unscale_all(arrays, factor):
    """Multiply arrays in place by a number, and return whether an element was infinite or NaN.

    Parameters
    ----------
    arrays : list of arrays
        Gradients on one device, of one dtype.
    factor : float
        Reciprocal of the loss scale.

    Returns
    -------
    0-d array on the device of the arrays
        True, or a number other than 0, if an element is infinite or NaN. On a GPU, reading the
        result waits for the device; this function does not.
    """
    xp = array_module(arrays[0])
    found = None
    for array in arrays:
        bad = ~xp.isfinite(array).all()
        found = bad if found is None else found | bad
        array *= factor
    return found
