"""VideoMAE, a masked autoencoder for video: it predicts masked tubes of patches.

Tong et al. 2022, "VideoMAE: Masked Autoencoders are Data-Efficient Learners for Self-Supervised
Video Pre-Training", arXiv:2203.12602v3. Neighboring frames are almost equal. If a patch were masked
in only one frame, the model could copy it from the next frame. Tube masking therefore masks the
same 90 % of the positions in all frames (sections 3.2 and 3.3). The tokens are cubes: each cube is
a patch that spans `tubelet_size` consecutive frames.
"""

from .. import nn, ops
from ..computes import computes
from ..errors import ArgumentError, ShapeError
from ..nn import init
from ..nn.checks import check_layers
from ..tensor import Tensor
from .mae import pick
from .vit import Block, initialize, pair

__all__ = ["VideoMAE", "cubes_of", "tube_masking", "video_mae_b", "video_mae_l", "video_mae_s"]


def tube_masking(noise, num_steps, mask_ratio=0.9):
    """Return a mask that is True, in all time steps, at the positions with the largest noise.

    Parameters
    ----------
    noise : Tensor of shape (batch, position)
        One random number for each position in a frame.
    num_steps : int
        Number of cubes along the time axis.
    mask_ratio : float, default 0.9
        Fraction of the positions to mask.

    Returns
    -------
    bool Tensor of shape (batch, num_steps * position)
        True for masked cubes. Each row has the same number of masked cubes.

    Raises
    ------
    ArgumentError
        If `mask_ratio` is not between 0 and 1, or `num_steps` is not a non-negative integer.
    ShapeError
        If `noise` is not a tensor with two axes.

    Notes
    -----
    Tong et al. 2022, arXiv:2203.12602v3, section 3.3, "Tube masking with extremely high ratios".

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> tube_masking(mt.tensor([[0.3, 0.9, 0.1, 0.5]]), 2, 0.5)
    tensor([[False,  True, False,  True, False,  True, False,  True]])
    """
    check_layers("tube_masking", num_steps=num_steps)
    if not isinstance(mask_ratio, int | float) or not 0 <= mask_ratio <= 1:
        raise ArgumentError(
            "tube_masking: mask_ratio must be at least 0 and at most 1", got=repr(mask_ratio)
        )
    if not isinstance(noise, Tensor) or noise.ndim != 2:
        raise ShapeError(
            "tube_masking: noise must be a tensor with two axes",
            got=str(getattr(noise, "shape", type(noise).__name__)),
            expected="(batch, position)",
        )
    places = noise.shape[1]
    rank = noise.detach().argsort(dim=1).argsort(dim=1)
    masked = rank >= places - int(mask_ratio * places)  # (batch, place)
    return ops.cat([masked] * num_steps, 1)


