"""Positional encodings of tokens: sinusoidal, learned and rotary."""

import math

from .. import ops
from ..backend import as_device, as_dtype, module_for
from ..errors import ArgumentError, IndexRangeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import wrap
from . import init
from .dropout import Dropout
from .module import Module
from .parameter import Parameter

__all__ = [
    "LearnedPositionalEmbedding", "LearnedPositionalEmbedding2d", "RotaryEmbedding",
    "SinusoidalPositionalEncoding", "rotary_table", "sinusoidal_positions",
]  # fmt: skip


def _angles(num_positions, dim, base, offset, device):
    """Return `position * base^(-2i / dim)` for i < dim / 2, as float64 (position, dim / 2)."""
    xp = module_for(as_device(device))
    frequencies = xp.exp(xp.arange(dim // 2).astype("float64") * (-2 * math.log(base) / dim))
    positions = xp.arange(offset, offset + num_positions).astype("float64")
    return xp, positions[:, None] * frequencies


@names_arguments
def sinusoidal_positions(
    num_positions, embed_dim, *, base=10000.0, offset=0, dtype="float32", device=None
):
    """Return the sinusoidal position table: sines and cosines of decreasing frequency.

    PE[pos, 2i] = sin(a) and PE[pos, 2i + 1] = cos(a), where a = pos / base^(2i / embed_dim).

    Parameters
    ----------
    num_positions : int
        Number of positions.
    embed_dim : int
        Number of features, which must be even.
    base : float, default 10000
        Base of the frequencies `base^(-2i / embed_dim)`.
    offset : int, default 0
        Position of the first row of the table.
    dtype : dtype, default float32
    device : str or Device, optional

    Returns
    -------
    Tensor of shape (num_positions, embed_dim)

    References
    ----------
    .. [1] "Attention Is All You Need", arXiv:1706.03762v7, section 3.5.

    Examples
    --------
    >>> sinusoidal_positions(2, 2)
    tensor([[0.    , 1.    ],
            [0.8415, 0.5403]])
    """
    _check_even("sinusoidal_positions(embed_dim)", embed_dim)
    xp, angles = _angles(num_positions, embed_dim, base, offset, device)
    table = xp.empty((num_positions, embed_dim), dtype=as_dtype(dtype))
    table[:, 0::2] = xp.sin(angles)
    table[:, 1::2] = xp.cos(angles)
    return wrap(table)


class SinusoidalPositionalEncoding(Module):
    """Sinusoidal positional encoding: adds the table of `sinusoidal_positions` to embeddings.

    Parameters
    ----------
    embed_dim : int
        Number of features, which must be even.
    max_len : int, default 5000
        Number of positions.
    dropout : float, default 0
        Dropout probability of the sum, applied during training (Vaswani et al., section 5.4).
    base : float, default 10000
        Base of the frequencies; see `sinusoidal_positions`.
    device, dtype : optional
        Device and dtype of the table. The table is not a parameter and not in the state dict.
        `forward` converts the rows that it uses to the dtype of its input.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.SinusoidalPositionalEncoding(6)(mt.zeros(2, 5, 6)).shape
    (2, 5, 6)
    """

    def __init__(
        self, embed_dim, max_len=5000, dropout=0.0, base=10000.0, device=None, dtype="float64"
    ):
        super().__init__()
        table = sinusoidal_positions(max_len, embed_dim, base=base, dtype=dtype, device=device)
        self.register_buffer("table", table, persistent=False)
        self.dropout = Dropout(dropout)

    def forward(self, x, offset=0):
        """Return `x + table[offset : offset + tokens]`.

        Parameters
        ----------
        x : Tensor of shape (..., token, embed)
        offset : int, default 0
            Position of the first token. With a KV cache, this is the number of cached tokens.
        """
        return self.dropout(x + position_rows(self.table, x, offset, type(self).__name__))


class LearnedPositionalEmbedding(Module):
    """Learned positional embedding: adds a learned vector for each position to the embeddings.

    Parameters
    ----------
    max_len : int
        Number of positions.
    embed_dim : int
        Number of features.
    std : float, default 0.02
        Standard deviation of the Gaussian distribution (mean 0) that initializes the table.
    device, dtype : optional

    Attributes
    ----------
    weight : Parameter of shape (max_len, embed_dim)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.LearnedPositionalEmbedding(11, 6)(mt.zeros(2, 5, 6)).shape
    (2, 5, 6)
    """

    def __init__(self, max_len, embed_dim, std=0.02, device=None, dtype=None):
        super().__init__()
        self.std = std
        self.weight = Parameter(ops.empty(max_len, embed_dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Reinitialize the embeddings with Gaussian random numbers."""
        init.normal_(self.weight, std=self.std)

    def forward(self, x, offset=0):
        """Return `x + weight[offset : offset + tokens]`.

        Parameters
        ----------
        x : Tensor of shape (..., token, embed)
        offset : int, default 0
            Position of the first token. With a KV cache, this is the number of cached tokens.
        """
        return x + position_rows(self.weight, x, offset, type(self).__name__)

    def extra_repr(self):
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"


class LearnedPositionalEmbedding2d(Module):
    """Learned 2-D positional embedding: half of each vector is for the row, half for the column.

    Parameters
    ----------
    height, width : int
        Height and width of the grid of patches.
    embed_dim : int
        Number of features, which must be even.
    std : float, default 0.02
        Standard deviation of the Gaussian distribution (mean 0) that initializes the tables.
    device, dtype : optional

    Attributes
    ----------
    row_weight : Parameter of shape (height, embed_dim / 2)
    column_weight : Parameter of shape (width, embed_dim / 2)

    Notes
    -----
    Dosovitskiy et al. 2020, arXiv:2010.11929v2, appendix D.4, "2-dimensional positional
    embedding".

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.nn.LearnedPositionalEmbedding2d(3, 5, 6)(mt.zeros(2, 15, 6)).shape
    (2, 15, 6)
    """

    def __init__(self, height, width, embed_dim, std=0.02, device=None, dtype=None):
        super().__init__()
        _check_even("LearnedPositionalEmbedding2d(embed_dim)", embed_dim)
        self.height, self.width, self.std = height, width, std
        half = embed_dim // 2
        self.row_weight = Parameter(ops.empty(height, half, device=device, dtype=dtype))
        self.column_weight = Parameter(ops.empty(width, half, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Reinitialize the row and column embeddings with Gaussian random numbers."""
        init.normal_(self.row_weight, std=self.std)
        init.normal_(self.column_weight, std=self.std)

    def table(self):
        """Return the vectors (height * width, embed) of all patches in row-major order."""
        half = self.row_weight.shape[1]
        grid = (self.height, self.width, half)
        rows = self.row_weight.reshape(self.height, 1, half).expand(grid)
        columns = self.column_weight.reshape(1, self.width, half).expand(grid)
        return ops.cat([rows, columns], -1).reshape(self.height * self.width, 2 * half)

    def forward(self, x):
        # x: (..., height * width, embed)
        places = self.height * self.width
        if x.ndim < 2 or x.shape[-2] != places:
            raise ShapeError(
                "LearnedPositionalEmbedding2d: the number of tokens does not match the grid",
                got=f"x {x.shape}",
                expected=f"(..., {places}, embed) for a grid of {self.height} by {self.width}",
                hint="remove the class token first, or create the module for another grid",
            )
        return x + self.table()

    def extra_repr(self):
        return f"{self.height}, {self.width}, {2 * self.row_weight.shape[1]}"


@names_arguments
def rotary_table(num_positions, head_dim, *, base=10000.0, offset=0, dtype="float32", device=None):
    """Return the table for rotary embeddings: cos and sin of `position * base^(-2i / head_dim)`.

    Parameters
    ----------
    num_positions : int
        Number of positions.
    head_dim : int
        Number of features of a head, which must be even.
    base : float, default 10000
        Base of the frequencies `base^(-2i / head_dim)`.
    offset : int, default 0
        Position of the first row of the table.
    dtype : dtype, default float32
    device : str or Device, optional

    Returns
    -------
    cos, sin : Tensor of shape (num_positions, head_dim / 2)
    """
    _check_even("rotary_table(head_dim)", head_dim)
    xp, angles = _angles(num_positions, head_dim, base, offset, device)
    dtype = as_dtype(dtype)
    return wrap(xp.cos(angles).astype(dtype)), wrap(xp.sin(angles).astype(dtype))


class RotaryEmbedding(Module):
    """Rotary position embedding: rotate queries and keys by angles proportional to their positions.

    The dot product of a query at position m and a key at position n then depends only on m - n.

    Parameters
    ----------
    head_dim : int
        Number of features of a head, which must be even.
    max_len : int, default 2048
        Number of positions.
    base : float, default 10000
        Base of the rotation frequencies; see `rotary_table`.
    interleaved : bool, default False
        If True, a pair consists of neighboring features, as in the paper [1]_. If False, feature i
        and feature i + head_dim / 2 form a pair, as in published Llama weights.
    device, dtype : optional
        Device and dtype of the tables. The tables are not parameters and not in the state dict.
        `forward` converts the rows that it uses to the dtype of its input.

    References
    ----------
    .. [1] "RoFormer", arXiv:2104.09864v5, section 3.2.2, Eq. 15 and 34.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> rotary = mt.nn.RotaryEmbedding(head_dim=4)
    >>> query = mt.zeros(2, 3, 5, 4)  # (batch, heads, token, head_dim)
    >>> rotary(query).shape
    (2, 3, 5, 4)
    """

    def __init__(
        self, head_dim, max_len=2048, base=10000.0, interleaved=False,
        device=None, dtype="float64",
    ):  # fmt: skip
        super().__init__()
        self.interleaved = interleaved
        cos, sin = rotary_table(max_len, head_dim, base=base, dtype=dtype, device=device)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x, offset=0):
        """Return the rotated `x`, whose first token is at position `offset`.

        Parameters
        ----------
        x : Tensor of shape (..., token, head_dim)
        offset : int, default 0
            Position of the first token. With a KV cache, this is the number of cached tokens.

        Returns
        -------
        Tensor of the shape of `x`
        """
        name = type(self).__name__
        cos, sin = (
            position_rows(self.cos, x, offset, name),
            position_rows(self.sin, x, offset, name),
        )
        return ops.apply_rotary(x, cos, sin, interleaved=self.interleaved)

    def extra_repr(self):
        max_len, half = self.cos.shape
        return f"{2 * half}, max_len={max_len}, interleaved={self.interleaved}"


def position_rows(table, x, offset, name):
    """Return the rows of a position table for the tokens of x (..., token, embed)."""
    if x.ndim < 2:
        raise ShapeError(
            f"{name}: x must have shape (..., token, features)",
            got=f"x {x.shape}",
            hint="use x.unsqueeze(0) for a single token",
        )
    end = offset + x.shape[-2]
    if offset < 0 or end > table.shape[0]:
        raise IndexRangeError(
            f"{name}: the positions are out of range",
            got=f"{x.shape[-2]} tokens from position {offset}",
            expected=f"positions from 0 to {table.shape[0] - 1}",
            hint="use a larger max_len or shorter sequences",
        )
    return table[offset:end].to(dtype=x.dtype)


def _check_even(where, size):
    if size % 2 or size <= 0:
        raise ArgumentError(
            f"{where}: the size must be positive and even",
            got=str(size),
            hint="use a multiple of 2 * num_heads for embed_dim, so that head_dim is even",
        )
