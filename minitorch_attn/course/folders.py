"""Find the folders of lessons, exercises and assignments in a checkout or an installed package."""

import os
from pathlib import Path

from ..errors import DataError

__all__ = ["course_folder"]

_HERE = Path(__file__).resolve().parent


def course_folder(what, installed, holds, variable=None):
    """Find the folder of one kind of course material.

    Parameters
    ----------
    what : str
        Name of the folder next to the package in a checkout, for example "lessons".
    installed : str
        Path inside `minitorch_attn/course` in an installed package.
    holds : callable
        Function that takes a path and returns whether the folder contains the material.
    variable : str, optional
        Environment variable with a folder to use instead.

    Returns
    -------
    Path

    Raises
    ------
    DataError
        If no such folder exists.
    """
    named = os.environ.get(variable) if variable else None
    places = [Path(named)] if named else [_HERE.parents[1] / what, _HERE / installed]
    for place in places:
        if holds(place):
            return place
    raise DataError(
        f"{what}: the folder is missing",
        got=" and ".join(f"nothing in {place}" for place in places),
        hint=f"unset {variable}" if named else "reinstall the package",
    )
