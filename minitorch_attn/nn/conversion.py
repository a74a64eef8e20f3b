"""Modules in other dtypes and on other devices."""

from ..autograd.modes import no_grad
from ..errors import DTypeError

__all__ = ["Conversion"]


class Conversion:
    """The part of Module that replaces the memory of its parameters and buffers."""

    def _apply(self, convert):
        """Replace the memory of every parameter, gradient and buffer by `convert` of it."""
        for child in self.children():
            child._apply(convert)
        with no_grad():
            for parameter in self._parameters.values():
                if parameter is not None:
                    gradient, parameter.grad = parameter.grad, None
                    parameter.data = convert(parameter.detach())
                    parameter.grad = None if gradient is None else convert(gradient.detach())
            for buffer in self._buffers.values():
                if buffer is not None:
                    buffer.data = convert(buffer.detach())
        return self

    def to(self, *args, **kwargs):
        """Move or convert all parameters and buffers, in place; returns this module.

        Parameters
        ----------
        *args, **kwargs
            A dtype, a device, both (device first), or a Tensor to be like. A dtype changes
            floating-point tensors only.

        Examples
        --------
        >>> import minitorch_attn as mt
        >>> mt.nn.Linear(2, 3).to(mt.float64).weight.dtype
        dtype('float64')
        """

        def convert(tensor):
            if not tensor.is_floating_point():
                return tensor.to(tensor.new_zeros(0).to(*args, **kwargs).device)
            moved = tensor.to(*args, **kwargs)
            if not moved.is_floating_point():
                raise DTypeError(
                    f"{type(self).__name__}.to(dtype): parameters are floating-point numbers.",
                    got=f"{moved.dtype}",
                    expected="float16, float32 or float64",
                )
            return moved

        return self._apply(convert)

    def type(self, dst_type):
        """The same as `to(dst_type)`."""
        return self.to(dtype=dst_type)

    def float(self):
        """All floating-point parameters and buffers in float32."""
        return self.to(dtype="float32")

    def double(self):
        """All floating-point parameters and buffers in float64."""
        return self.to(dtype="float64")

    def half(self):
        """All floating-point parameters and buffers in float16."""
        return self.to(dtype="float16")

    def cpu(self):
        """All parameters and buffers in the memory of the host."""
        return self.to("cpu")

    def cuda(self, device=None):
        """All parameters and buffers on a GPU, the first by default."""
        return self._apply(lambda tensor: tensor.cuda(device))
