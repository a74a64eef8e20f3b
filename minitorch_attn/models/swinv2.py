"""Swin Transformer V2: Swin with post-norm, cosine attention and a continuous position bias.

Liu et al. 2021, "Swin Transformer V2: Scaling Up Capacity and Resolution", arXiv:2111.09883v2.
To keep activations from growing with depth, norms come after the attention and the feed-forward
network (section 3.2), and scores are cosines times a learned scale. To support window sizes not
seen in training, a small network computes the position bias from the logarithm of the offset
(section 3.3). In Swin, the position bias is a learned table. Everything else is the same as in
Swin.
"""

import math

from .. import nn, ops
from ..backend import module_for
from ..computes import computes
from ..ops.windows import cached_position_index
from ..tensor import wrap
from .swin import Block, Swin, merge_neighbours
from .window_attention import WindowAttention

__all__ = ["SwinV2", "swinv2_b", "swinv2_l", "swinv2_s", "swinv2_t"]

_LARGEST_LOG_SCALE = math.log(100.0)  # tau of Eq. 2 is at least 0.01


class ContinuousPositionBias(nn.Module):
    """Position bias for each head and offset: `16 sigmoid(MLP(log(offset)))`.

    Parameters
    ----------
    window_size : (int, int)
    num_heads : int
    pretrained_window_size : (int, int), optional
        Window size during pre-training, which determines the scale of the offsets. With (0, 0), the
        default, `window_size` determines the scale.
    hidden_dim : int
        Hidden size of the network.

    Notes
    -----
    Swin V2, section 3.3, Eqs. 3 and 4. Each coordinate x of an offset is scaled, so that the
    largest coordinate in a window of the pre-training size is 8. It then becomes
    sign(x) log2(1 + |x|) / log2(8). The scale 8, the sigmoid and its factor 16 are from the
    authors' code.
    """

    def __init__(self, window_size, num_heads, pretrained_window_size=(0, 0), hidden_dim=512):
        super().__init__()
        self.window_size = tuple(window_size)
        self.pretrained_window_size = tuple(pretrained_window_size)
        self.linear1 = nn.Linear(2, hidden_dim)
        self.linear2 = nn.Linear(hidden_dim, num_heads, bias=False)

    def coordinates(self):
        """Return the log-spaced offsets (dy, dx), as a tensor of shape (offset, 2).

        Row i is the offset to which `relative_position_index` assigns the index i.
        """
        weight = self.linear1.weight
        xp = module_for(weight.device)
        height, width = self.window_size
        # As in the authors' code, the largest offset in a (pre-training) window is scaled to 8.
        known = self.pretrained_window_size[0] > 0
        sizes = self.pretrained_window_size if known else self.window_size
        axes = []
        for size, reference in zip((height, width), sizes, strict=True):
            x = xp.arange(-size + 1, size).astype(weight.dtype) / max(reference - 1, 1) * 8
            axes.append(xp.sign(x) * xp.log2(abs(x) + 1.0) / math.log2(8))
        dy = xp.repeat(axes[0], 2 * width - 1)
        dx = xp.tile(axes[1], 2 * height - 1)
        return wrap(xp.stack([dy, dx], 1))

    @computes("relative position bias")
    def forward(self):
        table = self.linear2(ops.relu(self.linear1(self.coordinates())))  # (offset, heads)
        index = cached_position_index(self.window_size, table.device)
        bias = ops.embedding(index, 16 * ops.sigmoid(table))  # (query, key, heads)
        return bias.permute(2, 0, 1)


class CosineWindowAttention(WindowAttention):
    """Cosine attention in windows: the scores are scaled cosines (Swin V2, Eq. 2).

    With the position bias B, the output is `softmax(cos(query, key) / tau + B) value`.

    Parameters
    ----------
    embed_dim, num_heads, window_size, qkv_bias, head_dim, dropout
        See `WindowAttention`. With `qkv_bias`, the query and value projections have a bias, but
        the key projection does not.
    pretrained_window_size : (int, int)
        See `ContinuousPositionBias`.

    Attributes
    ----------
    logit_scale : Parameter of shape (heads, 1, 1)
        Logarithm of 1 / tau for each head. Values above log(100) count as log(100).
    """

    def __init__(
        self, embed_dim, num_heads, window_size, qkv_bias=True, head_dim=None, dropout=0.0,
        pretrained_window_size=(0, 0),
    ):  # fmt: skip
        position_bias = ContinuousPositionBias(window_size, num_heads, pretrained_window_size)
        super().__init__(
            embed_dim, num_heads, window_size, qkv_bias, head_dim, dropout, key_bias=False,
            scale=1.0, position_bias=position_bias,
        )  # fmt: skip
        self.logit_scale = nn.Parameter(ops.full((num_heads, 1, 1), math.log(10.0)))

    @computes("window attention")
    def attend(self, query, key, value, mask=None, bias=None, is_causal=False):
        """Return the context, with scaled cosines as scores. See `WindowAttention.attend`."""
        scale = ops.clamp(self.logit_scale, max=_LARGEST_LOG_SCALE).exp()
        query = (
            nn.functional.normalize(query, dim=-1) * scale
        )  # (batch * window, heads, token, dim)
        key = nn.functional.normalize(key, dim=-1)
        return super().attend(query, key, value, mask, bias, is_causal)


