"""MNIST and similar data sets: images and labels in IDX files."""

import gzip
import math
import os
import zlib

import numpy as np

from ..errors import DataError
from ..files import read_up_to
from .download import local_path, shown_path

__all__ = ["mnist", "read_idx"]

_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
_LIMIT = 1 << 32  # maximum size in bytes
_AXES = 32  # maximum number of axes in all versions of NumPy


def read_idx(path):
    """Read the array in an IDX file, which may be gzipped.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    array
        Array in the machine's byte order.

    Raises
    ------
    DataError
        If the file is not an IDX file, or its length does not match its header.

    References
    ----------
    .. [1] LeCun, Cortes and Burges, "The MNIST Database of Handwritten Digits", "File formats".
    """
    name = shown_path(path)
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else open(path, "rb") as file:
            return _read(file, name)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{name}: the gzip file is damaged",
            got=str(error), hint="the file may be incomplete: download or copy it again",
        ) from None  # fmt: skip
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"{name} could not be read", got=reason) from None


def _read(file, name):
    """Read an IDX file: two zero bytes, dtype code, number of axes, sizes, values (big-endian)."""
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES or not magic[3]:
        raise DataError(
            f"{name} is not an IDX file",
            got=f"it starts with {magic.hex(' ') or 'nothing'}",
            expected="00 00, a type from 08 to 0e, the number of axes",
            hint="pass an original file of MNIST, such as train-images-idx3-ubyte.gz",
        )
    header = file.read(4 * magic[3])
    dtype = np.dtype(_TYPES[magic[2]])
    shape = tuple(np.frombuffer(header[: len(header) // 4 * 4], dtype=">u4").tolist())
    size = math.prod(shape) * dtype.itemsize
    if len(header) < 4 * magic[3] or magic[3] > _AXES or size > _LIMIT or max(shape) > _LIMIT >> 1:
        raise DataError(
            f"{name}: the sizes of the axes are invalid",
            got=f"{shape}", hint="the file may be damaged: download it again",
        )  # fmt: skip
    values = read_up_to(file, size)
    rest = len(file.read(1)) if len(values) == size else 0
    if len(values) < size or rest:
        raise DataError(
            f"{name} is {'longer' if rest else 'shorter'} than its header says",
            got=f"more than {size:,} bytes" if rest else f"{len(values):,} bytes of values",
            expected=f"{size:,} for an array of shape {shape}",
            hint="the file may be damaged: download it again",
        )
    return np.frombuffer(values, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))


def mnist(source, *, sha256=None, dtype="float32"):
    """Load MNIST, or another data set with the same four files (Fashion-MNIST, KMNIST).

    Parameters
    ----------
    source : str or path
        Folder with `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the corresponding two
        `t10k` files, with or without `.gz`. Also an archive of this folder, or the archive's URL.
    sha256 : str, optional
        Checksum of an archive, required for a URL.
    dtype : dtype, default "float32"
        Dtype of the images. Floating-point values are from 0 to 1; "uint8" keeps 0 to 255.

    Returns
    -------
    training_images, training_labels, test_images, test_labels : array
        Images of shape (image, 1, row, column), labels int64.

    Raises
    ------
    DataError
        If a file is missing or damaged, or the files do not match.

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
                f"{folder}: the {part} images and labels do not match",
                got=f"images {images.shape}, labels {labels.shape}",
                expected="images (image, row, column), labels (image,)",
                hint="take all four files from the same release of the data set",
            )
        arrays += [scaled(images[:, None], dtype), labels.astype(np.int64)]
    return tuple(arrays)


def scaled(images, dtype):
    """Convert bytes to numbers from 0 to 1; if `dtype` is uint8, return them unchanged."""
    if np.dtype(dtype) == np.uint8:
        return images
    images = images.astype(dtype)
    images /= 255
    return images


def _find(folder, stem):
    """Find the file `stem`, gzipped or not. Some copies of MNIST have ".idx" instead of "-idx"."""
    wanted = {stem, stem.replace("-idx", ".idx")}
    wanted |= {name + ".gz" for name in wanted}
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(wanted & set(names)):
            return os.path.join(place, name)
    raise DataError(
        f"{folder}: {stem} is missing",
        expected=f"{stem} or {stem}.gz",
        hint="put the images and labels of both train and t10k into this folder",
    )
