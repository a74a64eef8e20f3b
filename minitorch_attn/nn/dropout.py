"""Dropout layers for elements and for channels (Dropout1d to Dropout3d), and DropPath."""

from .. import ops
from ..errors import ArgumentError
from ..ops.dropout import add_dropped
from .hooks import is_plain, is_taken_apart
from .module import Module

__all__ = ["DropPath", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d"]


class Dropout(Module):
    """Dropout: in training, zero each element with probability p and divide the rest by 1 - p.

    Parameters
    ----------
    p : float, default 0.5
        Probability that an element is zeroed.
    inplace : bool, default False
        Whether to write the result into the input.

    Notes
    -----
    Srivastava et al. 2014, JMLR 15, section 4. Unlike in the paper, the scaling happens during
    training, so evaluation leaves the input unchanged.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.Dropout(0.5).eval()(mt.ones(3))
    tensor([1., 1., 1.])
    """

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ArgumentError(
                f"{type(self).__name__}: p must be between 0 and 1",
                got=repr(p),
                hint="use p=0.1, for example, to zero 10 percent of the elements",
            )
        self.p, self.inplace = p, inplace

    def forward(self, input):
        return ops.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


def add_residual(x, branch, dropout):
    """Return `x + dropout(branch)`, computed as one fused operation in training.

    Parameters
    ----------
    x, branch : Tensor of the same shape
        Residual stream, and the output of a branch.
    dropout : Module
        Dropout module to apply. A plain `Dropout` without hooks is fused with the addition.
    """
    if is_plain(dropout, Dropout) and dropout.training and dropout.p and not is_taken_apart():
        return add_dropped(x, branch, dropout.p)
    return x + dropout(branch)


class Dropout1d(Dropout):
    """Dropout of whole channels, for inputs of shape (batch, channel, length) or (channel, length).

    Each channel is zeroed with probability `p`. For the parameters, see `Dropout`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> generator = mt.manual_seed(0)
    >>> mt.nn.Dropout1d()(mt.ones(1, 3, 2))
    tensor([[[2., 2.],
             [0., 0.],
             [2., 2.]]])
    """

    def forward(self, input):
        return ops.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(Dropout):
    """Dropout of whole channels of images, of shape (batch, channel, height, width)."""

    def forward(self, input):
        return ops.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(Dropout):
    """Dropout of whole channels, for inputs of shape ([batch,] channel, depth, height, width)."""

    def forward(self, input):
        return ops.dropout3d(input, self.p, self.training, self.inplace)


class DropPath(Module):
    """DropPath (stochastic depth): zero whole samples of the batch, in training only.

    Use DropPath on a residual branch. A sample whose branch is zeroed passes through the block
    unchanged.

    Parameters
    ----------
    drop_prob : float, default 0
        Probability that a sample is zeroed.
    scale_by_keep : bool, default True
        Whether to divide the kept samples by 1 - drop_prob.

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
                "DropPath: drop_prob must be between 0 and 1",
                got=repr(drop_prob),
                hint="use drop_prob=0.1, for example, to zero 10 percent of the samples",
            )
        self.drop_prob, self.scale_by_keep = drop_prob, scale_by_keep

    def forward(self, x):
        # x: (batch, ...)
        return ops.drop_path(x, self.drop_prob, self.training, self.scale_by_keep)

    def extra_repr(self):
        return f"drop_prob={self.drop_prob}, scale_by_keep={self.scale_by_keep}"
