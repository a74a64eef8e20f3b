"""Linear resizing: the weight of each old pixel in each new pixel, along one axis."""

import numpy as np

__all__ = ["linear_weights"]


def linear_weights(start, length, size, total, dtype="float64"):
    """Return the weights that resize part of an axis.

    Return one matrix if `start` and `length` are numbers, or one for each image if they are arrays.

    Parameters
    ----------
    start, length : float or array of shape (image,)
        First pixel, and number of pixels, of the part of the axis that is resized.
    size : int
        Number of pixels after resizing.
    total : int
        Number of pixels of the whole axis.
    dtype : str or dtype, default "float64"

    Returns
    -------
    array of shape (size, total) or (image, size, total)
        Row i contains the weights for new pixel i. The center of this pixel lies at the fraction
        (i + 1/2) / size of the part. Its value is interpolated from the two nearest old pixels.
        Beyond the edges of the axis, the outermost pixel is repeated.

    Examples
    --------
    >>> linear_weights(0, 2, 4, 2)
    array([[1.  , 0.  ],
           [0.75, 0.25],
           [0.25, 0.75],
           [0.  , 1.  ]])
    """
    start, length = np.asarray(start)[..., None], np.asarray(length)[..., None]
    places = start + length * ((np.arange(size) + 0.5) / size) - 0.5
    distance = np.abs(places.clip(0, total - 1)[..., None] - np.arange(total))
    return (1 - distance).clip(0).astype(dtype)
