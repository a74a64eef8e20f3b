"""The methods of Tensor, by what they do."""

from .change import Change
from .elementwise import Elementwise
from .layout import Layout
from .reductions import Reductions

__all__ = ["TensorMethods"]


class TensorMethods(Elementwise, Reductions, Layout, Change):
    """Everything that is called as `x.method(...)` and is not an operator."""

    __slots__ = ()
