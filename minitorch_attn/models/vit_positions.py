"""ViT position embeddings: interpolated, sinusoidal and relative positions for patches.

For learned positions, see `nn.LearnedPositionalEmbedding` (1-D, in raster order) and
`nn.LearnedPositionalEmbedding2d` (half of each vector is for the row, half for the column).
"""

from .. import nn, ops
from ..computes import computes
from ..errors import ArgumentError, ShapeError
from ..nn import init

__all__ = ["RelativeAttention", "interpolate_positions", "sincos_positions"]


@computes("interpolated positions")
def interpolate_positions(table, old_grid, new_grid, mode="bicubic", antialias=False):
    """Return the position embeddings of a grid of patches, interpolated to another grid.

    Parameters
    ----------
    table : Tensor of shape (patch, embed)
        Position embeddings of the patches in raster order. The table must not contain rows for
        special tokens such as the class token.
    old_grid, new_grid : (int, int)
        Numbers of rows and columns of patches.
    mode : str, default "bicubic"
    antialias : bool, default False
        See `interpolate`.

    Returns
    -------
    Tensor of shape (new patch, embed)
        Differentiable with respect to `table`.

    References
    ----------
    .. [1] Dosovitskiy et al. 2020, arXiv:2010.11929v2, section 3.2, last paragraph.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> interpolate_positions(mt.zeros(2 * 3, 5), (2, 3), (4, 6)).shape
    (24, 5)
    """
    old_grid, new_grid = tuple(old_grid), tuple(new_grid)
    patches, embed_dim = table.shape
    if patches != old_grid[0] * old_grid[1]:
        raise ShapeError(
            "interpolate_positions: the number of rows of table does not match old_grid",
            got=f"a table {table.shape} for a grid of {old_grid[0]} by {old_grid[1]}",
            expected=f"({old_grid[0] * old_grid[1]}, embed)",
            hint="pass table[1:] if the first row is the position of a class token",
        )
    if old_grid == new_grid:
        return table
    image = table.reshape(1, *old_grid, embed_dim).permute(0, 3, 1, 2)  # (1, embed, row, column)
    image = ops.interpolate(image, size=new_grid, mode=mode, antialias=antialias)
    return image.flatten(2).squeeze(0).transpose(0, 1)  # (new patch, embed)


