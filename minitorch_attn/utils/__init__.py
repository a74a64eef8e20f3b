"""PyTorch's `torch.utils`: data sets and loaders in `utils.data`, and `utils.checkpoint`."""

from . import checkpoint, data

__all__ = ["checkpoint", "data"]
