"""Reader: functions that write valid files of one format and read them."""

import json
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Reader", "write_json"]


@dataclass(frozen=True)
class Reader:
    """Function to fuzz that reads files, with a function that writes valid files to mutate.

    Attributes
    ----------
    name : str
    make : callable
        Function that writes valid files into a folder (Path).
    read : callable
        Function that reads the files of a folder, and uses the result.
    files : dict of str to str
        Files to mutate: {name: key of `mutations.FORMATS`}.
    unread : set of str or tuple
        Fields that the reader does not use, so their values may have any type. A string stands for
        all fields with this name and their contents. A tuple of keys is the path of a single field.
        The empty string stands for all fields.
    accepts : bool
        Whether `read` accepts the valid files. It is False for a reader that needs a network.
    """

    name: str
    make: Callable
    read: Callable
    files: dict
    unread: frozenset = frozenset()
    accepts: bool = True

    def must_refuse(self, mutation):
        """Return True if the reader must refuse a file with this mutation."""
        read = not self.unread & {"", mutation.path, *mutation.path}
        return mutation.wrong and read


def write_json(path, content):
    """Write JSON without the package's own function, so that the fuzzer does not depend on it."""
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
