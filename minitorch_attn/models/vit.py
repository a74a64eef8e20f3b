"""ViT, the Vision Transformer: a Transformer encoder on a sequence of image patches.

Dosovitskiy et al. 2020, "An Image is Worth 16x16 Words: Transformers for Image Recognition at
Scale", arXiv:2010.11929v2. Equation 1 is `VisionTransformer.embed`, equations 2 and 3 are
`Block.forward`, and equation 4 is `VisionTransformer.pool`.
"""

from .. import nn, ops
from ..autograd.modes import no_grad
from ..computes import computes
from ..errors import ArgumentError, ShapeError
from ..nn import init
from ..nn.checks import check_layers
from .vit_positions import RelativeAttention, interpolate_positions

__all__ = ["Block", "PatchEmbedding", "VisionTransformer"]

POSITIONS = ("none", "1d", "2d", "relative")
POOLINGS = ("class", "mean")


class PatchEmbedding(nn.Module):
    """Patch embedding: cut the image into patches, and project every patch with one matrix.

    A convolution whose stride equals its kernel size cuts and projects in one step. The result is
    the product x_p E in Eq. 1 of arXiv:2010.11929v2.

    Parameters
    ----------
    patch_size : int or (int, int)
        Height and width of a patch in pixels.
    in_channels, embed_dim : int
    bias : bool, default True

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> PatchEmbedding(2, in_channels=1, embed_dim=5)(mt.zeros(3, 1, 8, 6)).shape
    (3, 12, 5)
    """

    def __init__(self, patch_size, in_channels, embed_dim, bias=True):
        super().__init__()
        self.patch_size = pair(patch_size)
        self.projection = nn.Conv2d(
            in_channels, embed_dim, self.patch_size, stride=self.patch_size, bias=bias
        )

    @computes("patch embedding")
    def forward(self, images):
        # images: (batch, channel, height, width) -> (batch, embed, row, column)
        self._check(images)
        return self.projection(images).flatten(2).transpose(1, 2)  # (batch, patch, embed)

    def grid(self, height, width):
        """Return the numbers of patch rows and patch columns in an image."""
        return height // self.patch_size[0], width // self.patch_size[1]

    def _check(self, images):
        channels = self.projection.in_channels
        if images.ndim != 4 or images.shape[1] != channels:
            raise ShapeError(
                "PatchEmbedding: the shape of images does not match the model",
                got=f"shape {images.shape}", expected=f"(batch, {channels}, height, width)",
                hint="pass images[None] for one image, or images.permute(0, 3, 1, 2) for NHWC",
            )  # fmt: skip


class Block(nn.Module):
    """Pre-norm block: `x + attention(norm(x))`, then `x + feed_forward(norm(x))`.

    These are Eqs. 2 and 3 of arXiv:2010.11929v2.

    Parameters
    ----------
    embed_dim, num_heads, mlp_dim : int
    dropout : float, default 0
        Dropout probability after each linear layer except the query, key and value projections
        (appendix B.1).
    inner_dropout : float, optional
        Dropout probability after the feed-forward network's first layer. Default: `dropout`.
    attention_dropout : float, default 0
        Dropout probability of the attention weights.
    drop_path : float, default 0
        Probability of skipping a residual branch for a whole sample.
    activation : str or callable, default "gelu"
    qkv_bias : bool, default True
    eps : float, default 1e-6
        Epsilon added to the variance in the layer norms.
    attention : Attention, optional
        Attention module to use instead of the default one.
    """

    def __init__(
        self, embed_dim, num_heads, mlp_dim, *, dropout=0.0, inner_dropout=None,
        attention_dropout=0.0, drop_path=0.0, activation="gelu", qkv_bias=True, eps=1e-6,
        attention=None,
    ):  # fmt: skip
        super().__init__()
        inner_dropout = dropout if inner_dropout is None else inner_dropout
        self.norm1 = nn.LayerNorm(embed_dim, eps=eps)
        self.attention = attention or nn.Attention(
            embed_dim, num_heads, bias=qkv_bias, out_bias=True, dropout=attention_dropout
        )
        self.norm2 = nn.LayerNorm(embed_dim, eps=eps)
        self.feed_forward = nn.FeedForward(embed_dim, mlp_dim, activation, inner_dropout)
        self.dropout = nn.Dropout(dropout)
        self.drop_path = nn.DropPath(drop_path)

    @computes("pre-norm block")
    def forward(self, x, mask=None):
        # x: (batch, token, embed)
        attended = self.attention(self.norm1(x), mask=mask)
        x = x + self.drop_path(self.dropout(attended))
        return x + self.drop_path(self.dropout(self.feed_forward(self.norm2(x))))


