"""Reference libraries for model tests; timm is imported with a replacement for torchvision."""

import importlib.machinery
import importlib.util
import sys
import types

import pytest

pytest.importorskip("torch", reason="needs the parity extra")


class _Anything(type):
    """A class that has every attribute."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _Standin(types.ModuleType):
    """A module whose every name is an empty class: timm's models use none of torchvision's."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {})


class _Finder:
    """Finds `torchvision` and everything in it, where the real one is not installed."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] != "torchvision":
            return None
        return importlib.machinery.ModuleSpec(name, _Finder, is_package=True)

    @staticmethod
    def create_module(spec):
        return _Standin(spec.name)

    @staticmethod
    def exec_module(module):
        module.__version__ = "0"


@pytest.fixture(scope="session")
def timm():
    """timm, with or without torchvision."""
    if importlib.util.find_spec("torchvision") is None:
        sys.meta_path.append(_Finder)
    return pytest.importorskip("timm", reason="needs the parity extra")


@pytest.fixture(scope="session")
def transformers():
    """transformers, told not to talk."""
    module = pytest.importorskip("transformers", reason="needs the parity extra")
    module.logging.set_verbosity_error()
    return module
