"""Utilities, as in `torch.utils`: data sets and loaders in `utils.data`, and `utils.checkpoint`."""

from ..absent_names import absent as _absent
from . import checkpoint, data

__all__ = ["checkpoint", "data"]

__getattr__ = _absent(__name__)