class VisionTransformer(nn.Module):
    """Vision Transformer as an image classifier.

    Parameters
    ----------
    image_size, patch_size : int or (int, int)
        Height and width of an image and of a patch in pixels. The model ignores pixels at the right
        and lower edges that do not fill a patch.
    num_classes : int, default 1000
        Number of classes. With 0 classes, the model returns the pooled features.
    embed_dim, num_layers, num_heads, mlp_dim : int
    in_channels : int, default 3
    positions : {"1d", "2d", "relative", "none"}, default "1d"
        Type of position embedding. Appendix D.4 compares the four types.
    pooling : {"class", "mean"}, default "class"
        Input of the head: the class token, or the mean of the patches. With "mean", the model does
        not have a class token (appendix D.3).
    representation_dim : int, optional
        Size of a hidden tanh layer before the head, as in pre-training (section 3.1).
    dropout, attention_dropout : float, default 0
        Dropout probability after the linear layers, and of the attention weights.
    drop_path : float, default 0
        DropPath probability of the last block. It increases linearly from 0 at the first block.
    activation : str or callable, default "gelu"
    qkv_bias : bool, default True
    eps : float, default 1e-6
        Epsilon added to the variance in the layer norms.

    Attributes
    ----------
    class_token : Parameter of shape (1, 1, embed), or None
    blocks : ModuleList of Block

    Notes
    -----
    Initial values are the same as in the paper's code: Xavier-uniform for linear layers,
    N(0, 0.02^2) for positions, and 0 for the head and the class token. See `vit_sizes` for the
    sizes.

    References
    ----------
    .. [1] Dosovitskiy et al. 2020, arXiv:2010.11929v2, section 3.1 and appendix D.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = VisionTransformer(
    ...     image_size=8, patch_size=2, num_classes=10, embed_dim=64, num_layers=2, num_heads=4,
    ...     mlp_dim=128, in_channels=1,
    ... )
    >>> model(mt.zeros(5, 1, 8, 8)).shape
    (5, 10)
    """

    named_methods = None  # all public methods

    def __init__(
        self, image_size=224, patch_size=16, num_classes=1000, embed_dim=768, num_layers=12,
        num_heads=12, mlp_dim=3072, *, in_channels=3, positions="1d", pooling="class",
        representation_dim=None, dropout=0.0, attention_dropout=0.0, drop_path=0.0,
        inner_dropout=None, activation="gelu", qkv_bias=True, eps=1e-6,
    ):  # fmt: skip
        super().__init__()
        _check_choice("positions", positions, POSITIONS)
        _check_choice("pooling", pooling, POOLINGS)
        self.image_size, self.pooling, self.position_kind = pair(image_size), pooling, positions
        self.patch_embedding = PatchEmbedding(patch_size, in_channels, embed_dim)
        self.grid = self._grid()
        self.class_token = None
        if pooling == "class":
            self.class_token = nn.Parameter(ops.zeros(1, 1, embed_dim))
        self.positions = self._make_positions(embed_dim)
        self.dropout = nn.Dropout(dropout)
        options = {
            "dropout": dropout, "inner_dropout": inner_dropout, "activation": activation,
            "attention_dropout": attention_dropout, "qkv_bias": qkv_bias, "eps": eps,
        }  # fmt: skip
        check_layers("VisionTransformer", num_layers=num_layers)
        self.blocks = nn.ModuleList()
        for i in range(num_layers):
            options["drop_path"] = drop_path * i / max(num_layers - 1, 1)
            options["attention"] = self._make_attention(embed_dim, num_heads, options)
            self.blocks.append(Block(embed_dim, num_heads, mlp_dim, **options))
        self.norm = nn.LayerNorm(embed_dim, eps=eps)
        self.head = _make_head(embed_dim, representation_dim, num_classes)
        self.apply(initialize)
        if num_classes:
            init.zeros_(self.classifier.weight)

    @property
    def num_prefix(self):
        """Number of tokens before the patches."""
        return 0 if self.class_token is None else 1

    @property
    def classifier(self):
        """The linear layer that computes the logits."""
        return self.head[-1] if isinstance(self.head, nn.Sequential) else self.head

    def _make_positions(self, embed_dim):
        if self.position_kind == "1d":
            tokens = self.num_prefix + self.grid[0] * self.grid[1]
            return nn.LearnedPositionalEmbedding(tokens, embed_dim)
        if self.position_kind == "2d":
            return nn.LearnedPositionalEmbedding2d(*self.grid, embed_dim)
        return None

    def _make_attention(self, embed_dim, num_heads, options):
        if self.position_kind != "relative":
            return None  # the default attention
        return RelativeAttention(
            embed_dim, num_heads, self.num_prefix + self.grid[0] * self.grid[1],
            bias=options["qkv_bias"], out_bias=True, dropout=options["attention_dropout"],
        )  # fmt: skip

    @computes("image classifier")
    def forward(self, images):
        """Compute the class logits of each image.

        Parameters
        ----------
        images : Tensor of shape (batch, channel, height, width)
            Images of the size `image_size`. Use `resize` for images of another size.

        Returns
        -------
        Tensor of shape (batch, classes)
        """
        return self.head(self.pool(self.encode(self.embed(images))))

    @computes("patches with positions")
    def embed(self, images):
        """Return the images' tokens (batch, token, embed), Eq. 1.

        Position embeddings are added if the model has them.
        """
        self._check_size(images)
        patches = self.patch_embedding(images)  # (batch, patch, embed)
        if self.position_kind == "2d":  # the class token does not have a position in the image
            return self.dropout(self.with_prefix(self.positions(patches)))
        tokens = self.with_prefix(patches)
        return self.dropout(tokens if self.positions is None else self.positions(tokens))

    @computes("class token")
    def with_prefix(self, patches):
        """Return the patches, preceded by the class token if there is one."""
        if self.class_token is None:
            return patches
        batch, _, embed_dim = patches.shape
        return ops.cat([self.class_token.expand(batch, 1, embed_dim), patches], 1)

    @computes("stack of layers")
    def encode(self, tokens, mask=None):
        """Apply all blocks and the final norm to tokens of shape (batch, token, embed)."""
        for block in self.blocks:
            tokens = block(tokens, mask)
        return self.norm(tokens)

    def pool(self, tokens):
        """Pool the tokens (batch, token, embed) into one vector per image (batch, embed), Eq. 4."""
        return tokens[:, 0] if self.pooling == "class" else tokens.mean(1)

    def resize(self, image_size):
        """Change the model's image size in place, and interpolate the position embeddings.

        Parameters
        ----------
        image_size : int or (int, int)

        Returns
        -------
        VisionTransformer
            This model.
        """
        if self.position_kind == "relative":
            raise ArgumentError(
                "VisionTransformer.resize: relative positions are not supported",
                got="positions='relative'", expected="positions 'none', '1d' or '2d'",
            )  # fmt: skip
        self.image_size = pair(image_size)
        old, self.grid = self.grid, self._grid()
        if self.positions is not None:
            with no_grad():
                self.positions = _resized_positions(self.positions, old, self.grid)
        return self

    def _grid(self):
        patch_size = self.patch_embedding.patch_size
        if any(size < patch for size, patch in zip(self.image_size, patch_size, strict=True)):
            raise ArgumentError(
                "VisionTransformer: image_size must be at least patch_size",
                got=f"image_size={self.image_size}, patch_size={patch_size}",
                hint=f"pass patch_size={min(self.image_size)} or less, or use larger images",
            )
        return self.patch_embedding.grid(*self.image_size)

    def _check_size(self, images):
        if images.shape[-2:] != self.image_size:
            raise ShapeError(
                "VisionTransformer: the image size does not match the model's image_size",
                got=f"shape {images.shape}", expected=f"height and width {self.image_size}",
                hint=f"call model.resize({images.shape[-2:]}) to resize the position embeddings",
            )  # fmt: skip

    def extra_repr(self):
        return f"image_size={self.image_size}, pooling={self.pooling!r}"


