"""Swin Transformer: attention within shifted windows, on feature maps of decreasing size.

Liu et al. 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows",
arXiv:2103.14030v2. Four stages use feature maps of 1/4, 1/8, 1/16 and 1/32 of the image size with
increasing width (Figure 3). A token attends only to the tokens in its window, so the cost is linear
in the number of pixels, not quadratic (Eq. 2). Every second layer shifts the windows by half their
size. Tokens at the border of a window then share a window with their neighbors on the other side
(Figure 2).
"""

import math

from .. import nn, ops
from ..computes import computes
from ..errors import ArgumentError
from ..nn.checks import check_layers
from ..ops.windows import shifted_window_mask, window_merge, window_partition
from .window_attention import WindowAttention

__all__ = ["Swin", "swin_b", "swin_l", "swin_s", "swin_t"]


class PatchEmbedding(nn.Module):
    """Patch embedding: a linear map of each patch's pixels, followed by a layer norm.

    Parameters
    ----------
    in_channels, embed_dim : int
    patch_size : int or (int, int)

    Notes
    -----
    Swin, section 3.1. The layer norm is from the authors' code. An image whose size is not
    divisible by the patch size is padded with zeros at its right and bottom edges.
    """

    def __init__(self, in_channels, embed_dim, patch_size):
        super().__init__()
        self.projection = nn.Conv2d(in_channels, embed_dim, patch_size, stride=patch_size)
        self.norm = nn.LayerNorm(embed_dim)

    @computes("patch embedding")
    def forward(self, images):
        # images: (batch, channel, height, width)
        (high, wide), (height, width) = self.projection.kernel_size, images.shape[-2:]
        if height % high or width % wide:
            images = ops.pad(images, (0, -width % wide, 0, -height % high))
        x = self.projection(images)  # (batch, embed, height, width)
        return self.norm(x.permute(0, 2, 3, 1))  # (batch, height, width, embed)


class PatchMerging(nn.Module):
    """Patch merging: project each group of 2 x 2 tokens to one token.

    Parameters
    ----------
    embed_dim, output_dim : int

    Notes
    -----
    Swin, section 3.1, where output_dim = 2 embed_dim. A feature map of odd size is padded with
    zeros.
    """

    def __init__(self, embed_dim, output_dim):
        super().__init__()
        self.norm = nn.LayerNorm(4 * embed_dim)
        self.reduction = nn.Linear(4 * embed_dim, output_dim, bias=False)

    def forward(self, x):
        return self.reduction(self.norm(merge_neighbours(x)))


