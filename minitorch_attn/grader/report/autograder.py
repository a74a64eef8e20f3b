"""`autograder.zip` for Gradescope: archive this package, an assignment, and NumPy wheels.

Gradescope runs `python -m minitorch_attn.grader.report.on_gradescope`, which needs only NumPy.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from ...errors import ArgumentError, DataError
from ...files import atomic_file
from ..build.assignment import package_root

__all__ = ["write_autograder"]

_LEFT_OUT = ("cli", "viz", "profiling", "training", "data", "__main__.py")
_COURSE = ("__init__.py", "notebooks.py", "cells.py", "folders.py")
_PLATFORMS = ("manylinux_2_27_x86_64", "manylinux_2_28_x86_64", "manylinux2014_x86_64")


def write_autograder(made, path, wheels=None, pythons=("3.11", "3.12")):
    """Write the archive. Identical content results in identical bytes.

    Parameters
    ----------
    made : Assignment
    path : path
        File to write.
    wheels : path, optional
        Folder of NumPy wheels. If omitted, pip downloads the wheels.
    pythons : sequence of str
        Python versions to download wheels for. Gradescope's images have different versions.

    Returns
    -------
    list of str
        File names of the wheels in the archive.
    """
    with tempfile.TemporaryDirectory(prefix="minitorch-attn-wheels-") as folder:
        found = _wheels(wheels) if wheels is not None else _downloaded(Path(folder), pythons)
        members = {f"wheels/{wheel.name}": wheel.read_bytes() for wheel in found}
        members |= _package() | _assignment(made)
        members["setup.sh"] = _SETUP.encode()
        members["run_autograder"] = _RUN.replace("ASSIGNMENT", made.name).encode()
        _write(path, members)
    return [wheel.name for wheel in found]


def _wheels(folder):
    found = sorted(Path(folder).glob("numpy-*.whl"))
    if not found:
        raise ArgumentError(
            "the folder of wheels does not contain NumPy", got=str(folder),
            hint="python -m pip download 'numpy>=2' --dest DIR",
        )  # fmt: skip
    return found


def _downloaded(folder, pythons):
    """Download NumPy wheels for Linux from the index that pip is configured to use."""
    for python in pythons:
        platforms = [word for name in _PLATFORMS for word in ("--platform", name)]
        words = [
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
            "--no-deps", "--only-binary=:all:", "--python-version", python, *platforms,
            "--dest", str(folder), "numpy>=2",
        ]  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DataError(
                f"pip could not download NumPy for Python {python}",
                got=" ".join(done.stderr.split())[-300:],
                hint="give a folder of NumPy wheels: --wheels DIR",
            )
    return _wheels(folder)


def _package():
    """Return the package files that the grader needs. They contain all solutions."""
    root, members = package_root() / "minitorch_attn", {}
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if parts[0] in _LEFT_OUT or "__pycache__" in parts or not path.is_file():
            continue
        if path.suffix in (".pyc", ".tmp") or path.name.startswith("."):
            continue
        if parts[0] == "course" and parts[1] not in _COURSE:
            continue
        members[f"package/minitorch_attn/{'/'.join(parts)}"] = path.read_bytes()
    return members


def _assignment(made):
    names = sorted(path for path in made.folder.iterdir() if path.is_file())
    folder = f"package/minitorch_attn/course/assignments/{made.name}"
    return {f"{folder}/{path.name}": path.read_bytes() for path in names}


def _write(path, members):
    with atomic_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(members.items()):
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            mode = 0o755 if name in ("setup.sh", "run_autograder") else 0o644
            info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, data)


_FIND_PYTHON = """\
find_python() {
  for version in 3.14 3.13 3.12 3.11; do
    if "python$version" -c "" > /dev/null 2>&1 \\
        && ls "$BASE"/source/wheels/numpy-*-cp"${version/./}"-*.whl > /dev/null 2>&1; then
      command -v "python$version"; return
    fi
  done
  return 1
}
"""

_SETUP = (
    """\
#!/usr/bin/env bash
# Runs once, when the image is built. It downloads only Debian packages, and only if they are
# missing.
set -eu
BASE="${AUTOGRADER_BASE:-/autograder}"
"""
    + _FIND_PYTHON
    + """\
command -v bwrap > /dev/null || { apt-get update && apt-get install -y bubblewrap; } || true
find_python > /dev/null || { apt-get update && apt-get install -y python3.11; } || true
PYTHON="$(find_python)"
"$PYTHON" -m pip --version > /dev/null 2>&1 || apt-get install -y python3-pip
"$PYTHON" -m pip install --quiet --no-index --find-links "$BASE/source/wheels" \\
  --target "$BASE/site" --upgrade numpy
# A submission must not read the solutions and the inputs.
chmod 700 "$BASE/source"
"""
)

_RUN = (
    """\
#!/usr/bin/env bash
# Runs for each submission, and always writes a result.
BASE="${AUTOGRADER_BASE:-/autograder}"
"""
    + _FIND_PYTHON
    + """\
chmod 700 "$BASE/source" "$BASE/results" "$BASE/submission"
export PYTHONPATH="$BASE/source/package:$BASE/site"
export PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1
cd "$BASE"
rm -rf "$BASE/results/results.json"
"$(find_python)" -m minitorch_attn.grader.report.on_gradescope ASSIGNMENT \\
  "$BASE/submission" "$BASE/results/results.json"
status=$?
if [ ! -s "$BASE/results/results.json" ]; then
  printf '{"score": 0, "output": "The grader itself failed (status %s): not a grade."}\\n' \\
    "$status" > "$BASE/results/results.json"
fi
exit 0
"""
)
