"""MAE, the masked autoencoder: hides three quarters of the patches and predicts their pixels.

He et al. 2021, "Masked Autoencoders Are Scalable Vision Learners", arXiv:2111.06377v3. The
encoder reads only the visible patches. A small decoder reads the encoder's output and a mask token
for each masked patch, and predicts pixels (Figure 1, section 3).
"""

from .. import nn, ops
from ..autograd.modes import no_grad
from ..computes import computes
from ..errors import ArgumentError, ShapeError
from ..nn import init
from ..nn.checks import check_layers
from .vit import Block, VisionTransformer, initialize, pair
from .vit_positions import sincos_positions
from .vit_sizes import SIZES

__all__ = [
    "MaskedAutoencoder", "mae_b_16", "mae_h_14", "mae_l_16", "patchify", "random_masking",
    "unpatchify",
]  # fmt: skip


@computes("patches", reveals=("patch embedding",))
def patchify(images, patch_size):
    """Cut images into patches, one row for each patch. A pixel's channels are adjacent in a row.

    Parameters
    ----------
    images : Tensor of shape (batch, channel, height, width)
    patch_size : int or (int, int)

    Returns
    -------
    Tensor of shape (batch, patch, patch height * patch width * channel)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> patchify(mt.zeros(5, 3, 4, 8), 2).shape
    (5, 8, 12)
    """
    rows, columns = pair(patch_size)
    batch, channels, height, width = images.shape
    if height % rows or width % columns:
        raise ShapeError(
            "patchify: the image size is not divisible by patch_size",
            got=f"images {images.shape}, patch_size {(rows, columns)}",
            expected="height and width that are multiples of patch_size",
            hint=f"pass images[..., :{height - height % rows}, :{width - width % columns}]",
        )
    # (batch, channel, row, patch row, column, patch column)
    parts = images.reshape(batch, channels, height // rows, rows, width // columns, columns)
    return parts.permute(0, 2, 4, 3, 5, 1).reshape(batch, -1, rows * columns * channels)


@computes("patches", reveals=("patch embedding",))
def unpatchify(patches, patch_size, grid):
    """Assemble images from patches. This is the inverse of `patchify`.

    Parameters
    ----------
    patches : Tensor of shape (batch, patch, patch height * patch width * channel)
    patch_size : int or (int, int)
    grid : (int, int)
        Number of patch rows and patch columns.

    Returns
    -------
    Tensor of shape (batch, channel, height, width)
    """
    rows, columns = pair(patch_size)
    batch, count, pixels = patches.shape
    if count != grid[0] * grid[1] or pixels % (rows * columns):
        raise ShapeError(
            "unpatchify: the shape of patches does not match patch_size and grid",
            got=f"patches {patches.shape}, patch_size {(rows, columns)}, grid {tuple(grid)}",
            expected=f"(batch, {grid[0] * grid[1]}, {rows * columns} * channels)",
            hint="pass grid=(image height // patch height, image width // patch width)",
        )
    channels = pixels // (rows * columns)
    parts = patches.reshape(batch, *grid, rows, columns, channels).permute(0, 5, 1, 3, 2, 4)
    return parts.reshape(batch, channels, grid[0] * rows, grid[1] * columns)


def random_masking(noise, num_kept):
    """Choose the visible patches: those with the smallest noise.

    See section 3, "Simple implementation", in arXiv:2111.06377v3.

    Parameters
    ----------
    noise : Tensor of shape (batch, patch)
        One random number for each patch.
    num_kept : int
        Number of visible patches.

    Returns
    -------
    kept : int64 Tensor of shape (batch, num_kept)
        Indices of the visible patches, ordered by their noise.
    restore : int64 Tensor of shape (batch, patch)
        Rank of each patch in the order of increasing noise.
    mask : bool Tensor of shape (batch, patch)
        True for masked patches.
    """
    order = noise.detach().argsort(dim=1)
    restore = order.argsort(dim=1)
    return order[:, :num_kept], restore, restore >= num_kept


def pick(tokens, index):
    """Select tokens of each sequence by index.

    Parameters
    ----------
    tokens : Tensor of shape (batch, token, embed)
    index : int64 Tensor of shape (batch, picked)

    Returns
    -------
    Tensor of shape (batch, picked, embed)
    """
    batch = ops.arange(tokens.shape[0], device=tokens.device).unsqueeze(-1)
    return tokens[batch, index]


class Decoder(nn.Module):
    """MAE decoder: predicts the pixels of every patch from the encoder's tokens.

    Parameters
    ----------
    encoder_dim, embed_dim, num_layers, num_heads, mlp_dim : int
    grid : (int, int)
        Number of patch rows and patch columns.
    num_pixels : int
        Number of pixel values in a patch.
    **options
        Arguments passed to `Block`.
    """

    def __init__(
        self, encoder_dim, embed_dim, num_layers, num_heads, mlp_dim, grid, num_pixels, eps=1e-6,
        **options,
    ):  # fmt: skip
        super().__init__()
        self.embedding = nn.Linear(encoder_dim, embed_dim)
        self.mask_token = nn.Parameter(ops.zeros(1, 1, embed_dim))
        self.positions = fixed_positions(grid, embed_dim)
        check_layers("MaskedAutoencoder", decoder_layers=num_layers)
        self.blocks = nn.ModuleList(
            [Block(embed_dim, num_heads, mlp_dim, eps=eps, **options) for _ in range(num_layers)]
        )
        self.norm = nn.LayerNorm(embed_dim, eps=eps)
        self.prediction = nn.Linear(embed_dim, num_pixels)
        self.apply(initialize)
        init.normal_(self.mask_token, std=0.02)

    def forward(self, encoded, restore):
        """Predict the pixels of every patch from the encoder's output.

        Parameters
        ----------
        encoded : Tensor of shape (batch, 1 + seen, encoder)
            Output of the encoder for the class token and the visible patches.
        restore : int64 Tensor of shape (batch, patch), from `random_masking`

        Returns
        -------
        Tensor of shape (batch, patch, pixels)
        """
        return self.decode(self.positions(self.fill(encoded, restore)))

    def fill(self, encoded, restore):
        """Insert the mask token at every masked patch. Returns (batch, 1 + patch, embed)."""
        tokens = self.embedding(encoded)  # (batch, 1 + seen, embed)
        batch, seen, embed_dim = tokens.shape
        hidden = 1 + restore.shape[1] - seen
        gaps = self.mask_token.expand(batch, hidden, embed_dim)
        patches = pick(ops.cat([tokens[:, 1:], gaps], 1), restore)  # (batch, patch, embed)
        return ops.cat([tokens[:, :1], patches], 1)

    @computes("stack of layers")
    def decode(self, tokens):
        """Predict pixels (batch, patch, pixels) from tokens (batch, 1 + patch, embed)."""
        for block in self.blocks:
            tokens = block(tokens)
        return self.prediction(self.norm(tokens))[:, 1:]


class MaskedAutoencoder(nn.Module):
    """Masked autoencoder: an encoder for the visible patches and a decoder for all patches.

    Parameters
    ----------
    image_size, patch_size : int or (int, int), default 224 and 16
    embed_dim, num_layers, num_heads, mlp_dim : int
        Sizes of the encoder. Default: ViT-B.
    in_channels : int, default 3
    decoder_dim, decoder_layers, decoder_heads, decoder_mlp_dim : int
        Sizes of the decoder. Default: 8 blocks of width 512 (section 4.1).
    mask_ratio : float, default 0.75
        Fraction of the patches that is masked.
    normalise_pixels : bool, default True
        Whether to normalize each target patch by its mean and standard deviation (section 3,
        "Reconstruction target").
    **options
        Arguments passed to the blocks, such as activation, eps, dropout.

    Attributes
    ----------
    encoder : VisionTransformer
        Encoder without a head, for use after pre-training. Positions are fixed sines and cosines.
    decoder : Decoder

    References
    ----------
    .. [1] He et al. 2021, arXiv:2111.06377v3, section 3 and appendix A.1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = MaskedAutoencoder(
    ...     image_size=8, patch_size=2, embed_dim=16, num_layers=1, num_heads=2, mlp_dim=32,
    ...     in_channels=1, decoder_dim=8, decoder_layers=1, decoder_heads=2, decoder_mlp_dim=16,
    ... )
    >>> images = mt.rand(5, 1, 8, 8)
    >>> predicted, mask = model(images)
    >>> predicted.shape, int(mask.sum()), model.loss(images, predicted, mask).shape
    ((5, 16, 4), 60, ())
    """

    named_methods = None  # all public methods

    def __init__(
        self, image_size=224, patch_size=16, embed_dim=768, num_layers=12, num_heads=12,
        mlp_dim=3072, *, in_channels=3, decoder_dim=512, decoder_layers=8, decoder_heads=16,
        decoder_mlp_dim=2048, mask_ratio=0.75, normalise_pixels=True, **options,
    ):  # fmt: skip
        super().__init__()
        if not 0 <= mask_ratio < 1:
            raise ArgumentError(
                "MaskedAutoencoder: mask_ratio must be at least 0 and less than 1",
                got=repr(mask_ratio),
                hint="pass mask_ratio=0.75, as in the paper",
            )
        self.mask_ratio, self.normalise_pixels = mask_ratio, normalise_pixels
        self.encoder = VisionTransformer(
            image_size, patch_size, 0, embed_dim, num_layers, num_heads, mlp_dim,
            in_channels=in_channels, **options,
        )  # fmt: skip
        self.encoder.positions = fixed_positions(self.encoder.grid, embed_dim)
        init.normal_(self.encoder.class_token, std=0.02)
        self.patch_size = self.encoder.patch_embedding.patch_size
        num_pixels = self.patch_size[0] * self.patch_size[1] * in_channels
        self.decoder = Decoder(
            embed_dim, decoder_dim, decoder_layers, decoder_heads, decoder_mlp_dim,
            self.encoder.grid, num_pixels, **options,
        )  # fmt: skip

    def forward(self, images, noise=None):
        """Mask patches and predict them.

        Parameters
        ----------
        images : Tensor of shape (batch, channel, height, width)
        noise : Tensor of shape (batch, patch), optional
            The patches with the largest noise are masked. Default: uniform random numbers.

        Returns
        -------
        predicted : Tensor of shape (batch, patch, pixels)
            Predicted pixels in the layout of `patchify`, normalized like the target.
        mask : bool Tensor of shape (batch, patch)
            True for masked patches.
        """
        patches = self.encoder.patch_embedding(images)  # (batch, patch, embed)
        if noise is None:
            noise = ops.rand(*patches.shape[:2], device=images.device)
        tokens, restore, mask = self.hide(patches, noise)
        encoded = self.encoder.encode(tokens)  # (batch, 1 + seen, embed)
        return self.decoder(encoded, restore), mask

    @computes("masked patches", reveals=("patches with positions",))
    def hide(self, patches, noise):
        """Add positions, remove the masked patches, and prepend the class token.

        Parameters
        ----------
        patches : Tensor of shape (batch, patch, embed)
        noise : Tensor of shape (batch, patch)

        Returns
        -------
        tokens : Tensor of shape (batch, 1 + seen, embed)
        restore, mask : as returned by `random_masking`
        """
        num_kept = int(patches.shape[1] * (1 - self.mask_ratio))
        kept, restore, mask = random_masking(noise, num_kept)
        positions, class_token = self.encoder.positions, self.encoder.class_token
        seen = pick(positions(patches, offset=1), kept)  # (batch, seen, embed)
        first = positions(class_token).expand(patches.shape[0], 1, patches.shape[2])
        return ops.cat([first, seen], 1), restore, mask

    def target(self, images):
        """Return the pixels to predict (batch, patch, pixels), normalized if `normalise_pixels`."""
        patches = patchify(images, self.patch_size)
        if not self.normalise_pixels:
            return patches
        mean, deviation = _statistics(patches)
        return (patches - mean) / deviation

    def loss(self, images, predicted, mask):
        """Return the mean squared error over the masked patches.

        Parameters
        ----------
        images : Tensor of shape (batch, channel, height, width)
        predicted, mask : as returned by `forward`

        Returns
        -------
        Tensor of shape ()
        """
        error = ((predicted - self.target(images)) ** 2).mean(-1)  # (batch, patch)
        mask = mask.to(dtype=error.dtype)
        return (error * mask).sum() / mask.sum()

    def reconstruct(self, images, noise=None):
        """Replace the masked patches of images with the model's predictions.

        Returns
        -------
        painted : Tensor of shape (batch, channel, height, width)
            Images with predicted pixels in the masked patches.
        mask : bool Tensor of shape (batch, patch)
            True for masked patches.
        """
        with no_grad():
            predicted, mask = self(images, noise)
            patches = patchify(images, self.patch_size)
            if self.normalise_pixels:  # undo the normalization with the original statistics
                mean, deviation = _statistics(patches)
                predicted = predicted * deviation + mean
            painted = ops.where(mask.unsqueeze(-1), predicted, patches)
            return unpatchify(painted, self.patch_size, self.encoder.grid), mask


@computes("sinusoidal positions")
def fixed_positions(grid, embed_dim):
    """Return fixed positions: sines and cosines for the patches, zeros for the class token."""
    table = sincos_positions(grid, embed_dim)
    positions = nn.LearnedPositionalEmbedding(1 + grid[0] * grid[1], embed_dim)
    weight = ops.cat([ops.zeros(1, embed_dim, dtype=table.dtype), table], 0)
    positions.weight = nn.Parameter(weight, requires_grad=False)
    return positions


def _statistics(patches):
    """Return the means and the standard deviations of the patches, both (batch, patch, 1)."""
    variance = patches.var(-1, keepdim=True)  # unbiased
    return patches.mean(-1, keepdim=True), (variance + 1e-6).sqrt()


def _mae(size, patch_size, image_size=224, **options):
    embed_dim, num_layers, mlp_dim, num_heads = SIZES[size]
    return MaskedAutoencoder(
        image_size, patch_size, embed_dim, num_layers, num_heads, mlp_dim, **options
    )


def mae_b_16(**options):
    """Build a masked autoencoder with ViT-B/16. `options` are passed to `MaskedAutoencoder`."""
    return _mae("B", 16, **options)


def mae_l_16(**options):
    """Build a masked autoencoder with ViT-L/16. `options` are passed to `MaskedAutoencoder`."""
    return _mae("L", 16, **options)


def mae_h_14(**options):
    """Build a masked autoencoder with ViT-H/14. `options` are passed to `MaskedAutoencoder`."""
    return _mae("H", 14, **options)
