"""The folder of one run: config.json, metrics.jsonl and the checkpoints."""

import itertools
import json
import os
from pathlib import Path

from ..errors import CheckpointError
from ..files import TEMPORARY_SUFFIX, atomic_file, read_error, write_error
from .checkpoint import Checkpoints

__all__ = ["RunFolder", "free_name", "newest_run"]

CONFIG, METRICS, CHECKPOINTS = "config.json", "metrics.jsonl", "checkpoints"


class RunFolder:
    """What a run leaves behind, and what a resumed run finds.

    `metrics.jsonl` holds one JSON object a line, each with a "step". It contains nothing that
    depends on the clock, so that a run that was interrupted and resumed leaves the same file as
    one that was not.

    Parameters
    ----------
    path : str or path
    config : dict
        JSON values: everything needed to start the run again.
    keep : int, default 2
        How many checkpoints to keep.

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

    @classmethod
    def create(cls, path, config, keep=2):
        """Start a run in a folder that does not exist yet or is empty.

        Raises
        ------
        CheckpointError
            If there is something in the folder, or it cannot be written.
        """
        run = cls(path, config, keep)
        try:
            run.path.mkdir(parents=True, exist_ok=True)
            found = sorted(n for n in os.listdir(run.path) if not n.endswith(TEMPORARY_SUFFIX))
        except OSError as error:
            raise write_error(run.path, error) from error
        if found:
            raise CheckpointError(
                f"{run.path} is not empty.",
                got=", ".join(found[:5]) + (", ..." if len(found) > 5 else ""),
                expected="a new or an empty folder",
            )
        run.save_config()
        return run

    @classmethod
    def open(cls, path, keep=2):
        """The run that is in a folder.

        Raises
        ------
        CheckpointError
            If there is no run, or its config.json is damaged.
        """
        path = Path(path)
        try:
            config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise CheckpointError(f"there is no run in {path}.", got=f"no {CONFIG}") from None
        except OSError as error:
            raise read_error(path / CONFIG, error) from error
        except ValueError as error:
            raise CheckpointError(
                f"{path / CONFIG} is damaged.",
                got=str(error),
                hint="each checkpoint holds a copy: mt.load(file)['config']",
            ) from None
        return cls(path, config, keep)

    def save_config(self):
        """Write config.json anew, atomically."""
        text = json.dumps(self.config, indent=2, ensure_ascii=False)
        with atomic_file(self.path / CONFIG) as file:
            file.write(text.encode("utf-8", "surrogatepass") + b"\n")

    def log(self, entry):
        """Append one line to metrics.jsonl; it is with the operating system when this returns.

        Parameters
        ----------
        entry : dict
            JSON values, with a "step".
        """
        line = json.dumps(entry, allow_nan=False) + "\n"
        path = self.path / METRICS
        try:
            with open(path, "ab") as file:
                file.write(line.encode())
        except OSError as error:
            raise write_error(path, error) from error

    def sync(self):
        """Let metrics.jsonl reach the disk: a checkpoint must not outlive the lines before it."""
        path = self.path / METRICS
        try:
            if path.exists():
                with open(path, "rb+") as file:
                    os.fsync(file.fileno())
        except OSError as error:
            raise write_error(path, error) from error

    def metrics(self):
        """The lines of metrics.jsonl; a last line that was cut off is left out.

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
                entry = json.loads(line)
                entries.append((entry["step"], entry))
            except (ValueError, KeyError, TypeError):
                if number == len(lines) and not line.endswith(b"\n"):
                    break  # a killed process was writing it
                raise CheckpointError(
                    f"{path} is damaged.",
                    got=f"line {number}: {line[:60]!r}",
                    expected="one JSON object with a step in each line",
                    hint="delete that line",
                ) from None
        return [entry for _, entry in entries]

    def cut_metrics(self, after):
        """Drop the lines of later steps, before the steps are done again."""
        path = self.path / METRICS
        if path.exists():
            kept = [entry for entry in self.metrics() if entry["step"] <= after]
            with atomic_file(path) as file:
                file.writelines((json.dumps(entry) + "\n").encode() for entry in kept)


def free_name(parent, prefix):
    """The first of parent/prefix-1, parent/prefix-2, ... that does not exist.

    Returns
    -------
    Path
    """
    paths = (Path(parent) / f"{prefix}-{number}" for number in itertools.count(1))
    return next(path for path in paths if not path.exists())


def newest_run(parent, prefix):
    """The run parent/prefix-N with the largest N, or None.

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
