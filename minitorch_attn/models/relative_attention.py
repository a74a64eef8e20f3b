"""Relative attention: scores that depend on the query, the key and their distance in the sequence.

Dai et al. 2019, "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context",
arXiv:1901.02860v3, section 3.3 and appendix B. The Conformer applies relative attention to audio
frames.
"""

from .. import nn, ops
from ..computes import computes
from ..errors import ShapeError

__all__ = ["RelativeAttention", "relative_positions", "relative_shift"]


def relative_positions(length, embed_dim, *, interleaved=False, dtype="float32", device=None):
    """Return the sinusoidal encodings r_p of all distances p = i - j from query i to key j.

    Parameters
    ----------
    length : int
        Number of tokens T.
    embed_dim : int
        Number of features, which must be even.
    interleaved : bool, default False
        Whether sines and cosines alternate, as in `nn.sinusoidal_positions`. Otherwise all sines
        come first: r_p = [sin(p w), cos(p w)] with w_k = 10000^(-2k / embed_dim).
    dtype, device : optional

    Returns
    -------
    Tensor of shape (1, 2T - 1, embed_dim)
        Rows for the distances T - 1, T - 2, ..., -(T - 1). A positive distance means that the key
        comes before the query.

    Examples
    --------
    >>> relative_positions(2, 2)[0]  # distances 1, 0, -1
    tensor([[ 0.8415,  0.5403],
            [ 0.    ,  1.    ],
            [-0.8415,  0.5403]])
    """
    count = max(2 * length - 1, 0)
    table = nn.sinusoidal_positions(
        count, embed_dim, offset=1 - length, dtype=dtype, device=device
    ).flip(0)  # from the largest distance to the smallest
    if not interleaved:
        table = ops.cat([table[:, 0::2], table[:, 1::2]], 1)
    return table.unsqueeze(0)


@computes("relative shift")
def relative_shift(scores):
    """Select each key's score from the scores of all distances (arXiv:1901.02860v3, appendix B).

    With T tokens, row i of the input contains query i's scores for the distances from T - 1 down to
    1 - T. Key j has the distance i - j. Row i of the result therefore consists of the T columns
    that start at column T - 1 - i: each row starts one column earlier than the row above it. To
    shift the rows, the function first adds a column of zeros on the left, which makes each row 2T
    long. It then flattens the rows into one sequence, skips the first T numbers and splits the
    others into rows of length 2T - 1. The new row i starts at the score of distance i, which was in
    column T - 1 - i. Only the first T columns are kept.

    Parameters
    ----------
    scores : Tensor of shape (..., T, 2T - 1)

    Returns
    -------
    Tensor of shape (..., T, T)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> relative_shift(mt.tensor([[1, 0, -1], [1, 0, -1]]))  # the distances themselves
    tensor([[ 0, -1],
            [ 1,  0]])
    """
    *leading, queries, distances = scores.shape
    if distances != max(2 * queries - 1, 0):
        raise ShapeError(
            "relative_shift: the number of distances does not match the number of queries",
            got=f"scores {scores.shape}",
            expected=f"(..., {queries}, {max(2 * queries - 1, 0)})",
        )
    if queries < 2:
        return scores
    padded = ops.pad(scores, (1, 0))  # (..., T, 2T)
    shifted = padded.reshape(*leading, 2 * queries, queries)[..., 1:, :]
    return shifted.reshape(*leading, queries, distances)[..., :queries]


class RelativeAttention(nn.Attention):
    r"""Self-attention whose scores depend on the distance between the query and the key.

    score_ij = ((q_i + u)^T k_j + (q_i + v)^T W_R r_{i-j}) / sqrt(head_dim)

    The first term compares the contents of the tokens. The learned vector u makes some keys
    attractive to all queries. The second term depends on the distance i - j through its encoding
    r_{i-j}. The learned vector v makes some distances attractive to all queries.

    Parameters
    ----------
    embed_dim, num_heads : int
    dropout : float, default 0
        Dropout probability of the attention weights, applied during training.
    interleaved : bool, default False
        Layout of the encodings r_{i-j}; see `relative_positions`.

    Attributes
    ----------
    position_proj : Linear
        W_R, without a bias.
    u, v : Parameter of shape (heads, head_dim)

    Notes
    -----
    Dai et al. 2019, arXiv:1901.02860v3, section 3.3, write the score A^rel as four terms (a) to
    (d). The first product here is (a) plus (c), and the second is (b) plus (d). As in the
    Conformer (arXiv:2005.08100v1, section 2.1), keys may be before or after the query. The code
    multiplies every query by every distance at once, and `relative_shift` selects the product
    for each key (appendix B).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> attention = RelativeAttention(embed_dim=6, num_heads=3)
    >>> attention(mt.zeros(5, 7, 6)).shape
    (5, 7, 6)
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, *, interleaved=False):
        super().__init__(embed_dim, num_heads, dropout=dropout)
        self.interleaved = interleaved
        self.position_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.u = nn.Parameter(ops.zeros(num_heads, self.head_dim))
        self.v = nn.Parameter(ops.zeros(num_heads, self.head_dim))
        nn.init.xavier_uniform_(self.u)
        nn.init.xavier_uniform_(self.v)

    @computes("attention layer")
    def forward(self, x, key_padding_mask=None, *, mask=None, positions=None):
        """Return the result of self-attention over the tokens of `x`.

        Parameters
        ----------
        x : Tensor of shape (batch, token, embed)
        key_padding_mask : bool Tensor of shape (batch, token), optional
            True where a token is padding. No query attends to padding.
        mask : Mask or Tensor, optional
            Attention mask, used instead of `key_padding_mask`; see `nn.Attention`.
        positions : Tensor of shape (1 or batch, 2 * token - 1, embed), optional
            Encodings of the distances. Default: the result of `relative_positions`. A stack of
            layers can compute them once and pass them to every layer.

        Returns
        -------
        Tensor of shape (batch, token, embed)
        """
        mask = attention_mask(key_padding_mask, mask)
        query, key, value = self._project_heads(x, None)  # (batch, heads, token, head_dim)
        if positions is None:
            positions = self.positions_of(x)
        relative = self._split(self.position_proj(positions), self.num_heads)
        # (batch, heads, token, head_dim) @ (1, heads, head_dim, distance)
        distances = (query + self.v.unsqueeze(1)) @ relative.transpose(-1, -2)
        bias = relative_shift(distances) * self.scale  # terms (b) and (d)
        context = self.attend(query + self.u.unsqueeze(1), key, value, mask, bias)
        return self.out_proj(self._merge(context))

    def positions_of(self, x):
        """Return the encodings of all distances between tokens: (1, 2 * token - 1, embed)."""
        return relative_positions(
            x.shape[1], x.shape[2], interleaved=self.interleaved, dtype=x.dtype, device=x.device
        )


def attention_mask(key_padding_mask, mask):
    """Return `mask`. If it is None, make a mask from `key_padding_mask` (True at padding)."""
    if key_padding_mask is None or mask is not None:
        return mask
    return nn.masks.from_key_padding(key_padding_mask)
