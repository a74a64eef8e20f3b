"""CIFAR-10: read images and labels from the data set's binary release."""

import os

import numpy as np

from ..errors import DataError
from .download import local_path, shown_path
from .mnist import scaled

__all__ = ["CIFAR10_CLASSES", "cifar10", "read_cifar10"]

CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
_RECORD = 1 + 3 * 32 * 32  # bytes per image: label, red, green, blue


def read_cifar10(path):
    """Read the images and labels in one file of the CIFAR-10 binary release.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    images : uint8 array of shape (image, 3, 32, 32)
    labels : int64 array of shape (image,)

    Raises
    ------
    DataError
        If the file does not have this format.
    """
    name = shown_path(path)
    try:
        with open(path, "rb") as file:
            start = file.read(2)
            _refuse_pickle(name, start)
            content = start + file.read()
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"{name} could not be read", got=reason) from None
    if not content or len(content) % _RECORD:
        raise DataError(
            f"{name} is not a file of CIFAR-10's binary release, or it is truncated",
            got=f"{len(content):,} bytes",
            expected=f"a multiple of {_RECORD:,}: a label and 32 x 32 x 3 values per image",
            hint="use the files of the binary version, cifar-10-binary.tar.gz",
        )
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, _RECORD)
    labels = records[:, 0].astype(np.int64)
    if labels.max() > 9:
        worst = int(np.flatnonzero(labels > 9)[0])
        raise DataError(
            f"{name} is not a file of CIFAR-10's binary release",
            got=f"label {labels[worst]} in record {worst}", expected="0 to 9",
            hint="CIFAR-100 has a different format; use cifar-10-binary.tar.gz",
        )  # fmt: skip
    return records[:, 1:].reshape(-1, 3, 32, 32).copy(), labels


def cifar10(source, *, sha256=None, dtype="float32"):
    """Load CIFAR-10: 50,000 training and 10,000 test color images, 32 x 32, in ten classes.

    Parameters
    ----------
    source : str or path
        `cifar-10-binary.tar.gz`, its URL, or the folder with `data_batch_1.bin` to
        `data_batch_5.bin` and `test_batch.bin`. The Python release is not supported, because
        its files are pickles, and reading a pickle can execute code.
    sha256 : str, optional
        Checksum of the archive, required for a URL.
    dtype : dtype, default "float32"
        Dtype of the images. Floating-point values are from 0 to 1; "uint8" keeps 0 to 255.

    Returns
    -------
    training_images, training_labels, test_images, test_labels : array
        Images of shape (image, 3, row, column); labels are int64 indices of `CIFAR10_CLASSES`.

    Raises
    ------
    DataError
        If a file is missing or corrupted.

    References
    ----------
    .. [1] Krizhevsky 2009, "Learning Multiple Layers of Features from Tiny Images", and the data
       set's web page, "Binary version".
    """
    folder = _find(local_path(source, sha256))
    training = [read_cifar10(os.path.join(folder, f"data_batch_{i}.bin")) for i in range(1, 6)]
    images, labels = (np.concatenate(parts) for parts in zip(*training, strict=True))
    test_images, test_labels = read_cifar10(os.path.join(folder, "test_batch.bin"))
    return scaled(images, dtype), labels, scaled(test_images, dtype), test_labels


def _find(folder):
    """Return the folder within `folder` that contains test_batch.bin."""
    pickled = None
    for place, folders, names in os.walk(folder):
        folders.sort()
        if "test_batch.bin" in names:
            return place
        if "test_batch" in names:
            pickled = os.path.join(place, "test_batch")
    if os.path.isfile(folder):
        raise DataError(
            f"{folder} is neither a folder nor an archive",
            hint="pass the folder that contains test_batch.bin, or cifar-10-binary.tar.gz",
        )
    if pickled:
        _refuse_pickle(pickled, b"\x80\x02")
    raise DataError(
        f"{folder}: test_batch.bin is missing",
        expected="the files of the binary release", hint="use cifar-10-binary.tar.gz",
    )  # fmt: skip


def _refuse_pickle(name, start):
    # A pickle starts with 0x80 or "(d". A binary file starts with a label, from 0 to 9.
    if start[:1] == b"\x80" or start == b"(d":
        raise DataError(
            f"{name}: the pickled release of CIFAR-10 is not supported: a pickle can execute code",
            expected='"CIFAR-10 binary version", cifar-10-binary.tar.gz',
            hint="download cifar-10-binary.tar.gz from the web page of the data set",
        )
