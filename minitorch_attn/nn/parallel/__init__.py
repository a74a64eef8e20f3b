"""Parallel training: modules that share a model or a batch, under PyTorch's names."""

from ...absent_names import absent as _absent
from ..data_parallel import DataParallel  # noqa: F401

# Imported on first use, because they need `distributed`: names and the files that define them.
_DEFINED_IN = {"DistributedDataParallel": "distributed_data_parallel"}


def __getattr__(name):
    if name in _DEFINED_IN:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_DEFINED_IN[name]}"), name)
    return _absent(__name__)(name)


def __dir__():
    return sorted([*globals(), *_DEFINED_IN])
