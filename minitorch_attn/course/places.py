"""Where lessons, exercises and assignments lie: beside the package, or within it when installed."""

import os
from pathlib import Path

from ..errors import DataError

__all__ = ["course_folder"]

_HERE = Path(__file__).resolve().parent


def course_folder(what, installed, holds, variable=None):
    """The folder of one kind of material.

    Parameters
    ----------
    what : str
        Its name in a checkout, beside the package.
    installed : str
        Its path within this folder in an installed package.
    holds : callable
        Whether a folder holds the material.
    variable : str, optional
        An environment variable that names another folder.

    Returns
    -------
    Path

    Raises
    ------
    DataError
        If there is none.
    """
    named = os.environ.get(variable) if variable else None
    places = [Path(named)] if named else [_HERE.parents[1] / what, _HERE / installed]
    for place in places:
        if holds(place):
            return place
    raise DataError(
        f"no {what} are found.",
        got=" and ".join(f"nothing in {place}" for place in places),
        hint=f"unset {variable}" if named else "install the package anew",
    )
