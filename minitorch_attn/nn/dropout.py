"""Layers that leave things out at random while training."""

from .. import ops
from ..errors import ArgumentError
from .module import Module

__all__ = ["DropPath", "Dropout"]


class Dropout(Module):
    """Zero each element with probability p and divide the others by 1 - p, in training only.

    Parameters
    ----------
    p : float, default 0.5
    inplace : bool, default False
        Write into the input.

    Notes
    -----
    Srivastava et al. 2014, JMLR 15, section 4; here the scaling is done while training, so that
    nothing remains to be done afterwards.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.Dropout(0.5).eval()(mt.ones(3))
    tensor([1., 1., 1.])
    """

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ArgumentError("Dropout(p).", got=repr(p), expected="a probability from 0 to 1")
        self.p, self.inplace = p, inplace

    def forward(self, input):
        return ops.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class DropPath(Module):
    """Zero whole samples of the batch with a probability, in training only: stochastic depth.

    It stands on a residual branch, so that a zeroed sample passes the block unchanged.

    Parameters
    ----------
    drop_prob : float, default 0
    scale_by_keep : bool, default True
        Divide what is kept by 1 - drop_prob.

    Notes
    -----
    Huang et al. 2016, arXiv:1603.09382v3, section 3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.DropPath(0.5).eval()(mt.ones(2, 1))
    tensor([[1.],
            [1.]])
    """

    def __init__(self, drop_prob=0.0, scale_by_keep=True):
        super().__init__()
        if not 0 <= drop_prob <= 1:
            raise ArgumentError(
                "DropPath(drop_prob).", got=repr(drop_prob), expected="a probability from 0 to 1"
            )
        self.drop_prob, self.scale_by_keep = drop_prob, scale_by_keep

    def forward(self, x):
        # x: (batch, ...)
        return ops.drop_path(x, self.drop_prob, self.training, self.scale_by_keep)

    def extra_repr(self):
        return f"drop_prob={self.drop_prob}, scale_by_keep={self.scale_by_keep}"
