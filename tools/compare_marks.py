"""Compare the marks of two grading runs: `python -m tools.compare_marks DIR DIR`.

The files grades.csv and run.json do not contain measured times, and must be equal byte for byte. In
all other files, the program first replaces the measured times: when a submission was graded, and
how many seconds it took. The rest of these files must also be equal byte for byte.
"""

import argparse
import re
import sys
from pathlib import Path

TIMED = {
    ".json": (rb'"(written|time)": "[^"]*"|"(seconds|execution_time)": [0-9.e-]+',),
    ".xml": (rb' (time|timestamp)="[^"]*"',),
    ".html": (rb"Graded [0-9-]{10} [0-9:]{5} UTC",),
}
EXACT = {"grades.csv", "run.json"}
_OMITTED = {".lock", ".lock.json", "shard.json", "grader-errors.txt"}


def marks_files(folder):
    """Return the path of each file of a results folder, relative to the folder."""
    paths = (path for path in Path(folder).rglob("*") if path.is_file())
    return {path.relative_to(folder) for path in paths if path.name not in _OMITTED}


def without_times(path):
    """Return the bytes of a file with each measured time replaced by a placeholder."""
    data = path.read_bytes()
    if path.name in EXACT:
        return data
    for pattern in TIMED.get(path.suffix, ()):
        data = re.sub(pattern, b"(measured)", data)
    return data


def compare(first, second):
    """Compare two results folders.

    Parameters
    ----------
    first, second : path

    Returns
    -------
    dict
        Lists of relative paths: `equal` (byte for byte), `timed` (equal apart from measured times),
        `different`, and `alone` (in one folder only).
    """
    first, second = Path(first), Path(second)
    one, two = marks_files(first), marks_files(second)
    found = {"equal": [], "timed": [], "different": [], "alone": sorted(one ^ two)}
    for name in sorted(one & two):
        if (first / name).read_bytes() == (second / name).read_bytes():
            found["equal"].append(name)
        elif without_times(first / name) == without_times(second / name):
            found["timed"].append(name)
        else:
            found["different"].append(name)
    return found


def summary(found):
    """Format the result of `compare` as text."""
    lines = [
        f"{len(found['equal'])} files are equal byte for byte",
        f"{len(found['timed'])} files are equal apart from measured times",
    ]
    for key, text in (("different", "differ"), ("alone", "exist in one folder only")):
        some = f": {', '.join(map(str, found[key][:5]))}" if found[key] else ""
        lines.append(f"{len(found[key])} files {text}{some}")
    return "\n".join(lines)


def main(arguments=None):
    """Compare two folders; exit with status 1 if they differ."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs=2, type=Path, metavar="DIR")
    found = compare(*parser.parse_args(arguments).folders)
    print(summary(found))
    return 1 if found["different"] or found["alone"] else 0


if __name__ == "__main__":
    sys.exit(main())
