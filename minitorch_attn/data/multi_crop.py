"""Multi-crop: draw random views of images, and resize crops with bilinear interpolation."""

import numpy as np

from ..errors import ShapeError
from ..named_errors import names_arguments
from .linear_resize import linear_weights

__all__ = ["crop_and_resize", "random_views"]


@names_arguments
def crop_and_resize(images, boxes, size):
    """Cut a box out of each image and resize it with bilinear interpolation.

    Parameters
    ----------
    images : array of shape (image, channel, height, width)
    boxes : array of shape (image, 4)
        Top, left, height and width of each box in pixels. Fractions are allowed.
    size : int
        Height and width of the result.

    Returns
    -------
    array of shape (image, channel, size, size)

    Notes
    -----
    The value of a pixel is at the pixel's center, as in `interpolate` with `align_corners=False`.
    Beyond the centers of the outermost pixels, the value of the nearest pixel is used.

    Examples
    --------
    >>> image = np.arange(16.0).reshape(1, 1, 4, 4)
    >>> crop_and_resize(image, np.array([[1, 2, 2, 2]]), 2)[0, 0]
    array([[ 6.,  7.],
           [10., 11.]])
    """
    boxes = np.asarray(boxes, np.float64)
    if images.ndim != 4 or boxes.shape != (len(images), 4):
        raise ShapeError(
            "crop_and_resize: the shapes of images and boxes do not match",
            got=f"images {images.shape}, boxes {boxes.shape}",
            expected="(image, channel, height, width) and (image, 4)",
        )
    rows = linear_weights(boxes[:, 0], boxes[:, 2], size, images.shape[2], images.dtype)
    columns = linear_weights(boxes[:, 1], boxes[:, 3], size, images.shape[3], images.dtype)
    return rows[:, None] @ images @ columns[:, None].swapaxes(2, 3)


@names_arguments
def random_views(images, sides, size, generator, contrast=0.0, noise=0.0):
    """Draw one random view of each image: a resized, nearly square crop with altered pixels.

    `contrast` and `noise` alter the pixels at random. Both are 0 by default, so nothing is altered.

    Parameters
    ----------
    images : array of shape (image, channel, height, width)
    sides : (float, float)
        Smallest and largest side of a crop in pixels.
    size : int
        Height and width of a view.
    generator : numpy.random.Generator
    contrast : float, default 0
        The pixels of each view are multiplied by one random number, between 1 - contrast and
        1 + contrast.
    noise : float, default 0
        Standard deviation of Gaussian noise on all pixels.

    Returns
    -------
    float32 array of shape (image, channel, size, size)

    References
    ----------
    .. [1] Caron et al. 2020, "Unsupervised Learning of Visual Features by Contrasting Cluster
       Assignments", arXiv:2006.09882v5, section 3.3: multi-crop.

    Examples
    --------
    >>> images = np.zeros((3, 1, 28, 20), np.float32)
    >>> random_views(images, (8, 14), 12, np.random.default_rng(0)).shape
    (3, 1, 12, 12)
    """
    count = len(images)
    area = generator.uniform(*sides, (count, 1))
    stretch = np.exp(generator.normal(0, 0.1, (count, 2)))
    lengths = np.clip(area * stretch, sides[0], min(sides[1], *images.shape[2:]))
    starts = generator.random((count, 2)) * (np.array(images.shape[2:]) - lengths)
    views = crop_and_resize(images, np.concatenate([starts, lengths], 1), size)
    factor = generator.uniform(1 - contrast, 1 + contrast, (count, 1, 1, 1))
    views = views * factor + generator.normal(0, noise, views.shape)
    return views.astype(np.float32)
