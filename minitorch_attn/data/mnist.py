"""MNIST and its relatives: images and labels in IDX files."""

import gzip
import math
import os
import zlib

import numpy as np

from ..errors import DataError
from .sources import local_path

__all__ = ["mnist", "read_idx"]

_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_LIMIT = 1 << 32  # bytes


def read_idx(path):
    """The array in an IDX file, gzipped or not.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    array
        In the machine's own byte order.

    Raises
    ------
    DataError
        If the file is no IDX file, or longer or shorter than it says.

    References
    ----------
    .. [1] LeCun, Cortes and Burges, "The MNIST Database of Handwritten Digits", "File formats".
    """
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else open(path, "rb") as file:
            return _read(file, name)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name} is a broken gzip file.", got=str(error)) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"{name} could not be read.", got=reason) from None


def _read(file, name):
    """Two zero bytes, a type, the number of axes; their sizes; the values, all big-endian."""
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES or not magic[3]:
        raise DataError(
            f"{name} is not an IDX file.",
            got=f"it starts with {magic.hex(' ') or 'nothing'}",
            expected="00 00, a type from 08 to 0e, the number of axes",
        )
    header = file.read(4 * magic[3])
    dtype = np.dtype(_TYPES[magic[2]])
    shape = tuple(np.frombuffer(header[: len(header) // 4 * 4], dtype=">u4").tolist())
    size = math.prod(shape) * dtype.itemsize
    if len(header) < 4 * magic[3] or size > _LIMIT:
        raise DataError(f"{name}: the sizes of its axes make no sense.", got=f"{shape}")
    values = file.read(size)
    rest = len(file.read(1)) if len(values) == size else 0
    if len(values) < size or rest:
        raise DataError(
            f"{name} is {'longer' if rest else 'cut off: shorter'} than its header says.",
            got=f"more than {size:,} bytes" if rest else f"{len(values):,} bytes of values",
            expected=f"{size:,} for an array of shape {shape}",
        )
    return np.frombuffer(values, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))


def mnist(source, *, sha256=None, dtype="float32"):
    """MNIST, or another set in its four files (Fashion-MNIST, KMNIST).

    Parameters
    ----------
    source : str or path
        The folder that holds `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the same
        two with `t10k`, each with or without `.gz`; or an archive of it, or its URL.
    sha256 : str, optional
        The checksum of an archive; for a URL it is needed.
    dtype : dtype, default "float32"
        Of the images. Floating-point values go from 0 to 1, "uint8" leaves them from 0 to 255.

    Returns
    -------
    training_images, training_labels, test_images, test_labels : array
        Images of shape (image, 1, row, column), labels int64.

    Raises
    ------
    DataError
        If a file is missing, broken, or does not go with the others.

    References
    ----------
    .. [1] LeCun et al. 1998, "Gradient-Based Learning Applied to Document Recognition".
    """
    folder = local_path(source, sha256)
    arrays = []
    for part in ("train", "t10k"):
        images = read_idx(_find(folder, f"{part}-images-idx3-ubyte"))
        labels = read_idx(_find(folder, f"{part}-labels-idx1-ubyte"))
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise DataError(
                f"{folder}: the {part} images and labels do not belong together.",
                got=f"images {images.shape}, labels {labels.shape}",
                expected="images (image, row, column), labels (image,)",
            )
        arrays += [scaled(images[:, None], dtype), labels.astype(np.int64)]
    return tuple(arrays)


def scaled(images, dtype):
    """Bytes as they are, or as floating-point numbers from 0 to 1."""
    if np.dtype(dtype) == np.uint8:
        return images
    images = images.astype(dtype)
    images /= 255
    return images


def _find(folder, stem):
    """The file of this name, also with a dot for the last "-" of the stem, as some copies have."""
    wanted = {stem, stem.replace("-idx", ".idx")}
    wanted |= {name + ".gz" for name in wanted}
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(wanted & set(names)):
            return os.path.join(place, name)
    raise DataError(f"{folder} has no {stem}.", expected=f"{stem} or {stem}.gz")