@computes("merged neighbors")
def merge_neighbours(x):
    """Concatenate groups of 2 x 2 tokens: (batch, h, w, embed) -> (batch, h/2, w/2, 4 embed)."""
    batch, height, width, embed = x.shape
    if height % 2 or width % 2:
        x = ops.pad(x, (0, 0, 0, width % 2, 0, height % 2))
    x = x.reshape(batch, (height + 1) // 2, 2, (width + 1) // 2, 2, embed)
    # (batch, height/2, width/2, column, row, embed): upper left, lower left, upper right, ...
    return x.permute(0, 1, 3, 4, 2, 5).flatten(3)


class Block(nn.Module):
    """Swin block: `x + window_attention(norm(x))`, then `x + feed_forward(norm(x))` (Eq. 3).

    Parameters
    ----------
    embed_dim, num_heads : int
    window_size, shift_size : (int, int)
        Size and shift of the windows in tokens. In the paper, a block without a shift is W-MSA and
        a block with a shift is SW-MSA.
    hidden_dim : int
        Hidden size of the feed-forward network.
    qkv_bias : bool
    head_dim : int, optional
    dropout, attention_dropout, drop_path : float
    activation : str or callable
    eps : float
        Epsilon added to the variance in the layer norms.

    Attributes
    ----------
    pad_first : bool
        Whether to pad a feature map before the shift (True), as in the authors' code for detection,
        or after the shift (False). Only maps whose size is not divisible by the window size are
        padded.
    """

    attention_class = WindowAttention

    def __init__(
        self, embed_dim, num_heads, window_size, shift_size, hidden_dim, *, qkv_bias=True,
        head_dim=None, dropout=0.0, attention_dropout=0.0, drop_path=0.0, activation="gelu",
        eps=1e-5, **attention_settings,
    ):  # fmt: skip
        super().__init__()
        self.window_size, self.shift_size = tuple(window_size), tuple(shift_size)
        self.pad_first = True
        self.norm1 = nn.LayerNorm(embed_dim, eps)
        self.attention = self.attention_class(
            embed_dim, num_heads, self.window_size, qkv_bias=qkv_bias, head_dim=head_dim,
            dropout=attention_dropout, **attention_settings,
        )  # fmt: skip
        self.norm2 = nn.LayerNorm(embed_dim, eps)
        self.feed_forward = nn.FeedForward(embed_dim, hidden_dim, activation, dropout)
        self.attention_dropout = nn.Dropout(dropout)
        self.dropout = nn.Dropout(dropout)
        self.drop_path1, self.drop_path2 = nn.DropPath(drop_path), nn.DropPath(drop_path)

    @computes("pre-norm block")
    def forward(self, x):
        # x: (batch, height, width, embed)
        x = x + self.drop_path1(self.attend(self.norm1(x)))
        return x + self.drop_path2(self.dropout(self.feed_forward(self.norm2(x))))

    @computes("shifted windows")
    def attend(self, x):
        """Apply attention within the shifted windows of a feature map."""
        # x: (batch, height, width, embed)
        height, width = x.shape[1:3]
        x = self._shift(self._pad(x)) if self.pad_first else self._pad(self._shift(x))
        padded = x.shape[1:3]
        mask = None
        if any(self.shift_size):
            mask = shifted_window_mask(*padded, self.window_size, self.shift_size, x.device)
        windows = window_partition(x, self.window_size)  # (batch, window, token, embed)
        windows = self.attention_dropout(self.attention(windows, mask))
        x = window_merge(windows, self.window_size, *padded)  # (batch, height, width, embed)
        if self.pad_first:
            return self._shift(x, back=True)[:, :height, :width]
        return self._shift(x[:, :height, :width], back=True)

    def _pad(self, x):
        bottom, right = (-n % w for n, w in zip(x.shape[1:3], self.window_size, strict=True))
        return ops.pad(x, (0, 0, 0, right, 0, bottom)) if bottom or right else x

    def _shift(self, x, back=False):
        if not any(self.shift_size):
            return x
        return ops.roll(x, [n if back else -n for n in self.shift_size], (1, 2))

    def extra_repr(self):
        return f"window_size={self.window_size}, shift_size={self.shift_size}"


class Stage(nn.Module):
    """One stage of a Swin Transformer: patch merging (optional), then blocks (Swin, Figure 3a)."""

    def __init__(self, merging, blocks):
        super().__init__()
        self.merging = nn.Identity() if merging is None else merging
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        # x: (batch, height, width, embed)
        x = self.merging(x)
        for block in self.blocks:
            x = block(x)
        return x


class Swin(nn.Module):
    """Swin Transformer as an image classifier.

    Parameters
    ----------
    image_size, patch_size : int or (int, int)
        Size of an image and of a patch in pixels. The model also accepts images of other sizes, but
        `image_size` determines the size and shift of the windows.
    in_channels, num_classes : int
        Number of channels and classes. With 0 classes, the model returns features averaged over
        positions.
    embed_dim : int, or list of int with one for each stage
        Width of the first stage (C in the paper), which doubles in each later stage, or the widths
        of all stages.
    depths, num_heads : sequence of int
        Number of blocks in each stage, and number of attention heads in each of these blocks.
    window_size : int, or list with an int or a pair of int for each stage
    mlp_ratio : float, or list of float with one for each stage
        Hidden size of the feed-forward networks as a multiple of the stage's width.
    qkv_bias : bool
        Whether the projections of query, key and value have a bias.
    head_dim : int, or list of int with one for each stage, optional
    dropout : float
        Dropout probability after the embedding and after each layer of a block.
    attention_dropout : float
        Dropout probability of the attention weights.
    drop_path : float
        DropPath probability of the last block. It increases linearly from 0 at the first block.
    absolute_positions : bool
        Whether to add a learned position embedding (Swin, Table 4, "abs. pos.").
    fit_windows : bool
        Whether windows shrink to fit smaller feature maps. Windows are not shifted along an axis
        that one window covers.
    activation : str or callable
    eps : float
        Epsilon added to the variance in the layer norms of the blocks and in the final layer norm.

    References
    ----------
    .. [1] Liu et al. 2021, arXiv:2103.14030v2, sections 3.1 to 3.3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = Swin(image_size=8, patch_size=1, in_channels=1, num_classes=10, embed_dim=6,
    ...              depths=(2, 2), num_heads=(1, 2), window_size=4)
    >>> model(mt.zeros(3, 1, 8, 8)).shape
    (3, 10)
    >>> model.features(mt.zeros(3, 1, 8, 8)).shape
    (3, 4, 4, 12)
    """

    named_methods = None  # all public methods

    block_class, merging_class = Block, PatchMerging

    def __init__(
        self, image_size=224, patch_size=4, in_channels=3, num_classes=1000, embed_dim=96,
        depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24), window_size=7, mlp_ratio=4.0, *,
        qkv_bias=True, head_dim=None, dropout=0.0, attention_dropout=0.0, drop_path=0.0,
        absolute_positions=False, fit_windows=True, activation="gelu", eps=1e-5,
        **stage_settings,
    ):  # fmt: skip
        super().__init__()
        for depth in (len(depths), *depths):
            check_layers("Swin", depths=depth)
        count = len(depths)
        widths = [embed_dim * 2**i for i in range(count)]
        widths = list(embed_dim) if isinstance(embed_dim, (list, tuple)) else widths
        self.image_size, patches = _pair(image_size), _pair(patch_size)
        grid = tuple(n // patch for n, patch in zip(self.image_size, patches, strict=True))
        per_stage = {
            "num_heads": num_heads, "window_size": window_size, "mlp_ratio": mlp_ratio,
            "head_dim": head_dim, **stage_settings,
        }  # fmt: skip
        per_stage = {name: _for_stages(name, value, count) for name, value in per_stage.items()}
        shared = {
            "qkv_bias": qkv_bias, "dropout": dropout, "attention_dropout": attention_dropout,
            "activation": activation, "eps": eps,
        }  # fmt: skip
        rates = _growing(drop_path, sum(depths))
        self.patch_embedding = PatchEmbedding(in_channels, widths[0], patches)
        self.register_parameter("position_embedding", None)
        if absolute_positions:
            self.position_embedding = nn.Parameter(ops.zeros(1, math.prod(grid), widths[0]))
            nn.init.trunc_normal_(self.position_embedding, std=0.02)
        self.dropout = nn.Dropout(dropout)
        self.stages = nn.ModuleList()
        for i, depth in enumerate(depths):
            merging = self.merging_class(widths[i - 1], widths[i]) if i else None
            grid = tuple((n + 1) // 2 for n in grid) if i else grid
            settings = {name: values[i] for name, values in per_stage.items()}
            settings = {**shared, **settings, "drop_path": [rates.pop(0) for _ in range(depth)]}
            self.stages.append(Stage(merging, self._blocks(widths[i], grid, fit_windows, settings)))
        self.norm = nn.LayerNorm(widths[-1], eps)
        self.head = nn.Linear(widths[-1], num_classes) if num_classes else nn.Identity()
        self.apply(_initialize)

    def _blocks(self, width, grid, fit_windows, settings):
        """Create the blocks of one stage. Every second block shifts its windows."""
        window = _pair(settings.pop("window_size"))
        if min(window) < 1 or min(grid) < 1:
            raise ArgumentError(
                "Swin: the image is too small for this number of stages",
                got=f"a map of size {tuple(grid)} with windows of size {window}",
                hint="use a larger image, smaller patches or fewer stages",
            )
        shift = tuple(n // 2 for n in window)
        if fit_windows:
            shift = tuple(s if n > w else 0 for n, w, s in zip(grid, window, shift, strict=True))
            window = tuple(min(n, w) for n, w in zip(grid, window, strict=True))
        hidden, heads = int(settings.pop("mlp_ratio") * width), settings.pop("num_heads")
        if "pretrained_window_size" in settings:
            settings["pretrained_window_size"] = _pair(settings["pretrained_window_size"])
        return [
            self.block_class(
                width, heads, window, shift if i % 2 else (0, 0), hidden,
                **{**settings, "drop_path": rate},
            )
            for i, rate in enumerate(settings["drop_path"])
        ]  # fmt: skip

    def features(self, images):
        """Return the last feature map, after the final layer norm.

        Parameters
        ----------
        images : Tensor of shape (batch, channel, height, width)

        Returns
        -------
        Tensor of shape (batch, height, width, embed)
        """
        x = self.patch_embedding(images)  # (batch, height, width, embed)
        if self.position_embedding is not None:
            x = x + self.position_embedding.reshape(1, *x.shape[1:])
        x = self.dropout(x)
        for stage in self.stages:
            x = stage(x)
        return self.norm(x)

    def forward(self, images):
        """Compute the class logits of each image.

        Parameters
        ----------
        images : Tensor of shape (batch, channel, height, width)

        Returns
        -------
        Tensor of shape (batch, class)
        """
        return self.head(self.features(images).mean((1, 2)))


def swin_t(**changes):
    """Swin-T: 96 channels in stage 1; 28,288,354 parameters. `changes` override the defaults."""
    return Swin(**{"drop_path": 0.2, **changes})


def swin_s(**changes):
    """Swin-S: 96 channels in stage 1, 18 blocks in stage 3; 49,606,258 parameters."""
    return Swin(**{"depths": (2, 2, 18, 2), "drop_path": 0.3, **changes})


def swin_b(**changes):
    """Swin-B: 128 channels in stage 1, 18 blocks in stage 3; 87,768,224 parameters."""
    sizes = {"embed_dim": 128, "depths": (2, 2, 18, 2), "num_heads": (4, 8, 16, 32)}
    return Swin(**{**sizes, "drop_path": 0.5, **changes})


def swin_l(**changes):
    """Swin-L: 192 channels in stage 1, 18 blocks in stage 3; 196,532,476 parameters."""
    sizes = {"embed_dim": 192, "depths": (2, 2, 18, 2), "num_heads": (6, 12, 24, 48)}
    return Swin(**{**sizes, "drop_path": 0.2, **changes})


def _initialize(module):
    """Draw matrices from a truncated normal with std 0.02; set biases to 0, as the authors do."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def _pair(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)


def _for_stages(name, value, count):
    """Return `value` as a list with one entry for each stage."""
    values = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(values) != count:
        raise ArgumentError(
            f"Swin: the length of {name} does not match the number of stages",
            got=f"{name}={value!r} for {count} stages",
            expected="one value for all stages, or one value for each stage",
        )
    return values


def _growing(last, count):
    """Return DropPath rates that grow from 0 in the first block to `last` (Swin, appendix A2.1)."""
    return [last * i / max(count - 1, 1) for i in range(count)]
