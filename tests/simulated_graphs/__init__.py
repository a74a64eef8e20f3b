"""Give `cupysim`, CuPy with a processor in place of the GPU, the CUDA graphs that it does not have.

`capture.c` takes the place of a few functions of CUDA. CuPy itself, with its own checks, does the
rest. On a GPU, and without `cupysim`, nothing is changed.
"""

import ctypes
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["captured_nodes", "install", "why_broken"]

_SOURCE = Path(__file__).with_name("capture.c")
_loaded = []


def install():
    """Load the functions; to be called before CuPy is imported. Return whether they are there."""
    if importlib.util.find_spec("cupysim") is None or "cupy" in sys.modules:
        return bool(_loaded)
    from cupysim import pathfinder

    library = ctypes.CDLL(str(_compiled()), ctypes.RTLD_GLOBAL)
    library.cs_graphs_use(pathfinder.LIBRARY.encode())
    library.cs_graphs_why.restype = ctypes.c_char_p
    pathfinder.LIBRARY = library._name  # where CuPy looks for the functions of the driver
    _loaded.append(library)
    return True


def _compiled():
    """Compile the functions, once for each version of their source."""
    from cupysim import pathfinder

    key = hashlib.sha1(_SOURCE.read_bytes() + pathfinder.LIBRARY.encode()).hexdigest()[:16]
    made = Path(tempfile.gettempdir()) / f"simulated-graphs-{os.getuid()}-{key}.so"
    if not made.exists():
        folder, name = os.path.split(pathfinder.LIBRARY)
        part = made.with_suffix(f".{os.getpid()}")
        subprocess.run(
            ["gcc", "-O1", "-shared", "-fPIC", "-w", str(_SOURCE), "-o", str(part),
             f"-Wl,-rpath,{folder},--no-as-needed", f"-L{folder}", f"-l:{name}", "-ldl"],
            check=True,
        )  # fmt: skip
        os.replace(part, made)
    return made


def captured_nodes():
    """Return the number of nodes of the latest capture; None on a GPU."""
    return _loaded[0].cs_graphs_nodes() if _loaded else None


def why_broken():
    """Return what the latest capture refused, or an empty string."""
    return _loaded[0].cs_graphs_why().decode() if _loaded else ""
