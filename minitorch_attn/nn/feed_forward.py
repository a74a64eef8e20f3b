"""Feed-forward network of a Transformer block: two linear layers, applied to every token."""

from .. import ops
from ..computes import computes
from .activation import activation_function, fused_name
from .dropout import Dropout
from .hooks import is_plain, is_taken_apart
from .linear import Linear
from .module import Module

__all__ = ["FeedForward", "GatedFeedForward"]


class FeedForward(Module):
    """Position-wise feed-forward network, `y = W2 f(W1 x + b1) + b2` at every token.

    Parameters
    ----------
    embed_dim : int
        Number of features of the input and the output.
    hidden_dim : int, optional
        Number of hidden features. Default: 4 * embed_dim.
    activation : str or callable, default "gelu"
        Activation f; see `activation_function`.
    dropout : float, default 0
        Dropout probability of the output of f, applied during training.
    bias : bool, default True
    device, dtype : optional
        Device and dtype of the parameters.

    Notes
    -----
    Vaswani et al. 2017, arXiv:1706.03762v7, Eq. 2, where f is ReLU. With GELU, ReLU or SiLU and
    without dropout, the network is one fused operation, `ops.feed_forward`. The layers run one by
    one inside `mt.trace`, or if one of them has a hook or was replaced.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.FeedForward(6)(mt.zeros(2, 5, 6)).shape
    (2, 5, 6)
    """

    def __init__(
        self, embed_dim, hidden_dim=None, activation="gelu", dropout=0.0, bias=True,
        device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        hidden_dim = 4 * embed_dim if hidden_dim is None else hidden_dim
        self.linear1 = Linear(embed_dim, hidden_dim, bias, device, dtype)
        self.linear2 = Linear(hidden_dim, embed_dim, bias, device, dtype)
        self.activation = activation_function(activation)
        self.dropout = Dropout(dropout)

    @computes("feed-forward network")
    def forward(self, x):
        # x: (..., embed) -> (..., hidden) -> (..., embed)
        return two_layers(x, self.linear1, self.activation, self.dropout, self.linear2)


@computes("feed-forward network")
def two_layers(x, linear1, activation, dropout, linear2):
    """Return `linear2(dropout(activation(linear1(x))))`, as one fused operation if possible.

    Parameters
    ----------
    x : Tensor of shape (..., in)
    linear1, linear2 : Module
    activation : callable
    dropout : Module, or None

    Returns
    -------
    Tensor of shape (..., out)
    """
    name = fused_name(activation)
    if (
        name is None
        or is_taken_apart()
        or not (is_plain(linear1, Linear) and is_plain(linear2, Linear))
        or not (dropout is None or is_plain(dropout, Dropout))
        or (dropout is not None and dropout.training and dropout.p > 0)
    ):
        hidden = activation(linear1(x))
        return linear2(hidden if dropout is None else dropout(hidden))
    return ops.feed_forward(x, linear1.weight, linear1.bias, linear2.weight, linear2.bias, name)


class GatedFeedForward(Module):
    """Gated feed-forward network, `y = W_down (f(W_gate x) * W_up x)`.

    With the default activation this is SwiGLU, the feed-forward network of Llama.

    Parameters
    ----------
    embed_dim : int
        Number of features of the input and the output.
    hidden_dim : int, optional
        Number of hidden features. Default: two thirds of 4 * embed_dim. The network then has the
        same number of weights as `FeedForward`.
    activation : str or callable, default "silu"
        Activation f; "gelu" gives GEGLU, and "sigmoid" gives GLU.
    dropout : float, default 0
        Dropout probability of the input of W_down, applied during training.
    bias : bool, default False
    device, dtype : optional
        Device and dtype of the parameters.

    Notes
    -----
    Shazeer 2020, arXiv:2002.05202v1, Eq. 6.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.GatedFeedForward(6, 16)(mt.zeros(2, 5, 6)).shape
    (2, 5, 6)
    """

    def __init__(
        self, embed_dim, hidden_dim=None, activation="silu", dropout=0.0, bias=False,
        device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        hidden_dim = 8 * embed_dim // 3 if hidden_dim is None else hidden_dim
        self.gate = Linear(embed_dim, hidden_dim, bias, device, dtype)
        self.up = Linear(embed_dim, hidden_dim, bias, device, dtype)
        self.down = Linear(hidden_dim, embed_dim, bias, device, dtype)
        self.activation = activation_function(activation)
        self.dropout = Dropout(dropout)

    @computes("gated feed-forward network", reveals=("feed-forward network",))
    def forward(self, x):
        # x: (..., embed) -> (..., hidden) -> (..., embed)
        hidden = self.activation(self.gate(x)) * self.up(x)
        return self.down(self.dropout(hidden))