@computes("sinusoidal positions")
def sincos_positions(grid, embed_dim, *, rows_first=False, dtype="float32", device=None):
    """Return sinusoidal positions: half of each vector is for the column, half for the row.

    Each half uses the table of Vaswani et al., but with all sines before all cosines.

    Parameters
    ----------
    grid : (int, int)
        Number of rows and columns.
    embed_dim : int
        Size of a position vector, a multiple of 4.
    rows_first : bool, default False
        Whether the first half is for the row. In MAE's published weights, it is for the column.
    dtype : dtype, default float32
    device : str or Device, optional

    Returns
    -------
    Tensor of shape (patch, embed)
        Positions in raster order.

    References
    ----------
    .. [1] He et al. 2021, "Masked Autoencoders Are Scalable Vision Learners", arXiv:2111.06377v3,
       appendix A.1: "sine-cosine version".

    Examples
    --------
    >>> sincos_positions((1, 2), 4)
    tensor([[0.    , 1.    , 0.    , 1.    ],
            [0.8415, 0.5403, 0.    , 1.    ]])
    """
    if embed_dim % 4:
        raise ArgumentError(
            "sincos_positions: embed_dim is not divisible by 4",
            got=str(embed_dim), expected="a multiple of 4: sines and cosines of row and column",
            hint=f"use embed_dim={-(-embed_dim // 4) * 4}, the next multiple",
        )  # fmt: skip
    height, width = grid
    half = embed_dim // 2

    def table(places):  # sine, cosine, sine, ... -> all sines, all cosines
        pairs = nn.sinusoidal_positions(places, half, dtype=dtype, device=device)
        return pairs.reshape(places, half // 2, 2).transpose(1, 2).reshape(places, half)

    rows = table(height).reshape(height, 1, half).expand(height, width, half)
    columns = table(width).reshape(1, width, half).expand(height, width, half)
    halves = [rows, columns] if rows_first else [columns, rows]
    return ops.cat(halves, -1).reshape(height * width, embed_dim)


class RelativeAttention(nn.Attention):
    """Self-attention with a learned vector for each relative position j - i of two tokens.

    The score of query i and key j is query_i (key_j + distance_{j-i}) / sqrt(head_dim). The scaled
    products query_i distance_{j-i} are a bias that is added to the usual scores.

    Parameters
    ----------
    embed_dim, num_heads : int
    max_tokens : int
        Maximum number of tokens. There are 2 * max_tokens - 1 relative positions.
    **options
        Arguments passed to `nn.Attention`.

    Attributes
    ----------
    distances : Parameter of shape (2 * max_tokens - 1, embed)
        One vector for each relative position. Row max_tokens - 1 belongs to j - i = 0.

    Notes
    -----
    Dosovitskiy et al. 2020, arXiv:2010.11929v2, appendix D.4, "relative positional embeddings".
    Tokens are numbered in raster order ("1-dimensional"), and the class token comes first.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> attention = RelativeAttention(embed_dim=6, num_heads=2, max_tokens=5)
    >>> attention(mt.zeros(3, 5, 6)).shape
    (3, 5, 6)
    """

    def __init__(self, embed_dim, num_heads, max_tokens, **options):
        super().__init__(embed_dim, num_heads, **options)
        self.max_tokens = max_tokens
        self.distances = nn.Parameter(ops.empty(2 * max_tokens - 1, embed_dim))
        init.normal_(self.distances, std=0.02)

    def attend(self, query, key, value, mask=None, bias=None, is_causal=False):
        # query: (batch, heads, token, head_dim)
        relative = self.relative_scores(query)
        bias = relative if bias is None else bias + relative
        return super().attend(query, key, value, mask, bias, is_causal)

    def relative_scores(self, query):
        """Return the scaled dot products of queries i and the learned vectors for distances j - i.

        Parameters
        ----------
        query : Tensor of shape (batch, heads, token, head_dim)

        Returns
        -------
        Tensor of shape (batch, heads, token, token)
        """
        batch, heads, tokens, head_dim = query.shape
        if tokens > self.max_tokens:
            raise ShapeError(
                "RelativeAttention: the number of tokens must be at most max_tokens",
                got=f"{tokens} tokens", expected=f"at most {self.max_tokens}",
                hint="use smaller images, or create the layer with a larger max_tokens",
            )  # fmt: skip
        unused = self.max_tokens - tokens
        table = self.distances[unused : self.distances.shape[0] - unused]  # (2 token - 1, embed)
        table = table.reshape(-1, heads, head_dim).permute(1, 2, 0)  # (heads, head_dim, distance)
        scores = (query * self.scale) @ table  # (batch, heads, token, distance)
        return _by_pair(scores)


def _by_pair(scores):
    """Convert scores by distance, (..., i, j - i), to scores by pair of tokens, (..., i, j).

    For n tokens, row i contains the distances 1 - n to n - 1, but only -i to n - 1 - i are needed.
    Append a column, so that rows have length 2n, and flatten. Skip n - 1 numbers, so that row 0
    starts at distance 0, and read rows of length 2n - 1. These rows are one shorter than 2n, so
    each row starts one distance earlier than the row above it: row i starts at distance -i. Keep
    its first n numbers.
    """
    *lead, n, _ = scores.shape
    flat = ops.pad(scores, (0, 1)).reshape(*lead, 2 * n * n)
    rows = flat[..., n - 1 : 2 * n * n - 1].reshape(*lead, n, 2 * n - 1)
    return rows[..., :n]
