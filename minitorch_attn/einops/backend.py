"""Backend that lets einops recognize this library's tensors and compute with them."""

from einops._backends import AbstractBackend

from .. import ops
from ..tensor import Tensor

__all__ = ["MiniTorchBackend"]


class MiniTorchBackend(AbstractBackend):
    """Tensor operations behind `rearrange`, `reduce`, `repeat`, `einsum`, `pack` and `unpack`."""

    framework_name = "minitorch_attn"

    def is_appropriate_type(self, tensor):
        return isinstance(tensor, Tensor)

    def from_numpy(self, x):
        return ops.from_numpy(x)

    def to_numpy(self, x):
        return x.detach().numpy()

    def arange(self, start, stop):
        return ops.arange(start, stop)

    def reduce(self, x, operation, axes):
        if operation == "prod":  # one axis at a time, the last one first
            for axis in sorted(axes, reverse=True):
                x = ops.prod(x, axis)
            return x
        name = {"max": "amax", "min": "amin"}.get(operation, operation)
        return getattr(ops, name)(x, tuple(axes))

    def transpose(self, x, axes):
        return ops.permute(x, axes)

    def stack_on_zeroth_dimension(self, tensors):
        return ops.stack(tensors)

    def add_axis(self, x, new_position):
        return ops.unsqueeze(x, new_position)

    def add_axes(self, x, n_axes, pos2len):
        sizes = [-1] * n_axes
        for axis, size in pos2len.items():
            x, sizes[axis] = ops.unsqueeze(x, axis), size
        return ops.expand(x, sizes)

    def tile(self, x, repeats):
        return ops.repeat(x, repeats)

    def concat(self, tensors, axis):
        return ops.cat(tensors, axis)

    def is_float_type(self, x):
        return x.is_floating_point()

    def einsum(self, pattern, *x):
        return ops.einsum(pattern, *x)

    def layers(self):
        from . import layers

        return layers
