"""Watch a file: poll it until it has been saved."""

import os

__all__ = ["Watched"]


class Watched:
    """File to watch for changes: remembers its state at the last call of `changed`.

    Some editors replace a file, and others write it in several steps. The file may therefore be
    missing or empty for a moment, which does not count as a change.

    Parameters
    ----------
    path : str or path
        File to watch.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "a.py"
    ...     _ = path.write_text("x = 1")
    ...     watched = Watched(path)
    ...     before = watched.changed()
    ...     _ = path.write_text("x = 12")
    ...     print(before, watched.changed(), watched.changed())
    False True False
    """

    def __init__(self, path):
        self.path = path
        self.state = self._look()

    def changed(self):
        """Return whether the file was saved since the last call."""
        state = self._look()
        if state is None or state == self.state:
            return False
        self.state = state
        return True

    def _look(self):
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size, found.st_ino) if found.st_size else None
