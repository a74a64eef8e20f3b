"""Linear algebra: the functions of `torch.linalg` that this library has."""

from .ops.vector_norm import vector_norm

__all__ = ["vector_norm"]
