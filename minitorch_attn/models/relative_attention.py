"""Relative attention: scores that depend on the query, the key and their distance in the sequence.

Dai et al. 2019, "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context",
arXiv:1901.02860v3, section 3.3 and appendix B. The Conformer applies it to audio frames.
"""

from .. import nn, ops
from ..computes import computes
from ..errors import ShapeError

__all__ = ["RelativeAttention", "relative_positions", "relative_shift"]


def relative_positions(length, embed_dim, *, interleaved=False, dtype="float32", device=None):
    """Sinusoidal encodings r_p of all distances p = i - j between a query i and a key j.

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
        Rows for the distances T - 1, T - 2, ..., -(T - 1): a query attends to the first key at the
        largest distance.

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

    Row i of the input contains the scores of the distances T - 1, ..., -(T - 1). Key j is at
    distance i - j, so row i of the result starts at column T - 1 - i: each row starts one
    column before the previous row. To shift the rows, a column of zeros is added to make them 2T
    long. The numbers are then read as rows of length 2T - 1, skipping the first T entries, so
    row i starts at column T - 1 - i.

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
    r"""Self-attention with relative positions, for the tokens of one sequence.

    score_ij = ((q_i + u)^T k_j + (q_i + v)^T W_R r_{i-j}) / sqrt(head_dim)

    The first term compares contents. The vector u gives a preference for keys that does not
    depend on the query. The second term depends on the distance i - j only through its
    encoding r, and v gives a preference for distances.

    Parameters
    ----------
    embed_dim, num_heads : int
    dropout : float, default 0
        Dropout probability of the attention weights, applied during training.
    interleaved : bool, default False
        Layout of r; see `relative_positions`.

    Attributes
    ----------
    position_proj : Linear
        W_R, without a bias.
    u, v : Parameter of shape (heads, head_dim)

    Notes
    -----
    Dai et al. 2019, arXiv:1901.02860v3, section 3.3, has the four terms (a) to (d) of A^rel.
    The first product here is (a) plus (c), and the second is (b) plus (d). As in the Conformer
    (arXiv:2005.08100v1, section 2.1), keys may be before or after the query. All (query,
    distance) products are computed at once, and `relative_shift` aligns them (appendix B).

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
        """Attend from each token of `x` to all tokens of `x`.

        Parameters
        ----------
        x : Tensor of shape (batch, token, embed)
        key_padding_mask : bool Tensor of shape (batch, token), optional
            True where a token is padding, to which no query attends.
        mask : Mask or Tensor, optional
            Used instead of `key_padding_mask`; see `nn.Attention`.
        positions : Tensor of shape (1 or batch, 2 * token - 1, embed), optional
            Encodings of the distances. Default: `relative_positions`. A stack of layers
            computes them once and passes them to every layer.

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
        """Return the encodings of all distances in `x`, (1, 2 * token - 1, embed)."""
        return relative_positions(
            x.shape[1], x.shape[2], interleaved=self.interleaved, dtype=x.dtype, device=x.device
        )


def attention_mask(key_padding_mask, mask):
    """Return `mask`, or a mask made from a key padding mask (True where a key is padding)."""
    if key_padding_mask is None or mask is not None:
        return mask
    return nn.masks.from_key_padding(key_padding_mask)
