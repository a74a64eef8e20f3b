"""Let einops compute with tensors of this library: `einops.rearrange(x, "b t d -> t b d")`.

einops recognizes a library by its backend, a class that must exist when einops first sees a tensor.
This package defines its backend as soon as both packages are imported, in either order, but it does
not import einops itself. The einops layers are in `minitorch_attn.einops.layers`.
"""

import sys
from importlib import import_module
from importlib.util import find_spec

__all__ = ["define_backend"]


def define_backend():
    """Define the backend now if einops has been imported, otherwise as soon as it is imported."""
    if "einops" in sys.modules:
        import_module(f"{__name__}.backend")
    else:
        sys.meta_path.insert(0, _WhenImported())


class _WhenImported:
    """Import hook that defines the backend when einops imports its own `_backends` module."""

    def find_spec(self, name, path=None, target=None):
        if name != "einops._backends":
            return None  # leave the module to the other finders
        sys.meta_path.remove(self)
        spec = find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            import_module(f"{__name__}.backend")

        spec.loader.exec_module = exec_module
        return spec
