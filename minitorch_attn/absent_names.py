"""Absent names: explain the error when a program uses a PyTorch name that is missing here.

Python calls a module's `__getattr__` only for a name that the module does not define. The file
`torch_names.txt`, which lists PyTorch's names, is read on the first such call, not on import.
"""

import os
from functools import cache

from .errors import MissingNameError

__all__ = ["MODULES", "absent", "stored_names"]

_PACKAGE = __name__.partition(".")[0]
MODULES = """
    torch.ao torch.autograd.forward_ad torch.autograd.functional torch.autograd.profiler
    torch.distributions torch.export torch.func torch.fx torch.hub torch.mps
    torch.multiprocessing torch.nested torch.nn.intrinsic torch.nn.quantized
    torch.nn.utils.parametrizations torch.nn.utils.parametrize torch.nn.utils.prune torch.onnx
    torch.optim.swa_utils torch.profiler torch.quantization torch.signal torch.sparse torch.special
    torch.testing torch.utils.benchmark torch.utils.cpp_extension torch.utils.tensorboard
""".split()  # PyTorch's modules that are missing here


def absent(module):
    """Return a `__getattr__` function for a module, which raises an error for a missing name.

    Parameters
    ----------
    module : str
        Full name of the module.

    Examples
    --------
    >>> absent("minitorch_attn.fft")("hfft")
    Traceback (most recent call last):
    minitorch_attn.errors.MissingNameError: minitorch_attn.fft.hfft: PyTorch has this name, \
and this library does not
      try       see "Which names exist" in docs/coming_from_pytorch.md
    """
    namespace = f"torch{module.removeprefix(_PACKAGE)}"

    def __getattr__(name):
        if not name.startswith("_") and _is_pytorchs(namespace, name):
            raise MissingNameError(
                f"{module}.{name}: PyTorch has this name, and this library does not",
                hint='see "Which names exist" in docs/coming_from_pytorch.md',
            )
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__


def _is_pytorchs(namespace, name):
    return name in stored_names()[1].get(namespace, ()) or f"{namespace}.{name}" in MODULES


@cache
def stored_names():
    """Read PyTorch's version and its public names, by namespace, from `torch_names.txt`.

    Returns
    -------
    (str, dict of str to list of str)
    """
    path = os.path.join(os.path.dirname(__file__), "torch_names.txt")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    version, *parts = text.split("\n[")
    sections = (part.split("]", 1) for part in parts)
    return version.split()[-1], {namespace: words.split() for namespace, words in sections}
