"""Position encodings of a feature map for DETR: sines of row and column, or two learned tables.

Carion et al. 2020, arXiv:2005.12872v3, section 3.2 and appendix A.4. Images in a batch may be
padded to the same size. The sinusoidal encodings count only the rows and columns of the image
itself, not those of the padding.
"""

import math

from .. import nn, ops
from ..errors import ArgumentError, ShapeError
from ..tensor import tensor

__all__ = ["LearnedPositions", "SinePositions", "mask_like", "sine_code"]


def sine_code(positions, embed_dim, temperature=10000.0):
    """Encode numbers by sines and cosines of decreasing frequency.

    Parameters
    ----------
    positions : Tensor of shape (...)
    embed_dim : int
        Number of features that encode one position. Must be even.
    temperature : float, default 10000
        Base of the frequencies, as in the formula below.

    Returns
    -------
    Tensor of shape (..., embed_dim)
        Features 2i and 2i + 1 are the sine and the cosine of position / temperature^(2i /
        embed_dim), as in Vaswani et al. 2017, arXiv:1706.03762v7, section 3.5.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> sine_code(mt.tensor([0.0, 1.0]), 2)
    tensor([[0.    , 1.    ],
            [0.8415, 0.5403]])
    """
    if embed_dim % 2:
        raise ArgumentError("sine_code: embed_dim must be even", got=str(embed_dim))
    wavelengths = [temperature ** (2 * i / embed_dim) for i in range(embed_dim // 2)]
    wavelengths = tensor(wavelengths, dtype=positions.dtype, device=positions.device)
    angles = positions.unsqueeze(-1) / wavelengths  # (..., embed / 2)
    return ops.stack([angles.sin(), angles.cos()], -1).flatten(-2)


class SinePositions(nn.Module):
    """Sinusoidal position encodings: half of the features encode the row, half the column.

    Parameters
    ----------
    embed_dim : int
        Number of features, a multiple of 4.
    temperature : float, default 10000
        See `sine_code`.
    scale : float, default 2 pi
        Position to which the last row and the last column of every image are scaled. Padding does
        not count.

    Notes
    -----
    The rows of the image, not counting the padding, are numbered y = 1, 2, ..., H. The first half
    of the features of row y is `sine_code` of the number scale * y / (H + 1e-6). The second half
    encodes the column in the same way.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> SinePositions(8)(mt.zeros(2, 16, 3, 5)).shape
    (1, 15, 8)
    """

    def __init__(self, embed_dim, temperature=10000.0, scale=2 * math.pi):
        super().__init__()
        if embed_dim % 4:
            raise ArgumentError(
                "SinePositions: embed_dim is not divisible by 4",
                got=str(embed_dim), expected="a multiple of 4",
            )  # fmt: skip
        self.embed_dim, self.temperature, self.scale = embed_dim, temperature, scale

    def forward(self, features, mask=None):
        """Return the position encodings of a feature map.

        Parameters
        ----------
        features : Tensor of shape (batch, channel, row, column)
        mask : bool Tensor of shape (batch, row, column), optional
            True inside the image, False at padding. Default: no padding.

        Returns
        -------
        Tensor of shape (batch, row * column, embed)
            Without a mask, the batch has size 1.
        """
        if mask is None:
            mask = ops.ones(1, *features.shape[2:], dtype="bool", device=features.device)
        real = mask.to(features.dtype)
        codes = []
        for dim in (1, 2):
            count = real.cumsum(dim)  # (batch, row, column)
            last = count.narrow(dim, count.shape[dim] - 1, 1)
            place = count / (last + 1e-6) * self.scale
            codes.append(sine_code(place, self.embed_dim // 2, self.temperature))
        return ops.cat(codes, -1).flatten(1, 2)  # (batch, row * column, embed)


class LearnedPositions(nn.Module):
    """Learned position encodings: half of the features encode the column, half the row.

    Parameters
    ----------
    embed_dim : int
        Number of features, which must be even. The first half encodes the column.
    size : int, default 50
        Maximum number of rows and of columns.

    Attributes
    ----------
    rows, columns : Embedding of shape (size, embed_dim / 2)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> LearnedPositions(6)(mt.zeros(2, 16, 3, 5)).shape
    (1, 15, 6)
    """

    def __init__(self, embed_dim, size=50):
        super().__init__()
        if embed_dim % 2:
            raise ArgumentError("LearnedPositions: embed_dim must be even", got=str(embed_dim))
        self.rows = nn.Embedding(size, embed_dim // 2)
        self.columns = nn.Embedding(size, embed_dim // 2)
        for table in (self.rows, self.columns):
            nn.init.uniform_(table.weight)

    def forward(self, features, mask=None):
        """Return the position encodings (1, row * column, embed) of a feature map.

        `features` has shape (batch, channel, row, column). The mask is not used: padding at the
        bottom and the right does not change the row and column numbers inside the image.
        """
        height, width = features.shape[2:]
        size, half = self.rows.weight.shape
        if max(height, width) > size:
            raise ShapeError(
                "LearnedPositions: the feature map is too large",
                got=f"{height} rows and {width} columns", expected=f"at most {size} of each",
                hint="use smaller images, or sine positions",
            )  # fmt: skip
        rows = self.rows.weight[:height].unsqueeze(1).expand(height, width, half)
        columns = self.columns.weight[:width].unsqueeze(0).expand(height, width, half)
        return ops.cat([columns, rows], -1).reshape(1, height * width, 2 * half)


def mask_like(pixel_mask, features):
    """Resize a pixel mask to the size of a feature map by nearest-neighbor interpolation.

    Parameters
    ----------
    pixel_mask : Tensor of shape (batch, height, width)
        Nonzero at the pixels of the image, 0 at padding.
    features : Tensor of shape (batch, channel, row, column)

    Returns
    -------
    bool Tensor of shape (batch, row, column)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mask_like(mt.tensor([[[1, 1, 0, 0], [1, 1, 0, 0]]]), mt.zeros(1, 3, 1, 2))
    tensor([[[ True, False]]])
    """
    if pixel_mask.ndim != 3 or pixel_mask.shape[0] != features.shape[0]:
        raise ShapeError(
            "pixel_mask must have one number per pixel of each image",
            got=f"pixel_mask {pixel_mask.shape} for {features.shape[0]} images",
            expected="(batch, height, width)",
        )
    real = (pixel_mask != 0).to("float32").unsqueeze(1)  # (batch, 1, height, width)
    return ops.interpolate(real, size=features.shape[2:]).squeeze(1) != 0
