"""Run folder: config.json, metrics.jsonl and the checkpoints of one run."""

import itertools
import json
import os
from pathlib import Path

from ..errors import CheckpointError, DataError
from ..files import TEMPORARY_SUFFIX, atomic_file, read_error, write_error
from ..folder_lock import LOCK_FILES, FolderLock, holder_of
from ..schema import COUNT, NUMBER, check, map_of, parse_json, read_json, record
from .checkpoint import Checkpoints

__all__ = ["RunFolder", "free_name", "newest_run"]

CONFIG, METRICS, CHECKPOINTS = "config.json", "metrics.jsonl", "checkpoints"
_STEP, _METRICS = record({"step": COUNT}), map_of(NUMBER)
_RESTORE = "restore it from a checkpoint: mt.load(file)['config']"


class RunFolder:
    """Files in a training run's folder, from which the run can be resumed.

    Each line of `metrics.jsonl` is a JSON object with a "step". Training does not log any times
    there, so a run that was interrupted and resumed writes the same file as an uninterrupted run.

    Parameters
    ----------
    path : str or path
    config : dict
        All values needed to start the run again, as JSON values.
    keep : int, default 2
        Number of checkpoints to keep.

    Attributes
    ----------
    path : Path
    config : dict
    checkpoints : Checkpoints

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     run = RunFolder.create(Path(parent) / "first", {"seed": 1})
    ...     run.log({"step": 10, "loss": 2.5})
    ...     run.log({"step": 20, "loss": 2.25})
    ...     run = RunFolder.open(run.path)
    ...     run.cut_metrics(after=10)
    ...     run.config, run.metrics()
    ({'seed': 1}, [{'step': 10, 'loss': 2.5}])
    """

    def __init__(self, path, config, keep=2):
        self.path = Path(path)
        self.config = config
        self.checkpoints = Checkpoints(self.path / CHECKPOINTS, keep)
        self._lock = None

    @classmethod
    def create(cls, path, config, keep=2):
        """Create the files for a run in a new or empty folder, and lock the folder.

        Raises
        ------
        CheckpointError
            If the folder is not empty, is in use or cannot be written.
        """
        run = cls(path, config, keep)
        try:
            run.path.mkdir(parents=True, exist_ok=True)
            found = run._files()
            if not found or holder_of(run.path) is not None:  # lock() names the holder in its error
                run.lock()
                found = run._files()  # another process may have been faster
        except OSError as error:
            raise write_error(run.path, error) from error
        if found:
            run.unlock()
            raise CheckpointError(
                f"{run.path} is not empty",
                got=", ".join(found[:5]) + (", ..." if len(found) > 5 else ""),
                expected="a new or an empty folder",
                hint="choose another folder, or delete this one if you no longer need it",
            )
        run.save_config()
        return run

    @classmethod
    def open(cls, path, keep=2):
        """Open the run in an existing folder.

        Raises
        ------
        CheckpointError
            If config.json is missing or damaged.
        """
        path = Path(path)
        if not (path / CONFIG).exists():
            raise CheckpointError(
                f"{path} is not a run folder: {CONFIG} is missing",
                hint="pass a folder that `mta train` or `mta tour` wrote",
            )
        return cls(path, read_json(path / CONFIG, _damaged), keep)

    def check_config(self, kind):
        """Check the types of the fields of config.json.

        `kind` describes the allowed values. It is a `Kind` (see `schema.py`).
        """
        check(self.config, kind, self.path / CONFIG, CheckpointError, _RESTORE)

    def _files(self):
        """Return the names of all files, except temporary files and the lock."""
        names = (n for n in os.listdir(self.path) if not n.endswith(TEMPORARY_SUFFIX))
        return sorted(name for name in names if name not in LOCK_FILES)

    def lock(self):
        """Lock the folder for writing. The lock lasts until `unlock` or the end of the process.

        Raises
        ------
        CheckpointError
            If another process is writing to this folder.
        """
        if self._lock is None:
            self._lock = FolderLock(self.path, "run").acquire()

    def unlock(self):
        """Release the lock, if this object holds it."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def is_running(self):
        """Return True if a process is writing to this folder."""
        return holder_of(self.path) is not None

    def save_config(self):
        """Write config.json atomically."""
        text = json.dumps(self.config, indent=2, ensure_ascii=False)
        with atomic_file(self.path / CONFIG) as file:
            file.write(text.encode("utf-8", "surrogatepass") + b"\n")

    def log(self, entry):
        """Append one line to metrics.jsonl and pass it to the operating system.

        Parameters
        ----------
        entry : dict
            JSON values, including a "step".
        """
        line = json.dumps(entry, allow_nan=False) + "\n"
        path = self.path / METRICS
        try:
            with open(path, "ab") as file:
                file.write(line.encode())
        except OSError as error:
            raise write_error(path, error) from error

    def sync(self):
        """Flush metrics.jsonl to disk, so that no line is missing when a checkpoint is written."""
        path = self.path / METRICS
        try:
            if path.exists():
                with open(path, "rb+") as file:
                    os.fsync(file.fileno())
        except OSError as error:
            raise write_error(path, error) from error

    def metrics(self):
        """Read metrics.jsonl. A truncated last line is ignored.

        Returns
        -------
        list of dict
        """
        path = self.path / METRICS
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise read_error(path, error) from error
        lines = raw.splitlines(keepends=True)
        entries = []
        for number, line in enumerate(lines, 1):
            try:
                entries.append(parse_json(line, path))
                check(entries[-1], _STEP, path)
                check(entries[-1], _METRICS, path)
            except DataError:
                if number == len(lines) and not line.endswith(b"\n"):
                    return entries[: number - 1]  # left by a killed process
                raise CheckpointError(
                    f"{path} is damaged",
                    got=f"line {number}: {line[:60]!r}",
                    expected="one JSON object with a step in each line",
                    hint="delete that line",
                ) from None
        return entries

    def cut_metrics(self, after):
        """Keep only the metrics up to step `after`. The resumed run will repeat the later steps."""
        path = self.path / METRICS
        if path.exists():
            kept = [entry for entry in self.metrics() if entry["step"] <= after]
            with atomic_file(path) as file:
                file.writelines((json.dumps(entry) + "\n").encode() for entry in kept)


def _damaged(message, **more):
    """Return the CheckpointError for a config.json that is not valid JSON."""
    return CheckpointError(message, **{**more, "hint": _RESTORE})


def free_name(parent, prefix):
    """Return the first path among parent/prefix-1, parent/prefix-2, ... that does not exist.

    Returns
    -------
    Path
    """
    paths = (Path(parent) / f"{prefix}-{number}" for number in itertools.count(1))
    return next(path for path in paths if not path.exists())


def newest_run(parent, prefix):
    """Return the run folder parent/prefix-N with the largest N, or None if there is none.

    Returns
    -------
    Path or None
    """
    found = {}
    for path in Path(parent).glob(f"{prefix}-*"):
        number = path.name.removeprefix(f"{prefix}-")
        if number.isdecimal() and (path / CONFIG).exists():
            found[int(number)] = path
    return found[max(found)] if found else None
