"""Window attention: attention within the windows of a feature map, with a relative position bias.

Liu et al. 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows",
arXiv:2103.14030v2, section 3.2.
"""

from .. import nn, ops
from ..computes import computes
from ..ops.windows import cached_position_index

__all__ = ["RelativePositionBias", "WindowAttention"]


class RelativePositionBias(nn.Module):
    """Relative position bias: a learned number for each head and each offset between tokens.

    Parameters
    ----------
    window_size : (int, int)
        Height and width of a window, in tokens.
    num_heads : int
        Number of heads.

    Notes
    -----
    The bias is B in Eq. 4 of Swin. For M x M windows, each head has (2M - 1)^2 learned numbers,
    from which it reads the M^2 x M^2 entries of B.
    """

    def __init__(self, window_size, num_heads):
        super().__init__()
        self.window_size = tuple(window_size)
        height, width = self.window_size
        offsets = (2 * height - 1) * (2 * width - 1)
        self.table = nn.Parameter(ops.zeros(offsets, num_heads))
        nn.init.trunc_normal_(self.table, std=0.02)

    @computes("relative position bias")
    def forward(self):
        index = cached_position_index(self.window_size, self.table.device)
        return ops.embedding(index, self.table).permute(2, 0, 1)  # (heads, query, key)


class WindowAttention(nn.Attention):
    """Window attention: multi-head attention in windows, with a position bias (Swin, Eq. 4).

    With the position bias B, the output in each window and head is
    `softmax(query key^T / sqrt(head_dim) + B) value`.

    Parameters
    ----------
    embed_dim, num_heads : int
    window_size : (int, int)
    qkv_bias : bool
        Whether the query, key and value projections have a bias.
    head_dim : int, optional
        Size of a head. Default: embed_dim / num_heads.
    dropout : float
        Dropout probability of the attention weights, applied during training.
    key_bias, scale : optional
        See `nn.Attention`.
    position_bias : Module, optional
        Module that returns the bias B, of shape (heads, query, key). Default:
        `RelativePositionBias`.

    Attributes
    ----------
    blocked_score : float
        Number that is added to the score of each masked query-key pair: -100, as in the authors'
        code.
    """

    def __init__(
        self, embed_dim, num_heads, window_size, qkv_bias=True, head_dim=None, dropout=0.0, *,
        key_bias=None, scale=None, position_bias=None,
    ):  # fmt: skip
        super().__init__(
            embed_dim, num_heads, head_dim=head_dim, bias=qkv_bias, key_bias=key_bias,
            out_bias=True, scale=scale, dropout=dropout,
        )  # fmt: skip
        if position_bias is None:
            position_bias = RelativePositionBias(window_size, num_heads)
        self.position_bias = position_bias
        self.blocked_score = -100.0

    @computes("window attention")
    def forward(self, windows, mask=None):
        # windows: (batch, window, token, embed)   mask: (window, query, key), True = may attend
        bias = self.position_bias()  # (heads, query, key)
        if mask is not None:
            blocked = (~mask).to(dtype=bias.dtype) * self.blocked_score
            bias = bias + blocked.unsqueeze(1)  # (window, heads, query, key)
        context = super().forward(windows.flatten(0, 1), bias=bias)  # (batch * window, token, ...)
        return context.unflatten(0, windows.shape[:2])

    def attend(self, query, key, value, mask=None, bias=None, is_causal=False):
        """Return the context as `nn.Attention.attend` does. `bias` may differ between windows."""
        # query, key, value: (batch * window, heads, token, head_dim)
        if bias.ndim == 3:
            return super().attend(query, key, value, mask, bias, is_causal)
        windows = bias.shape[0]
        if self.weight_hooks:  # hooks receive weights with four axes
            bias = bias.repeat(query.shape[0] // windows, 1, 1, 1)
            return super().attend(query, key, value, mask, bias, is_causal)
        in_windows = (x.unflatten(0, (-1, windows)) for x in (query, key, value))
        return super().attend(*in_windows, mask, bias, is_causal).flatten(0, 1)