@computes("patches", reveals=("patch embedding",))
def cubes_of(video, tubelet_size, patch_size):
    """Cut a video into cubes of pixels, with the channels on the last axis.

    Parameters
    ----------
    video : Tensor of shape (batch, channel, frame, height, width)
    tubelet_size : int
        Number of frames in a cube.
    patch_size : int or (int, int)
        Height and width of a cube.

    Returns
    -------
    Tensor of shape (batch, cube, pixel, channel)

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> cubes_of(mt.zeros(5, 3, 4, 6, 8), 2, 2).shape
    (5, 24, 8, 3)
    """
    batch, channels, *size = video.shape
    cube = (tubelet_size, *pair(patch_size))
    if any(n % k for n, k in zip(size, cube, strict=True)):
        raise ShapeError(
            "cubes_of: the video size is not divisible by the cube size",
            got=f"video {video.shape}, cube {cube}",
            expected=f"frames, height and width that are multiples of {cube}",
        )
    steps, rows, columns = (n // k for n, k in zip(size, cube, strict=True))
    # (batch, channel, step, frame, row, patch row, column, patch column)
    parts = video.reshape(batch, channels, steps, cube[0], rows, cube[1], columns, cube[2])
    parts = parts.permute(0, 2, 4, 6, 3, 5, 7, 1)
    return parts.reshape(batch, steps * rows * columns, cube[0] * cube[1] * cube[2], channels)


@computes("split by mask")
def visible_and_masked(mask):
    """Return the sorted indices of the visible and the masked cubes in each row of the mask.

    Parameters
    ----------
    mask : bool Tensor of shape (batch, cube)
        True for masked cubes. Each row must have the same number of masked cubes.

    Returns
    -------
    visible : int64 Tensor of shape (batch, visible)
    masked : int64 Tensor of shape (batch, masked)
    """
    counts = mask.sum(1)
    if counts.numel() and (counts != counts[0]).any().item():
        raise ShapeError(
            "VideoMAE: the rows of the mask have different numbers of masked cubes",
            got=f"{counts.tolist()}",
            expected="the same number in every row",
        )
    order = mask.to(dtype="int64").argsort(dim=1, stable=True)
    visible = mask.shape[1] - (int(counts[0].item()) if counts.numel() else 0)
    return order[:, :visible], order[:, visible:]


class VideoEncoder(nn.Module):
    """Encoder of the visible cubes of a video: a Vision Transformer without a class token.

    Parameters
    ----------
    image_size, patch_size : int or (int, int)
    num_frames, tubelet_size : int
        Number of frames in a clip and in a cube.
    embed_dim, num_layers, num_heads, mlp_dim : int
    in_channels : int, default 3
    final_norm : bool, default True
        Whether the encoder ends with a layer norm.
    **options
        Arguments of `make_blocks`.
    """

    def __init__(
        self, image_size, patch_size, num_frames, tubelet_size, embed_dim, num_layers, num_heads,
        mlp_dim, *, in_channels=3, final_norm=True, eps=1e-6, **options,
    ):  # fmt: skip
        super().__init__()
        self.video_size = (num_frames, *pair(image_size))
        cube = (tubelet_size, *pair(patch_size))
        self.grid = tuple(n // k for n, k in zip(self.video_size, cube, strict=True))
        self.projection = nn.Conv3d(in_channels, embed_dim, cube, stride=cube)
        self.num_cubes = self.grid[0] * self.grid[1] * self.grid[2]
        positions = nn.sinusoidal_positions(self.num_cubes, embed_dim)
        self.register_buffer("positions", positions, persistent=False)
        self.blocks = make_blocks(embed_dim, num_layers, num_heads, mlp_dim, eps=eps, **options)
        self.norm = nn.LayerNorm(embed_dim, eps=eps) if final_norm else nn.Identity()
        self.apply(initialize)

    def forward(self, video, visible=None):
        """Return the encoded visible cubes of a video.

        Parameters
        ----------
        video : Tensor of shape (batch, channel, frame, height, width)
        visible : int64 Tensor of shape (batch, seen), optional
            Indices of the cubes that the encoder reads. Default: all.

        Returns
        -------
        Tensor of shape (batch, seen, embed)
        """
        return self.encode(self.embed(video, visible))

    @computes("patches with positions")
    def embed(self, video, visible=None):
        """Return the embeddings of the visible cubes (batch, seen, embed), with positions added."""
        if video.shape[2:] != self.video_size:
            raise ShapeError(
                "VideoMAE: the shape of the video does not match the model",
                got=f"shape {video.shape}",
                expected=f"(batch, channel, {', '.join(map(str, self.video_size))})",
                hint="pass video.transpose(1, 2) if frames are before channels",
            )
        tokens = self.projection(video).flatten(2).transpose(1, 2) + self.positions
        return tokens if visible is None else pick(tokens, visible)

    @computes("stack of layers")
    def encode(self, tokens):
        """Apply all blocks and, if there is one, the final norm to tokens (batch, seen, embed)."""
        for block in self.blocks:
            tokens = block(tokens)
        return self.norm(tokens)


class VideoDecoder(nn.Module):
    """Decoder that predicts the pixels of the masked cubes.

    Parameters
    ----------
    encoder_dim, embed_dim, num_layers, num_heads, mlp_dim : int
    num_cubes, num_pixels : int
        Number of cubes in a clip, and of pixel values in a cube.
    norm_eps : float
        Epsilon of the last layer norm.
    **options
        Arguments of `make_blocks`.
    """

    def __init__(
        self, encoder_dim, embed_dim, num_layers, num_heads, mlp_dim, num_cubes, num_pixels, *,
        norm_eps=1e-5, **options,
    ):  # fmt: skip
        super().__init__()
        self.embedding = nn.Linear(encoder_dim, embed_dim, bias=False)
        self.mask_token = nn.Parameter(ops.zeros(1, 1, embed_dim))
        positions = nn.sinusoidal_positions(num_cubes, embed_dim)
        self.register_buffer("positions", positions, persistent=False)
        self.blocks = make_blocks(embed_dim, num_layers, num_heads, mlp_dim, **options)
        self.norm = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.prediction = nn.Linear(embed_dim, num_pixels)
        self.apply(initialize)
        init.normal_(self.mask_token, std=0.02)

    @computes("masked autoencoder")
    def forward(self, encoded, visible, masked):
        """Predict the pixels of the masked cubes.

        Parameters
        ----------
        encoded : Tensor of shape (batch, visible, encoder)
        visible, masked : int64 Tensors of shape (batch, visible) and (batch, masked)

        Returns
        -------
        Tensor of shape (batch, masked, pixels)
        """
        seen = self.embedding(encoded) + self.positions[visible]
        gaps = self.mask_token + self.positions[masked]
        tokens = ops.cat([seen, gaps], 1)  # any order works, because all tokens have positions
        for block in self.blocks:
            tokens = block(tokens)
        hidden = tokens[:, tokens.shape[1] - masked.shape[1] :]
        return self.prediction(self.norm(hidden))


class VideoMAE(nn.Module):
    """Masked autoencoder for video.

    Parameters
    ----------
    image_size, patch_size : int or (int, int), default 224 and 16
    num_frames, tubelet_size : int, default 16 and 2
        Number of frames in a clip and in a cube.
    embed_dim, num_layers, num_heads, mlp_dim : int
        Sizes of the encoder. Default: ViT-B.
    in_channels : int, default 3
    decoder_dim, decoder_layers, decoder_heads, decoder_mlp_dim : int
        Sizes of the decoder. Default: 4 blocks of width 384 (section 4.2, Table 1a).
    mask_ratio : float, default 0.9
        Fraction of the positions to mask.
    normalise_pixels : bool, default True
        Whether to normalize each channel of each target cube by its mean and standard deviation.
    **options
        Arguments of the blocks, such as activation, eps, dropout.

    References
    ----------
    .. [1] Tong et al. 2022, arXiv:2203.12602v3, section 3 and Figure 2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = VideoMAE(8, 4, 4, 2, 12, 1, 2, 24, in_channels=1, decoder_dim=8,
    ...     decoder_layers=1, decoder_heads=2, decoder_mlp_dim=16, mask_ratio=0.75)
    >>> video = mt.rand(5, 1, 4, 8, 8)
    >>> predicted, mask = model(video)
    >>> predicted.shape, mask.shape, model.loss(video, predicted, mask).shape
    ((5, 6, 32), (5, 8), ())
    """

    named_methods = None  # all public methods

    def __init__(
        self, image_size=224, patch_size=16, num_frames=16, tubelet_size=2, embed_dim=768,
        num_layers=12, num_heads=12, mlp_dim=3072, *, in_channels=3, decoder_dim=384,
        decoder_layers=4, decoder_heads=6, decoder_mlp_dim=1536, mask_ratio=0.9,
        normalise_pixels=True, **options,
    ):  # fmt: skip
        super().__init__()
        self.tubelet_size, self.patch_size = tubelet_size, pair(patch_size)
        self.mask_ratio, self.normalise_pixels = mask_ratio, normalise_pixels
        self.input_shape = (in_channels, num_frames, *pair(image_size))
        self.encoder = VideoEncoder(
            image_size, patch_size, num_frames, tubelet_size, embed_dim, num_layers, num_heads,
            mlp_dim, in_channels=in_channels, **options,
        )  # fmt: skip
        num_pixels = tubelet_size * self.patch_size[0] * self.patch_size[1] * in_channels
        self.decoder = VideoDecoder(
            embed_dim, decoder_dim, decoder_layers, decoder_heads, decoder_mlp_dim,
            self.encoder.num_cubes, num_pixels, **options,
        )  # fmt: skip

    def forward(self, video, mask=None):
        """Mask cubes of a video and predict their pixels.

        Parameters
        ----------
        video : Tensor of shape (batch, channel, frame, height, width)
        mask : bool Tensor of shape (batch, cube), optional
            True for masked cubes. Default: random tubes.

        Returns
        -------
        predicted : Tensor of shape (batch, masked, pixels)
        mask : bool Tensor of shape (batch, cube)
        """
        if mask is None:
            steps, rows, columns = self.encoder.grid
            noise = ops.rand(video.shape[0], rows * columns, device=video.device)
            mask = tube_masking(noise, steps, self.mask_ratio)
        visible, masked = visible_and_masked(mask)
        return self.decoder(self.encoder(video, visible), visible, masked), mask

    def target(self, video):
        """Return target pixels (batch, cube, pixels), normalized if `normalise_pixels` is True."""
        cubes = cubes_of(video, self.tubelet_size, self.patch_size)
        return (normalised_cubes(cubes) if self.normalise_pixels else cubes).flatten(2)

    def loss(self, video, predicted, mask):
        """Return the mean squared error over the masked cubes (Eq. 1).

        Parameters
        ----------
        video : Tensor of shape (batch, channel, frame, height, width)
        predicted, mask : as returned by `forward`

        Returns
        -------
        Tensor of shape ()
        """
        _, masked = visible_and_masked(mask)
        return ((predicted - pick(self.target(video), masked)) ** 2).mean()


def normalised_cubes(cubes):
    """Normalize cubes (batch, cube, pixel, channel): each channel of each cube over its pixels."""
    deviation = cubes.var(2, keepdim=True).sqrt()  # unbiased
    return (cubes - cubes.mean(2, keepdim=True)) / (deviation + 1e-6)


def make_blocks(
    embed_dim, num_layers, num_heads, mlp_dim, *, qkv_bias=True, attention_dropout=0.0, **options
):
    """Return a ModuleList of ViT blocks.

    As in the authors' code, the keys never have a bias. With `qkv_bias`, the queries and values do.
    """
    check_layers("VideoMAE", num_layers=num_layers)

    def attention():
        return nn.Attention(
            embed_dim, num_heads, bias=qkv_bias, key_bias=False, out_bias=True,
            dropout=attention_dropout,
        )  # fmt: skip

    return nn.ModuleList([
        Block(embed_dim, num_heads, mlp_dim, attention=attention(), **options)
        for _ in range(num_layers)
    ])  # fmt: skip


def video_mae_s(**changes):
    """Build a masked autoencoder with ViT-S/16. `changes` override the defaults."""
    sizes = {"embed_dim": 384, "num_heads": 6, "mlp_dim": 1536}
    decoder = {"decoder_dim": 192, "decoder_heads": 3, "decoder_mlp_dim": 768}
    return VideoMAE(**{**sizes, **decoder, **changes})


def video_mae_b(**changes):
    """Build a masked autoencoder with ViT-B/16. `changes` override the defaults."""
    return VideoMAE(**changes)


def video_mae_l(**changes):
    """Build a masked autoencoder with ViT-L/16. `changes` override the defaults."""
    sizes = {"embed_dim": 1024, "num_layers": 24, "num_heads": 16, "mlp_dim": 4096}
    decoder = {
        "decoder_dim": 512, "decoder_layers": 12, "decoder_heads": 8, "decoder_mlp_dim": 2048,
    }  # fmt: skip
    return VideoMAE(**{**sizes, **decoder, **changes})
