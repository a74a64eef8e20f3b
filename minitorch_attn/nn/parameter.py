"""Parameter: a tensor that a module owns and an optimizer updates."""

from ..named_errors import names_arguments
from ..tensor import Tensor, tensor

__all__ = ["Parameter"]


class Parameter(Tensor):
    """Trainable tensor: a leaf that requires grad. Assigning it to a `Module` registers it.

    Parameters
    ----------
    data : Tensor, array, nested sequence or number
        Initial value. A Tensor is detached but not copied. All other values are copied.
    requires_grad : bool, default True

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.Parameter(mt.tensor([1.0, 2.0]))
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    __slots__ = ()

    @names_arguments
    def __init__(self, data, requires_grad=True):
        source = data if isinstance(data, Tensor) else tensor(data)
        super().__init__()
        self.data = source
        self._version = source._version  # the same memory, so the same version counter
        self.requires_grad = requires_grad

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo):
        copy = type(self)(self.detach().clone(), self.requires_grad)
        if self.grad is not None:
            copy.grad = self.grad.detach().clone()
        memo[id(self)] = copy
        return copy
