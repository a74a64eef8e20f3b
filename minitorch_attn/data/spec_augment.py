"""SpecAugment: mask random frequency bands and time spans of a spectrogram during training."""

import numpy as np

from ..backend import array_module, device_of, from_host
from ..errors import ArgumentError, ShapeError
from ..named_errors import names_arguments

__all__ = ["spec_augment"]


@names_arguments
def spec_augment(
    features, generator, lengths=None, frequency_masks=2, frequency_width=27, time_masks=2,
    time_width=100, time_fraction=1.0, fill=0.0,
):  # fmt: skip
    """Mask random frequency bands and time spans of each spectrogram, independently.

    Parameters
    ----------
    features : array of shape (batch, frame, mel)
        Log-mel spectrograms, on any device.
    generator : numpy.random.Generator
    lengths : int array of shape (batch,), optional
        Number of frames of each spectrogram; later frames are padding. Default: all frames.
    frequency_masks, time_masks : int, default 2
        Number of masks of each kind. They may overlap.
    frequency_width, time_width : int
        Largest width of a mask, F and T in the paper. Default: 27 mel bands and 100 frames.
    time_fraction : float, default 1
        Largest width of a time mask as a fraction of the length, p in the paper.
    fill : float, default 0
        Value of the masked entries. It should be the mean of the features.

    Returns
    -------
    array of shape (batch, frame, mel)
        A new array; `features` is unchanged.

    Notes
    -----
    The width of a mask is drawn uniformly from 0, 1, ..., frequency_width (or time_width), and its
    start from the positions where the mask fits. Time warping is omitted, because it contributed
    least to the results of the paper (section 5).

    References
    ----------
    .. [1] Park et al. 2019, "SpecAugment", arXiv:1904.08779v3, section 2.

    Examples
    --------
    >>> rng = np.random.default_rng(4)
    >>> spec_augment(np.ones((1, 4, 6)), rng, None, 1, 3, 1, 2)[0]
    array([[1., 1., 1., 1., 0., 0.],
           [0., 0., 0., 0., 0., 0.],
           [0., 0., 0., 0., 0., 0.],
           [1., 1., 1., 1., 0., 0.]])
    """
    if features.ndim != 3:
        raise ShapeError(
            "spec_augment: features must have a batch, a frame and a mel axis",
            got=str(features.shape), hint="features[None] for a single spectrogram",
        )  # fmt: skip
    batch, frames, mels = features.shape
    lengths = np.full(batch, frames) if lengths is None else np.asarray(lengths)
    in_range = lengths.shape == (batch,) and np.all((lengths >= 0) & (lengths <= frames))
    if lengths.dtype.kind not in "iu" or not in_range:
        raise ArgumentError(
            "spec_augment: lengths must contain one number of frames for each spectrogram",
            got=f"{lengths.tolist()!r:.60}", expected=f"{batch} integers from 0 to {frames}",
        )  # fmt: skip
    widest = np.minimum(time_width, (time_fraction * lengths).astype(int))
    bands = _masks(generator, frequency_masks, np.full(batch, mels), frequency_width, mels)
    spans = _masks(generator, time_masks, lengths, widest, frames)
    hidden = bands[:, None, :] | spans[:, :, None]  # (batch, frame, mel)
    xp = array_module(features)
    fill = xp.asarray(float(fill), dtype=features.dtype)
    return xp.where(from_host(hidden, device_of(features)), fill, features)


def _masks(generator, count, lengths, widest, size):
    """Draw `count` masks for each row, and return their union, of shape (batch, size)."""
    lengths = lengths[:, None]  # (batch, 1)
    shape = (len(lengths), count)
    widest = np.minimum(np.broadcast_to(widest, len(lengths))[:, None], lengths)
    width = generator.integers(0, widest + 1, shape)
    start = generator.integers(0, lengths - width + 1)
    place = np.arange(size) - start[..., None]  # (batch, mask, size)
    return ((place >= 0) & (place < width[..., None])).any(1)
