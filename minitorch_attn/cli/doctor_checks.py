"""Checks for `mta doctor`: Python, NumPy, BLAS, the GPU, folders, fonts, sandbox and packages."""

import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from ..errors import MiniTorchError

__all__ = ["Result", "checks"]

_OLDEST = (3, 11)
_EXTRAS = {
    "lessons": ("nbformat", "nbclient", "ipykernel"),
    "data": ("sklearn",),
    "tokenizers": ("tokenizers",),
}
_USES = {
    "lessons": "lessons as notebooks",
    "data": "scikit-learn's handwritten digits",
    "tokenizers": "WordPiece and SentencePiece tokenizers",
}
_SANDBOX = {
    3: "level 3: bubblewrap; submissions cannot read your files or use the network",
    2: "level 2: submissions run as another user in their own root folder",
    1: "level 1: submissions can read your files and use the network",
}


@dataclass(frozen=True)
class Result:
    """Result of one check.

    Parameters
    ----------
    name : str
    state : {"ok", "optional", "missing"}
        "optional" means unavailable but not required.
    text : str
        Version, path or reason.
    remedy : str, default ""
        Instructions to fix the problem. Empty if the state is "ok".
    """

    name: str
    state: str
    text: str
    remedy: str = ""

    def fields(self):
        """Return the result as a dict of strings."""
        return asdict(self)


def checks():
    """Return all checks in display order, as callables that return a Result.

    Returns
    -------
    list of callable
    """
    folders = [
        ("working folder", Path.cwd, "change to a folder that you can write to"),
        ("state folder", _state, "set MTA_STATE to a folder that you can write to"),
        ("temporary folder", _temporary, "set TMPDIR to a folder with free space"),
    ]
    return [
        python, numpy, blas, cupy, lesson_files,
        *[lambda entry=entry: folder(*entry) for entry in folders],
        fonts, letters, sandbox,
        *[lambda name=name: extra(name) for name in _EXTRAS],
    ]  # fmt: skip


def python():
    """Check the Python version."""
    text = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < _OLDEST:
        return Result("Python", "missing", text, "install Python 3.11 or newer")
    return Result("Python", "ok", text)


def numpy():
    """Check the NumPy version."""
    try:
        import numpy as np
    except ImportError as error:
        remedy = "python -m pip install --force-reinstall numpy"
        return Result("NumPy", "missing", str(error), remedy)
    if int(np.__version__.split(".")[0]) < 2:
        return Result("NumPy", "missing", np.__version__, "python -m pip install 'numpy>=2.0'")
    return Result("NumPy", "ok", np.__version__)


def blas():
    """Find out which BLAS library NumPy uses, its kernels and its number of threads."""
    import numpy as np

    from ..backend.blas import blas_kernels, blas_threads

    try:
        built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        name = f"{built['name']} {built.get('version', '')}".strip()
    except (KeyError, TypeError):
        name = "unknown"
    if "openblas" in name and (kernels := blas_kernels()):
        forced = " (OPENBLAS_CORETYPE is set)" if os.environ.get("OPENBLAS_CORETYPE") else ""
        name += f", {kernels} kernels{forced}"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    count = blas_threads()
    if count is None:
        return Result("BLAS", "ok", f"{name}, unknown number of threads, {cores} cores")
    text = f"{name}, {count} of {cores} threads"
    if count < cores and "OMP_NUM_THREADS" in os.environ:
        return Result("BLAS", "ok", f"{text} (OMP_NUM_THREADS is set)")
    return Result("BLAS", "ok", text)


def cupy():
    """Check CuPy and the GPU."""
    name = "GPU"
    if importlib.util.find_spec("cupy") is None:
        remedy = "for NVIDIA: python -m pip install 'minitorch-attn[cuda13]' (or cuda12)"
        return Result(name, "optional", "CuPy is not installed; only the CPU is used", remedy)
    from ..backend import cuda

    try:
        cuda.load()
        shown = cuda.get_device_name()
    except Exception as error:  # a driver may raise anything
        first, *rest = str(error).splitlines() or [type(error).__name__]
        remedy = "\n".join(line.strip() for line in rest) or "see docs/devices.md"
        return Result(name, "optional", first, remedy)
    return Result(name, "ok", f"{shown}, CuPy {metadata_version('cupy')}")


def lesson_files():
    """Count the lessons."""
    from ..course.lesson_list import lesson_folder, lessons

    try:
        return Result("lessons", "ok", f"{len(lessons())} in {lesson_folder()}")
    except MiniTorchError as error:
        return Result("lessons", "missing", error.message, error.hint or "")


def _state():
    from ..course.progress import state_folder

    return state_folder()


def _temporary():
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        return Path("/tmp")


def folder(name, find, remedy):
    """Check that a folder can be written to and has free space."""
    path = find()
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path):
            pass
        free = shutil.disk_usage(path).free
    except OSError as error:
        return Result(name, "missing", f"{path}: {error.strerror}", remedy)
    if free < 2**28:
        return Result(name, "missing", f"{path}: only {free / 2**20:.0f} MiB are free", remedy)
    return Result(name, "ok", str(path))


def fonts():
    """Check that the font used for figures is installed."""
    try:
        from matplotlib import font_manager

        found = font_manager.findfont("DejaVu Sans", fallback_to_default=False)
    except (ImportError, ValueError, OSError) as error:
        remedy = "python -m pip install --force-reinstall matplotlib"
        return Result("fonts", "missing", str(error).splitlines()[0], remedy)
    return Result("fonts", "ok", Path(found).name)


def letters():
    """Check that the terminal's encoding supports the characters used in formulas."""
    encoding = sys.stdout.encoding or "ascii"
    try:
        "\u221a\u1d40\u2099\u2500".encode(encoding)
    except (LookupError, UnicodeEncodeError):
        remedy = "set PYTHONUTF8=1 to show letters; otherwise formulas are shown as LaTeX"
        return Result("letters", "optional", f"{encoding} cannot show \\u221a", remedy)
    return Result("letters", "ok", encoding)


def sandbox():
    """Find the highest sandbox level available for untrusted code."""
    from ..grader.grade.sandbox import Sandbox

    level, why = Sandbox.probe() if hasattr(os, "geteuid") else (1, "this system is not Unix")
    text = _SANDBOX[level]
    if level == 3:
        return Result("sandbox", "ok", text)
    if not shutil.which("bwrap"):
        remedy = "on Debian or Ubuntu: apt install bubblewrap"
    else:
        remedy = f"bubblewrap does not start: {why}\nin a container, allow user namespaces"
    return Result("sandbox", "optional", text, remedy)


def extra(name):
    """Check the packages of an optional dependency group (extra), such as `tokenizers`."""
    absent = [module for module in _EXTRAS[name] if importlib.util.find_spec(module) is None]
    if absent:
        remedy = f"python -m pip install 'minitorch-attn[{name}]'"
        text = f"{_USES[name]}: {', '.join(absent)} not installed"
        return Result(f"[{name}]", "optional", text, remedy)
    versions = ", ".join(f"{module} {metadata_version(module)}" for module in _EXTRAS[name])
    return Result(f"[{name}]", "ok", versions)


def metadata_version(module):
    """Return the version of the package that provides a module, or "?" if it is unknown."""
    for package in metadata.packages_distributions().get(module, ()):
        return metadata.version(package)
    return "?"
