"""Where a patch stands: interpolated, sinusoidal and relative positions of an image's patches.

The learned tables themselves are `nn.LearnedPositionalEmbedding` (1-D, in raster order) and
`nn.LearnedPositionalEmbedding2d` (a half for the row and a half for the column).
"""

from .. import nn, ops
from ..errors import ArgumentError, ShapeError
from ..nn import init

__all__ = ["RelativeAttention", "interpolate_positions", "sincos_positions"]


def interpolate_positions(table, old_grid, new_grid, mode="bicubic", antialias=False):
    """The positions of a grid of patches, read off at the places of another grid.

    Parameters
    ----------
    table : Tensor of shape (patch, embed)
        In raster order; special tokens such as the class token have no place in it.
    old_grid, new_grid : (int, int)
        Rows and columns.
    mode : str, default "bicubic"
    antialias : bool, default False
        As in `interpolate`.

    Returns
    -------
    Tensor of shape (new patch, embed)
        With gradients to `table`.

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
            "interpolate_positions(table, old_grid): one row for each patch.",
            got=f"a table {table.shape} for a grid of {old_grid[0]} by {old_grid[1]}",
            expected=f"({old_grid[0] * old_grid[1]}, embed)",
        )
    if old_grid == new_grid:
        return table
    image = table.reshape(1, *old_grid, embed_dim).permute(0, 3, 1, 2)  # (1, embed, row, column)
    image = ops.interpolate(image, size=new_grid, mode=mode, antialias=antialias)
    return image.flatten(2).squeeze(0).transpose(0, 1)  # (new patch, embed)


def sincos_positions(grid, embed_dim, *, rows_first=False, dtype="float32", device=None):
    """Sines and cosines of a patch's column in one half, of its row in the other.

    Each half is the table of Vaswani et al. with all sines before all cosines.

    Parameters
    ----------
    grid : (int, int)
        Rows and columns.
    embed_dim : int
        A multiple of 4.
    rows_first : bool, default False
        The row has the first half. The published weights of MAE have the column there.
    dtype : dtype, default float32
    device : str or Device, optional

    Returns
    -------
    Tensor of shape (patch, embed)
        In raster order.

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
            "sincos_positions(embed_dim): a sine and a cosine for the row and for the column.",
            got=str(embed_dim),
            expected="a multiple of 4",
        )
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
    """Self-attention with a learned vector for each distance between two tokens.

    score_ij = query_i (key_j + distance_{j-i}) / sqrt(head_dim): a second attention, whose keys
    are the vectors of the distances, gives a bias that is added to the scores of the first.

    Parameters
    ----------
    embed_dim, num_heads : int
    max_tokens : int
        The longest sequence; there are 2 * max_tokens - 1 distances.
    **options
        As in `nn.Attention`.

    Attributes
    ----------
    distances : Parameter of shape (2 * max_tokens - 1, embed)
        Row max_tokens - 1 is for a token and itself.

    Notes
    -----
    Dosovitskiy et al. 2020, arXiv:2010.11929v2, appendix D.4, "relative positional embeddings";
    the distance is counted in raster order ("1-dimensional"), the class token before all patches.

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
        """query_i distance_{j-i}, scaled, for every pair of tokens.

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
                "RelativeAttention: there are no vectors for distances that long.",
                got=f"{tokens} tokens",
                expected=f"at most {self.max_tokens}",
            )
        unused = self.max_tokens - tokens
        table = self.distances[unused : self.distances.shape[0] - unused]  # (2 token - 1, embed)
        table = table.reshape(-1, heads, head_dim).permute(1, 2, 0)  # (heads, head_dim, distance)
        scores = (query * self.scale) @ table  # (batch, heads, token, distance)
        return _by_pair(scores)


def _by_pair(scores):
    """From (..., token, distance) to (..., token, token): row i moves by i places to the left.

    With one more column a row is 2n long; read in rows of 2n - 1 from place n - 1 on, row i
    begins at distance 0 - i.
    """
    *lead, n, _ = scores.shape
    flat = ops.pad(scores, (0, 1)).reshape(*lead, 2 * n * n)
    rows = flat[..., n - 1 : 2 * n * n - 1].reshape(*lead, n, 2 * n - 1)
    return rows[..., :n]