class PostNormBlock(Block):
    """Post-norm block: `x + norm(window_attention(x))`, then `x + norm(feed_forward(x))`.

    Swin V2, section 3.2 and Figure 1, calls this res-post-norm. The weights of the norms start at
    0, so each block starts as the identity. For the parameters, see `swin.Block`.
    """

    attention_class = CosineWindowAttention

    @computes("post-norm block", reveals=("shifted windows",))
    def forward(self, x):
        # x: (batch, height, width, embed)
        x = x + self.drop_path1(self.norm1(self.attend(x)))
        return x + self.drop_path2(self.norm2(self.dropout(self.feed_forward(x))))


class PatchMergingV2(nn.Module):
    """Patch merging as in `swin.PatchMerging`, with the norm after the linear map.

    Parameters
    ----------
    embed_dim, output_dim : int
    """

    def __init__(self, embed_dim, output_dim):
        super().__init__()
        self.reduction = nn.Linear(4 * embed_dim, output_dim, bias=False)
        self.norm = nn.LayerNorm(output_dim)

    @computes("merged neighbors")
    def forward(self, x):
        return self.norm(self.reduction(merge_neighbours(x)))


class SwinV2(Swin):
    """Swin Transformer V2 as an image classifier.

    Parameters
    ----------
    image_size, patch_size, in_channels, num_classes, embed_dim, depths, num_heads, window_size
        See `Swin`, which also describes the remaining arguments.
    pretrained_window_size : int, or list with an int or a pair of int for each stage
        Window sizes during pre-training. 0 selects the window sizes of this model.

    References
    ----------
    .. [1] Liu et al. 2021, arXiv:2111.09883v2, section 3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = SwinV2(image_size=8, patch_size=1, in_channels=1, num_classes=10, embed_dim=6,
    ...                depths=(2, 2), num_heads=(1, 2), window_size=4)
    >>> model(mt.zeros(3, 1, 8, 8)).shape
    (3, 10)
    """

    block_class, merging_class = PostNormBlock, PatchMergingV2

    def __init__(
        self, image_size=256, patch_size=4, in_channels=3, num_classes=1000, embed_dim=96,
        depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24), window_size=8, mlp_ratio=4.0, *,
        pretrained_window_size=0, **settings,
    ):  # fmt: skip
        super().__init__(
            image_size, patch_size, in_channels, num_classes, embed_dim, depths, num_heads,
            window_size, mlp_ratio, pretrained_window_size=pretrained_window_size, **settings,
        )  # fmt: skip
        for stage in self.stages:
            for block in stage.blocks:
                for norm in (block.norm1, block.norm2):
                    nn.init.zeros_(norm.weight)


def swinv2_t(**changes):
    """SwinV2-T: 96 channels in stage 1; 28,347,154 parameters (window size 8).

    `changes` override the defaults.
    """
    return SwinV2(**{"drop_path": 0.2, **changes})


def swinv2_s(**changes):
    """SwinV2-S: 96 channels in stage 1, 18 blocks in stage 3; 49,728,418 parameters."""
    return SwinV2(**{"depths": (2, 2, 18, 2), "drop_path": 0.3, **changes})


def swinv2_b(**changes):
    """SwinV2-B: 128 channels in stage 1, 18 blocks in stage 3; 87,918,816 parameters."""
    sizes = {"embed_dim": 128, "depths": (2, 2, 18, 2), "num_heads": (4, 8, 16, 32)}
    return SwinV2(**{**sizes, "drop_path": 0.5, **changes})


def swinv2_l(**changes):
    """SwinV2-L: 192 channels in stage 1, 18 blocks in stage 3; 196,739,932 parameters."""
    sizes = {"embed_dim": 192, "depths": (2, 2, 18, 2), "num_heads": (6, 12, 24, 48)}
    return SwinV2(**{**sizes, "drop_path": 0.2, **changes})
