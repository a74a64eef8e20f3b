"""Flatten and Unflatten: merge axes into one, or split one axis into several."""

from .. import ops
from .module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Merge the axes from `start_dim` to `end_dim` into one.

    Parameters
    ----------
    start_dim : int, default 1
        First axis to merge. The default keeps the batch axis.
    end_dim : int, default -1
        Last axis to merge.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.Flatten()(mt.zeros(2, 3, 5)).shape
    (2, 15)
    """

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input):
        return ops.flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self):
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split the axis `dim` into several axes, whose sizes are `unflattened_size`.

    Parameters
    ----------
    dim : int
        Axis to split.
    unflattened_size : tuple of int
        Sizes of the new axes. One of the sizes can be -1 and is then inferred.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.Unflatten(1, (3, 5))(mt.zeros(2, 15)).shape
    (2, 3, 5)
    """

    def __init__(self, dim, unflattened_size):
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input):
        return ops.unflatten(input, self.dim, self.unflattened_size)

    def extra_repr(self):
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
