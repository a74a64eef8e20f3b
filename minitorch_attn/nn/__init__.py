"""Layers: modules that own parameters, and PyTorch's names for all of them."""

from . import init, utils
from .containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .dropout import Dropout, DropPath
from .embedding import Embedding
from .linear import Identity, Linear
from .module import Module
from .norm import LayerNorm, RMSNorm
from .parameter import Parameter

__all__ = [
    "DropPath",
    "Dropout",
    "Embedding",
    "Identity",
    "LayerNorm",
    "Linear",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "RMSNorm",
    "Sequential",
    "init",
    "utils",
]
