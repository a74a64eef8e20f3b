"""Pretrained models: load and save Hugging Face and timm model folders.

The classes have the arguments and the parameter names of the Hugging Face and timm classes.
`mt.models.from_pretrained(folder)` loads a folder; `mt.models.pretrained.GPT2LMHeadModel(config)`
creates a model from a configuration, such as {"n_layer": 2}.
"""

from ...errors import ArgumentError
from .config import Config
from .output import Output
from .registry import FAMILIES, find_class, from_pretrained

__all__ = ["Config", "Output", "from_pretrained"]


def __getattr__(name):
    if name.startswith(tuple(FAMILIES)):
        try:
            return find_class(name)
        except ArgumentError as error:
            raise AttributeError(str(error)) from None  # `hasattr` then returns False
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
