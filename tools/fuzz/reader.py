"""Reader: how to write valid files of one format, and how to read them."""

import json
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Reader", "write_json"]


@dataclass(frozen=True)
class Reader:
    """One way to read files, with the files to mutate.

    Attributes
    ----------
    name : str
    make : callable
        Function from a folder (Path) that writes valid files into it.
    read : callable
        Function from a folder that reads the files, and uses what it has read.
    files : dict of str to str
        Files to mutate, with the key of `mutations.FORMATS` for each.
    unread : collection of str
        Fields whose values may have any type, because the reader does not use them; a tuple is
        the path of a single field. An empty string stands for all fields.
    accepts : bool
        Whether `read` accepts the valid files. It does not if it needs a network.
    """

    name: str
    make: Callable
    read: Callable
    files: dict
    unread: frozenset = frozenset()
    accepts: bool = True

    def must_refuse(self, mutation):
        """Return True if the reader must not accept a file with this mutation."""
        read = not self.unread & {"", mutation.path, *mutation.path}
        return mutation.wrong and read


def write_json(path, content):
    """Write JSON, without the package's own function, so that the fuzzer does not depend on it."""
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
