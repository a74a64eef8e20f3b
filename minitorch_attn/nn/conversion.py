"""Conversion of modules to another dtype or device: to, float, half, cpu, cuda."""

from ..autograd.modes import no_grad
from ..errors import DTypeError
from ..named_errors import NamedErrors

__all__ = ["Conversion"]


class Conversion(NamedErrors):
    """Mixin for Module: convert parameters and buffers to another dtype or device."""

    def _apply(self, convert):
        """Convert every parameter, gradient and buffer in place, with the function `convert`."""
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
        """Move or convert all parameters and buffers in place, and return this module.

        Parameters
        ----------
        *args, **kwargs
            A dtype, a device, or both (device first). A Tensor stands for its dtype and device.
            Only floating-point tensors are converted to the dtype.

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
                    f"{type(self).__name__}.to: dtype must be a floating-point dtype",
                    got=f"{moved.dtype}",
                    expected="float16, float32 or float64",
                    hint="call half(), float() or double()",
                )
            return moved

        return self._apply(convert)

    def type(self, dst_type):
        """Convert all floating-point parameters and buffers to a dtype, like `to`."""
        return self.to(dtype=dst_type)

    def float(self):
        """Convert all floating-point parameters and buffers to float32."""
        return self.to(dtype="float32")

    def double(self):
        """Convert all floating-point parameters and buffers to float64."""
        return self.to(dtype="float64")

    def half(self):
        """Convert all floating-point parameters and buffers to float16."""
        return self.to(dtype="float16")

    def cpu(self):
        """Move all parameters and buffers to the CPU."""
        return self.to("cpu")

    def cuda(self, device=None):
        """Move all parameters and buffers to a GPU, by default to the first GPU."""
        return self._apply(lambda tensor: tensor.cuda(device))
