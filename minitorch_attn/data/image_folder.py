"""Pictures in a folder with one subfolder per class."""

import os

import numpy as np

from ..errors import DataError
from .images import read_image
from .sources import local_path

__all__ = ["ImageFolder"]

_ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


class ImageFolder:
    """The pictures under a folder; the name of the subfolder is the class.

    Classes are numbered in alphabetical order. Pictures may lie in further folders below that of
    their class; hidden files, links to folders and other files are passed over.

    Parameters
    ----------
    source : str or path
        The folder, an archive of it, or its URL.
    sha256 : str, optional
        The checksum of an archive; for a URL it is needed.

    Attributes
    ----------
    classes : list of str
    paths : list of str
    labels : int64 array of shape (picture,)

    Raises
    ------
    DataError
        If there are no classes, or one has no pictures.
    """

    def __init__(self, source, *, sha256=None):
        folder = local_path(source, sha256)
        if not os.path.isdir(folder):
            raise DataError(f"{folder} is not a folder.", expected="one subfolder per class")
        self.classes = _subfolders(folder)
        if len(self.classes) == 1:  # an archive often holds one folder with everything in it
            inner = os.path.join(folder, self.classes[0])
            if _subfolders(inner):
                folder, self.classes = inner, _subfolders(inner)
        found = [_pictures(os.path.join(folder, name)) for name in self.classes]
        empty = [name for name, paths in zip(self.classes, found, strict=True) if not paths]
        if empty or not found:
            raise DataError(
                f"{folder} is not a folder of pictures by class.",
                got=f"no pictures in {', '.join(empty[:5])}" if empty else "no subfolders",
                expected="CLASS/PICTURE, endings " + " ".join(_ENDINGS),
            )
        self.paths = [path for paths in found for path in paths]
        self.labels = np.repeat(np.arange(len(found)), [len(paths) for paths in found])

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        """A picture (PIL.Image.Image) and its label."""
        return read_image(self.paths[index]), int(self.labels[index])

    def arrays(self, processor):
        """All pictures, prepared, in memory.

        Parameters
        ----------
        processor : ImageProcessor

        Returns
        -------
        images : float32 array of shape (picture, channels, height, width)
        labels : int64 array of shape (picture,)
        """
        return np.concatenate([processor(path).numpy() for path in self.paths]), self.labels


def _subfolders(folder):
    with os.scandir(folder) as entries:
        names = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
    return sorted(name for name in names if not name.startswith((".", "__MACOSX")))


def _pictures(folder):
    found = []
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.lower().endswith(_ENDINGS) and not name.startswith("."):
                found.append(os.path.join(place, name))
    return found