def pair(size):
    """Return `size` as a pair (rows, columns). A single number is used for both."""
    return tuple(size) if isinstance(size, (tuple, list)) else (size, size)


def initialize(module):
    """Initialize linear layers as in the paper's code: `xavier_uniform_`, with biases of 0."""
    if isinstance(module, nn.Linear):
        init.xavier_uniform_(module.weight)
    if isinstance(module, (nn.Linear, nn.Conv2d)) and module.bias is not None:
        init.zeros_(module.bias)


def _make_head(embed_dim, representation_dim, num_classes):
    if not num_classes:
        return nn.Identity()
    if representation_dim is None:
        return nn.Linear(embed_dim, num_classes)
    hidden = nn.Linear(embed_dim, representation_dim)
    return nn.Sequential(hidden, nn.Tanh(), nn.Linear(representation_dim, num_classes))


@computes("interpolated positions")
def _resized_positions(positions, old, new):
    """Interpolate the tables of a position module to a new grid of patches, in place."""
    if isinstance(positions, nn.LearnedPositionalEmbedding2d):
        rows, columns = positions.row_weight, positions.column_weight
        positions.height, positions.width = new
        positions.row_weight = _as_parameter(
            interpolate_positions(rows, (old[0], 1), (new[0], 1)), rows
        )
        positions.column_weight = _as_parameter(
            interpolate_positions(columns, (1, old[1]), (1, new[1])), columns
        )
        return positions
    weight = positions.weight
    prefix = weight.shape[0] - old[0] * old[1]
    patches = interpolate_positions(weight[prefix:], old, new)
    positions.weight = _as_parameter(ops.cat([weight[:prefix], patches], 0), weight)
    return positions


def _as_parameter(tensor, old):
    return nn.Parameter(tensor.detach(), requires_grad=old.requires_grad)


def _check_choice(name, value, choices):
    if value not in choices:
        raise ArgumentError(
            f"VisionTransformer: {name} is invalid", got=repr(value), expected=f"one of {choices}"
        )
