"""Linear algebra, named as in `torch.linalg`. It contains only `vector_norm`."""

from .ops.vector_norm import vector_norm

__all__ = ["vector_norm"]
