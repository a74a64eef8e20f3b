"""Image folder: a folder of images with one subfolder for each class."""

import os

import numpy as np

from ..errors import DataError
from .download import local_path
from .images import read_image

__all__ = ["ImageFolder"]

_ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


class ImageFolder:
    """The images in a folder. The name of an image's subfolder is its class.

    Classes are numbered in alphabetical order. A class folder may have subfolders. Hidden files,
    links to folders and files that are not images are ignored.

    Parameters
    ----------
    source : str or path
        Folder of images, an archive of it, or the archive's URL.
    sha256 : str, optional
        Checksum of an archive, required for a URL.

    Attributes
    ----------
    classes : list of str
    paths : list of str
    labels : int64 array of shape (image,)

    Raises
    ------
    DataError
        If the folder does not have subfolders, or a subfolder does not contain images.
    """

    def __init__(self, source, *, sha256=None):
        folder = local_path(source, sha256)
        if not os.path.isdir(folder):
            raise DataError(
                f"{folder} is not a folder",
                expected="a folder with one subfolder for each class",
                hint="pass the folder that contains the subfolders, or an archive of this folder",
            )
        self.classes = _subfolders(folder)
        if len(self.classes) == 1:  # an archive often contains a single top-level folder
            inner = os.path.join(folder, self.classes[0])
            if _subfolders(inner):
                folder, self.classes = inner, _subfolders(inner)
        found = [_pictures(os.path.join(folder, name)) for name in self.classes]
        empty = [name for name, paths in zip(self.classes, found, strict=True) if not paths]
        if empty or not found:
            raise DataError(
                f"{folder} does not have one subfolder of images for each class",
                got=f"no images in {', '.join(empty[:5])}" if empty else "no subfolders",
                expected="files CLASS/IMAGE that end in " + " ".join(_ENDINGS),
                hint="remove the empty folders, or add images to them" if empty else None,
            )
        self.paths = [path for paths in found for path in paths]
        self.labels = np.repeat(np.arange(len(found)), [len(paths) for paths in found])

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        """Return an image (PIL.Image.Image) and its label."""
        return read_image(self.paths[index]), int(self.labels[index])

    def arrays(self, processor):
        """Preprocess all images and return them with their labels.

        Parameters
        ----------
        processor : ImageProcessor

        Returns
        -------
        images : float32 array of shape (image, channels, height, width)
        labels : int64 array of shape (image,)
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
