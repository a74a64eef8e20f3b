"""Run file `run.json`: the assignment of a grading run, and the secret seed of the check inputs.

A run draws its seed when it starts. If several machines share the work, they must check every
submission with the same inputs. So they all read one run file, which was written beforehand. It is
called the seed file.
"""

import json
import os
import re
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from ...errors import ArgumentError, DataError
from ...files import write_json
from ...schema import TEXT, Kind, check, choice, read_json, record
from .document import VERSION

__all__ = [
    "fingerprint", "read_run", "read_seed_file", "run_id", "run_seed", "write_seed_file",
]  # fmt: skip

_SEED = re.compile("[0-9a-f]{1,64}")
_RUN = record({
    "version": choice(VERSION), "assignment": TEXT, "assignment_version": TEXT,
    "seed": Kind("hexadecimal digits", lambda text: TEXT.accepts(text) and _SEED.fullmatch(text)),
})  # fmt: skip
_OTHERS = 0o077  # permissions of the group and of all users


def write_seed_file(path, name, version):
    """Draw a seed and write it to a new file, which only its owner can read.

    Parameters
    ----------
    path : path
    name, version : str
        Name and version of the assignment.

    Raises
    ------
    ArgumentError
        If the file exists or could not be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ArgumentError(
            "the seed file already exists", got=f"{path}",
            hint="use this file if a machine has already graded with it; otherwise choose another "
            "name",
        ) from None  # fmt: skip
    except OSError as error:
        raise ArgumentError(f"{path} could not be written", got=error.strerror) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(json.dumps(_new_run(name, version), indent=1) + "\n")


def read_seed_file(path, task):
    """Read a seed file: a run file that several machines share.

    The file is refused if other users can read it, because it contains the seed of hidden checks.

    Parameters
    ----------
    path : path
    task : Task

    Returns
    -------
    dict
        The content of the file.

    Raises
    ------
    ArgumentError
        If the file is for a different assignment, or other users have permission to read it.
    DataError
        If the file could not be read or is malformed.
    """
    run = read_run(path, task, "mta course seed ASSIGNMENT --out FILE")
    if os.name == "posix" and (mode := os.stat(path).st_mode & 0o777) & _OTHERS:
        raise ArgumentError(
            f"{path}: other users may read the seed of the hidden checks",
            got=f"permissions {mode:o}", expected="600", hint=f"chmod 600 {path}",
        )  # fmt: skip
    return run


def read_run(path, task=None, hint="grade into another folder"):
    """Read a run file. If a task is given, check that the run is for this assignment and version.

    Parameters
    ----------
    path : path
    task : Task, optional
    hint : str
        Advice for the error message if the file is malformed or is for another assignment or
        version.

    Returns
    -------
    dict
    """
    run = read_json(path)
    check(run, _RUN, path, hint=hint)
    named = run["assignment"], run["assignment_version"]
    if task is not None and named != (task.name, task.version):
        raise ArgumentError(
            f"grade: {path} is for another assignment or version",
            got=" ".join(named), expected=f"{task.name} {task.version}", hint=hint,
        )  # fmt: skip
    return run


def run_seed(task, out, given=None):
    """Return the seed of the check inputs: the seed in `run.json`, or a new seed if there is none.

    Parameters
    ----------
    task : Task
    out : path
        Folder of results. Its `run.json` is written if it is missing.
    given : dict, optional
        Content of the seed file, if several machines share one. If `run.json` has a different seed,
        an ArgumentError is raised.

    Returns
    -------
    int
    """
    path = Path(out) / "run.json"
    if path.exists():
        run = read_run(path, task)
        if given is not None and run["seed"] != given["seed"]:
            raise ArgumentError(
                f"grade: the results in {out} were graded with a different seed",
                got=f"a seed with the fingerprint {fingerprint(run)}",
                expected=fingerprint(given), hint="grade into another folder",
            )  # fmt: skip
        return int(run["seed"], 16)
    run = _new_run(task.name, task.version) if given is None else given
    write_json(path, run)
    path.chmod(0o600)  # with the seed, a student could prepare for the hidden inputs
    return int(run["seed"], 16)


def _new_run(name, version):
    return {
        "version": VERSION, "assignment": name, "assignment_version": version,
        "seed": f"{int.from_bytes(os.urandom(16), 'big'):032x}",
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }  # fmt: skip


def fingerprint(run):
    """Return a hash of a run's seed. The hash does not reveal the seed."""
    return sha256(b"run " + run["seed"].encode()).hexdigest()[:16]


def run_id(out):
    """Return the fingerprint of the seed in `run.json`.

    Parameters
    ----------
    out : path
        Folder of results.

    Returns
    -------
    str
        Empty if the file is missing or malformed.
    """
    try:
        return fingerprint(read_json(Path(out) / "run.json"))
    except (DataError, KeyError, TypeError, AttributeError):
        return ""
