"""Color clusters: a palette from k-means, and images as sequences of palette indices."""

from pathlib import Path

import numpy as np

from ..errors import ArgumentError, CheckpointError, ShapeError
from ..named_errors import NamedErrors
from ..schema import ANY, list_of, read_json, record

__all__ = ["ColorClusters"]

_PALETTE = record({"clusters": list_of(list_of(ANY))})


class ColorClusters(NamedErrors):
    """Palette of colors. An image becomes the sequence of its pixels' nearest palette entries.

    Parameters
    ----------
    centers : array of shape (cluster, channel)
        Colors with values between -1 (0 in a uint8 image) and 1 (255).

    References
    ----------
    .. [1] Chen et al. 2020, "Generative Pretraining from Pixels", ICML 2020, section 3.2: with a
       palette of 512 RGB colors, sequences are three times shorter than with one token per channel.

    Examples
    --------
    >>> images = np.array([[[[0, 0, 0], [250, 10, 0]], [[255, 0, 0], [1, 0, 2]]]], np.uint8)
    >>> palette = ColorClusters.fit(images, num_clusters=2)
    >>> ids = palette.encode(images)
    >>> bool(ids[0, 0] == ids[0, 3] != ids[0, 1] == ids[0, 2])
    True
    >>> palette.decode(ids, 2, 2).shape
    (1, 2, 2, 3)
    """

    def __init__(self, centers):
        self.centers = np.asarray(centers, np.float64)
        if self.centers.ndim != 2 or len(self.centers) == 0:
            raise ShapeError(
                "ColorClusters: centers must have two axes and at least one row",
                got=f"shape {self.centers.shape}", expected="(cluster, channel)",
            )  # fmt: skip

    @classmethod
    def fit(cls, images, num_clusters, seed=0, iterations=20):
        """Find a palette with k-means.

        Parameters
        ----------
        images : uint8 array of shape (image, height, width, channel)
        num_clusters : int
            Number of colors. If the images have fewer colors, some entries are equal.
        seed : int, default 0
            Random seed of the initial centers, which k-means++ draws.
        iterations : int, default 20
            Maximum number of steps of Lloyd's algorithm.

        Returns
        -------
        ColorClusters

        References
        ----------
        .. [1] Arthur and Vassilvitskii 2007, "k-means++: The Advantages of Careful Seeding", SODA.
        """
        colors, counts = np.unique(_rows(images), axis=0, return_counts=True)
        if not 1 <= num_clusters or len(colors) == 0:
            raise ArgumentError(
                "ColorClusters.fit: there must be at least one pixel and one cluster",
                got=f"{len(colors)} colors, num_clusters={num_clusters}",
            )
        centers = _first_centers(colors, counts, num_clusters, np.random.default_rng(seed))
        for _ in range(iterations):
            nearest = _distances(colors, centers).argmin(1)
            weight = np.bincount(nearest, counts, minlength=num_clusters)
            sums = np.stack(
                [np.bincount(nearest, counts * c, minlength=num_clusters) for c in colors.T], 1
            )
            old, used = centers, weight > 0
            centers = np.where(used[:, None], sums / np.maximum(weight, 1)[:, None], old)
            if (centers == old).all():
                break
        return cls(centers)

    @classmethod
    def from_pretrained(cls, folder):
        """Read the palette in the `preprocessor_config.json` of an Image GPT folder."""
        path = Path(folder) / "preprocessor_config.json"
        fields = read_json(path, CheckpointError)
        problem = _PALETTE.problem({"clusters": fields.get("clusters")}, "")
        try:
            return cls(fields["clusters"])
        except (KeyError, TypeError, ValueError, ShapeError) as error:
            raise CheckpointError(
                f"{path}: clusters is missing or invalid",
                got=str(problem or error),
                expected="a list of colors, each a list of three numbers from -1 to 1",
            ) from error

    def encode(self, images):
        """Return the index of the palette entry of each pixel, in raster order.

        Parameters
        ----------
        images : uint8 array of shape (image, height, width, channel)

        Returns
        -------
        int64 array of shape (image, height * width)
        """
        rows = _rows(images, len(self.centers[0]))
        parts = np.array_split(rows, max(len(rows) * len(self.centers) // 2**22, 1))
        nearest = [_distances(part, self.centers).argmin(1) for part in parts]
        count, height, width, _ = np.shape(images)
        return np.concatenate(nearest).reshape(count, height * width)

    def decode(self, ids, height, width):
        """Convert sequences of palette indices back to images.

        Parameters
        ----------
        ids : int array of shape (image, height * width)
        height, width : int

        Returns
        -------
        uint8 array of shape (image, height, width, channel)
        """
        ids = np.asarray(ids)
        if ids.ndim != 2 or ids.shape[1] != height * width:
            raise ShapeError(
                "ColorClusters.decode: ids does not match height and width",
                got=f"shape {ids.shape}", expected=f"(image, {height * width})",
            )  # fmt: skip
        colors = np.rint(127.5 * (self.centers + 1)).clip(0, 255).astype(np.uint8)
        return colors[ids].reshape(len(ids), height, width, -1)


def _rows(images, channels=None):
    """Return the pixels as an array of shape (pixel, channel), with values from -1 to 1."""
    images = np.asarray(images)
    fits = images.ndim == 4 and images.dtype == np.uint8
    if not fits or images.shape[3] != (channels or images.shape[3]):
        raise ShapeError(
            "ColorClusters: images have the wrong shape or dtype",
            got=f"{images.dtype} {images.shape}",
            expected=f"uint8 (image, height, width, {channels or 'channel'})",
            hint='convert images of floats from 0 to 1: (255 * images).astype("uint8")',
        )
    return images.reshape(-1, images.shape[3]) / 127.5 - 1


def _distances(colors, centers):
    """Return the squared distances from colors to centers, with shape (color, cluster)."""
    squares = (colors**2).sum(1)[:, None] + (centers**2).sum(1)
    return squares - 2 * colors @ centers.T


def _first_centers(colors, counts, number, generator):
    """Draw centers with k-means++.

    The first center is drawn in proportion to the counts of the colors. For each further center,
    the probability of a color is proportional to its count times its squared distance to the
    nearest center drawn so far.
    """
    chosen = [generator.choice(len(colors), p=counts / counts.sum())]
    distance = _distances(colors, colors[chosen])[:, 0]
    while len(chosen) < number:
        weight = counts * distance.clip(0)
        total = weight.sum()
        chosen.append(generator.choice(len(colors), p=weight / total) if total > 0 else 0)
        distance = np.minimum(distance, _distances(colors, colors[chosen[-1:]])[:, 0])
    return colors[chosen]
