"""MViT, the Multiscale Vision Transformer: maps shrink and channels grow from stage to stage.

Fan et al. 2021, "Multiscale Vision Transformers", arXiv:2104.11227v1. Each attention layer pools
its queries, keys and values (section 3.1). Pooling the keys and values makes the layer cheaper.
Pooling the queries makes the layer's output shorter, so the model has stages like a convolutional
network (section 3.2, Table 2). The same classes process videos (three axes) and images (two
axes).
"""

import math

from .. import nn, ops
from ..computes import computes
from ..errors import ArgumentError, ShapeError
from ..nn import functional as F
from ..nn import init
from ..nn.feed_forward import two_layers
from .mvit_stages import plan_blocks
from .pooling_attention import (
    CONVOLUTIONS,
    POOLS,
    PoolingAttention,
    layer_norm,
    pool_tokens,
    pools_named,
)  # fmt: skip

__all__ = ["MViT", "MultiscaleBlock", "PoolingAttention", "mvit_b_16x4"]


class MultiscaleBlock(nn.Module):
    """Pre-norm block with pooling attention. Its skip connection is pooled like the queries.

    The block computes `x = pool(x) + attention(norm1(x))`, then `x + mlp(norm2(x))`. If the number
    of channels changes, it changes in one of these two sums (see `widen_in_attention`). A linear
    layer then adapts the skip connection: it becomes `pool(linear(norm1(x)))` in the first sum, or
    `linear(norm2(x))` in the second.

    Parameters
    ----------
    embed_dim, output_dim, num_heads : int
    mlp_ratio : float, default 4.0
        Hidden size of the feed-forward network as a multiple of its input size.
    widen_in_attention : bool, default False
        Whether the attention layer changes the number of channels, as in MViTv2. If False, the
        feed-forward network does, as in MViT.
    drop_path : float, default 0
        Probability of skipping a residual branch for a whole sample.
    make_norm : callable, optional
        Function that makes a norm, given its size. Default: `LayerNorm` with eps 1e-6.
    attention_class : class, default PoolingAttention
    **pooling
        Arguments of the attention layer.

    References
    ----------
    .. [1] Fan et al. 2021, arXiv:2104.11227v1, section 3.2, "Skip-connections". The linear
       layer reads normalized tokens, as in the authors' code.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> block = MultiscaleBlock(6, 8, 2, kernel_q=(3, 3, 3), stride_q=(1, 2, 2))
    >>> output, size = block(mt.zeros(5, 1 + 2 * 4 * 4, 6), (2, 4, 4))
    >>> output.shape, size
    ((5, 9, 8), (2, 2, 2))
    """

    def __init__(
        self, embed_dim, output_dim, num_heads, mlp_ratio=4.0, *, widen_in_attention=False,
        drop_path=0.0, make_norm=None, attention_class=PoolingAttention, **pooling,
    ):  # fmt: skip
        super().__init__()
        make_norm = make_norm or layer_norm
        inner = output_dim if widen_in_attention else embed_dim
        self.norm1 = make_norm(embed_dim)
        self.attention = attention_class(
            embed_dim, num_heads, output_dim=inner, make_norm=make_norm, **pooling
        )
        self.norm2 = make_norm(inner)
        self.linear1 = nn.Linear(inner, int(inner * mlp_ratio))
        self.linear2 = nn.Linear(int(inner * mlp_ratio), output_dim)
        self.widen_in_attention = widen_in_attention
        widens = embed_dim != output_dim
        self.skip = nn.Linear(embed_dim, output_dim) if widens else nn.Identity()
        self.drop_path = nn.DropPath(drop_path)
        self.stride = tuple(pooling.get("stride_q", (1, 1, 1)))

    @computes("pre-norm block")
    def forward(self, x, size):
        """Run the block on a map.

        Parameters
        ----------
        x : Tensor of shape (batch, [1 +] position, embed)
            Tokens of the map in row-major order, after the class token if there is one ("1 +").
        size : tuple of int
            Size of the map.

        Returns
        -------
        output : Tensor of shape (batch, [1 +] new position, output)
        size : tuple of int
            Size of the output's map.
        """
        n = self.norm1(x)
        attended, new_size = self.attention(n, size)
        kept = self.skip(n) if self._widens(in_attention=True) else x
        x = self.pool_skip(kept, size) + self.drop_path(attended)
        n = self.norm2(x)
        kept = self.skip(n) if self._widens(in_attention=False) else x
        y = two_layers(n, self.linear1, F.gelu, None, self.linear2)
        return kept + self.drop_path(y), new_size

    def _widens(self, in_attention):
        is_linear = not isinstance(self.skip, nn.Identity)
        return is_linear and self.widen_in_attention == in_attention

    @computes("pooled tokens")
    def pool_skip(self, x, size):
        """Max-pool the skip connection with the stride of the queries."""
        if max(self.stride) == 1:
            return x
        kernel = tuple(step + 1 if step > 1 else 1 for step in self.stride)
        padding = tuple(n // 2 for n in kernel)
        pool = POOLS["max"][len(size)](kernel, self.stride, padding)
        return pool_tokens(x, size, pool, self.attention.num_prefix)[0]


class MViT(nn.Module):
    """Multiscale Vision Transformer as a classifier of videos or images.

    Parameters
    ----------
    input_size : tuple of int
        Size of a clip, (frames, height, width), or of an image, (height, width). Use a multiple
        of `patch_stride`.
    num_classes : int
        Number of classes. With 0 classes, the model returns the pooled features.
    embed_dim, num_heads : int, or sequence of int with one for each stage
        Width and number of heads. A single number is the value of the first stage. Each later stage
        doubles it.
    depths : sequence of int
        Number of blocks in each stage.
    in_channels : int, default 3
    mlp_ratio : float, default 4.0
    patch_kernel, patch_stride, patch_padding : tuple of int
        Settings of the convolution that cuts the input into patches ("cubes"). The patches
        overlap in the paper.
    kernel : tuple of int
        Pooling window of all attention layers.
    stride_q : tuple of int, or sequence of tuples with one for each stage
        Pooling stride of the queries in the first block of a stage. A single tuple applies to
        all stages but the first.
    stride_kv : tuple of int, or sequence of tuples with one for each stage
        Pooling stride of keys and values in the first stage. In later stages, it is divided by
        `stride_q`, so that all layers have the same number of keys (section 4.1).
    qkv_bias, class_token : bool, default True
    positions : {"separate", "joint", None}, default "separate"
        Position embeddings. "separate" adds a vector for the frame and a vector for the position in
        the frame, "joint" adds one vector for each token, and None adds nothing.
    pooling : {"conv", "max", "avg"}, default "conv"
    dropout : float, default 0
        Dropout probability before the head.
    drop_path : float, default 0
        DropPath probability of the last block. It increases linearly from 0 at the first block.
    make_norm : callable, optional
        Function that makes a norm, given its size. Default: `LayerNorm` with eps 1e-6.

    Attributes
    ----------
    size : tuple of int
        Size of the map of patches.
    stages : ModuleList of Stage

    References
    ----------
    .. [1] Fan et al. 2021, arXiv:2104.11227v1, section 3.2, Table 2 and Figure 3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = MViT((4, 8, 8), num_classes=10, embed_dim=8, depths=(1, 1), in_channels=1,
    ...     patch_kernel=(3, 3, 3), patch_stride=(2, 2, 2), patch_padding=(1, 1, 1),
    ...     stride_kv=(1, 2, 2))
    >>> model(mt.zeros(5, 1, 4, 8, 8)).shape
    (5, 10)
    """

    named_methods = None  # all public methods

    widens_early = False  # the last block of a stage changes the width for the next stage
    pools_every_query = False

    def __init__(
        self, input_size=(16, 224, 224), num_classes=400, embed_dim=96, depths=(1, 2, 11, 2),
        num_heads=1, *, in_channels=3, mlp_ratio=4.0, patch_kernel=(3, 7, 7),
        patch_stride=(2, 4, 4), patch_padding=(1, 3, 3), kernel=(3, 3, 3), stride_q=(1, 2, 2),
        stride_kv=(1, 8, 8), qkv_bias=True, class_token=True, positions="separate",
        pooling="conv", dropout=0.0, drop_path=0.0, make_norm=None,
    ):  # fmt: skip
        super().__init__()
        self.make_norm = make_norm or layer_norm
        self.input_size, self.num_prefix = tuple(input_size), int(class_token)
        self.input_shape = (in_channels, *self.input_size)
        dims = len(self.input_size)
        pools_named(pooling), _check_dims(dims, input_size)
        self.size = tuple(n // step for n, step in zip(input_size, patch_stride, strict=True))
        plan = plan_blocks(
            depths, embed_dim, num_heads, self.size, kernel=kernel, stride_q=stride_q,
            stride_kv=stride_kv, widens_early=self.widens_early,
            pools_every_query=self.pools_every_query,
        )  # fmt: skip
        width = plan[0][0]["embed_dim"]
        self.patch_embedding = CONVOLUTIONS[dims](
            in_channels, width, patch_kernel, patch_stride, patch_padding
        )
        self.class_token = _drawn(1, 1, width) if class_token else None
        self.positions = _make_positions(positions, self.size, self.num_prefix, width)
        shared = {
            "mlp_ratio": mlp_ratio, "qkv_bias": qkv_bias, "class_token": class_token,
            "pooling": pooling,
        }  # fmt: skip
        rates = [drop_path * i / max(sum(depths) - 1, 1) for i in range(sum(depths))]
        self.stages = nn.ModuleList()
        for stage in plan:
            blocks = [
                self.make_block(**settings, drop_path=rates.pop(0), **shared) for settings in stage
            ]
            self.stages.append(Stage(blocks))
        width = plan[-1][-1]["output_dim"]
        self.norm = self.make_norm(width)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, num_classes) if num_classes else nn.Identity()
        self.apply(_initialize)

    def make_block(self, *, size, **settings):
        """Create one block. `size` is the size of the map before the block."""
        return MultiscaleBlock(**settings, make_norm=self.make_norm)

    @computes("image classifier")
    def forward(self, x):
        """Compute the class logits.

        Parameters
        ----------
        x : Tensor of shape (batch, channel, [frames,] height, width)

        Returns
        -------
        Tensor of shape (batch, class)
        """
        return self.head(self.dropout(self.pool(self.features(x))))

    def features(self, x):
        """Return the tokens after the last block and its norm, (batch, [1 +] position, embed)."""
        tokens, size = self.embed(x)
        for stage in self.stages:
            tokens, size = stage(tokens, size)
        return self.norm(tokens)

    @computes("patches with positions")
    def embed(self, x):
        """Embed the patches of the input. Returns the tokens and the size of the map of patches.

        The tokens are the class token, if there is one, followed by the patches. Position
        embeddings, if the model has them, are already added.
        """
        _check_input(self, x)
        maps = self.patch_embedding(x)  # (batch, embed, *size)
        tokens, size = maps.flatten(2).transpose(1, 2), maps.shape[2:]
        if self.class_token is not None:
            batch, _, width = tokens.shape
            tokens = ops.cat([self.class_token.expand(batch, 1, width), tokens], 1)
        return (tokens if self.positions is None else self.positions(tokens)), size

    def pool(self, tokens):
        """Return the class token, or the mean of the tokens if there is none: (batch, embed)."""
        return tokens[:, 0] if self.num_prefix else tokens.mean(1)


class Stage(nn.Module):
    """One stage of a multiscale Transformer. Only its first block can change the map size."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, tokens, size):
        # tokens: (batch, [1 +] position, embed)
        for block in self.blocks:
            tokens, size = block(tokens, size)
        return tokens, size


class JointPositions(nn.Module):
    """Position embeddings with one vector for each token."""

    def __init__(self, size, num_prefix, width):
        super().__init__()
        self.table = _drawn(1, num_prefix + math.prod(size), width)

    def forward(self, tokens):
        # tokens: (batch, [1 +] position, embed)
        return _add_positions(tokens, self.table)


class SeparatePositions(nn.Module):
    """Position embeddings: a vector for the frame plus a vector for the position in the frame.

    Notes
    -----
    Fan et al. 2021, arXiv:2104.11227v1, section 4.4, Table 9, "space & time separate".
    """

    def __init__(self, size, num_prefix, width):
        super().__init__()
        frames, places = (size[0] if len(size) == 3 else 1), math.prod(size[-2:])
        self.space = _drawn(1, places, width)
        self.time = _drawn(1, frames, width) if len(size) == 3 else None
        self.prefix = _drawn(1, 1, width) if num_prefix else None

    def forward(self, tokens):
        # tokens: (batch, [1 +] frame * position, embed)
        table = self.space
        if self.time is not None:  # (frame, 1, embed) + (1, position, embed)
            table = (self.time.transpose(0, 1) + self.space).flatten(0, 1).unsqueeze(0)
        table = table if self.prefix is None else ops.cat([self.prefix, table], 1)
        return _add_positions(tokens, table)


def mvit_b_16x4(**changes):
    """MViT-B, 16x4, for Kinetics-400: 36,610,672 parameters. `changes` override the defaults."""
    return MViT(**{"dropout": 0.5, "drop_path": 0.2, **changes})


def _check_dims(dims, input_size):
    if dims not in CONVOLUTIONS:
        raise ArgumentError(
            "MViT: input_size must have two or three numbers",
            got=f"input_size={input_size}",
            expected="(height, width), or (frames, height, width)",
        )


def _check_input(model, x):
    channels, size = model.patch_embedding.in_channels, model.input_size
    if x.ndim != 2 + len(size) or x.shape[1] != channels:
        raise ShapeError(
            f"{type(model).__name__}: the shape of the input does not match the model",
            got=f"shape {x.shape}",
            expected=f"(batch, {', '.join(map(str, (channels, *size)))})",
            hint="pass x[None] for one image or clip",
        )


def _add_positions(tokens, table):
    if tokens.shape[1] != table.shape[1]:
        raise ShapeError(
            "MViT: the number of tokens does not match the number of positions",
            got=f"{tokens.shape[1]} tokens", expected=f"{table.shape[1]} tokens",
            hint="create the model with input_size equal to the size of the inputs, and divisible "
            "by patch_stride",
        )  # fmt: skip
    return tokens + table


def _make_positions(positions, size, num_prefix, width):
    kinds = {"separate": SeparatePositions, "joint": JointPositions, None: lambda *_: None}
    if positions not in kinds:
        raise ArgumentError(
            "MViT: the value of positions is invalid",
            got=repr(positions), expected='"separate", "joint" or None',
        )  # fmt: skip
    return kinds[positions](size, num_prefix, width)


def _drawn(*shape):
    """Return a parameter drawn from a truncated normal with std 0.02."""
    return init.trunc_normal_(nn.Parameter(ops.empty(*shape)), std=0.02)


def _initialize(module):
    """Draw matrices from a truncated normal with std 0.02; set biases to 0, as the authors do."""
    if isinstance(module, nn.Linear):
        init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            init.zeros_(module.bias)
