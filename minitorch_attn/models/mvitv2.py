"""MViTv2: pooling attention with decomposed relative positions and residual pooling.

Li et al. 2022, "MViTv2: Improved Multiscale Vision Transformers for Classification and Detection",
arXiv:2112.01526v2. MViTv2 makes two main changes to `mvit` (section 4.1, Figure 2). Every score
depends on the distance between query and key along each axis, and the pooled queries are added
to the attention output. There are also two smaller changes: the queries are pooled in every block,
and the attention layer changes the number of channels instead of the feed-forward network.
"""

from functools import lru_cache, partial

from .. import nn, ops
from ..backend import as_device, module_for
from ..computes import computes
from ..errors import ShapeError
from ..nn import init
from ..tensor import wrap
from .mvit import MultiscaleBlock, MViT
from .pooling_attention import PoolingAttention

__all__ = [
    "MViTv2", "RelativePoolingAttention", "mvitv2_b", "mvitv2_l", "mvitv2_s", "mvitv2_s_16x4",
    "mvitv2_t",
]  # fmt: skip

AXES = {2: "hw", 3: "thw"}
_CACHED = 64  # maximum number of tables; a model needs one for each pair of map sizes


@lru_cache(_CACHED)
def relative_distances(queries, keys, device=None):
    """Return the row index in the relative position table for each query-key pair along an axis.

    Parameters
    ----------
    queries, keys : int
        Lengths of the axis in the maps of the queries and the keys. Distances are measured in
        steps of the finer map.
    device : Device, optional

    Returns
    -------
    int64 Tensor of shape (query, key)
        Query position minus key position, shifted so that the smallest result is 0.

    Examples
    --------
    >>> relative_distances(4, 2)
    tensor([[2, 0],
            [3, 1],
            [4, 2],
            [5, 3]])
    """
    # float32, as in the authors' code: rounding errors can change the truncated integers
    xp = module_for(as_device(device))
    query_step, key_step = max(keys / max(queries, 1), 1.0), max(queries / max(keys, 1), 1.0)
    rows = xp.arange(queries, dtype="float32")[:, None] * query_step
    columns = xp.arange(keys, dtype="float32") * key_step
    return wrap((rows - columns + (keys - 1) * key_step).astype("int64"))


@lru_cache(_CACHED)
def place_units(size, dtype, device):
    """For each position of a map, return the one-hot vectors of its coordinates, concatenated.

    Returns
    -------
    Tensor of shape (position, sum of size)

    Examples
    --------
    >>> place_units((1, 2), "float32", None)
    tensor([[1., 1., 0.],
            [1., 0., 1.]])
    """
    xp = module_for(as_device(device))
    places = xp.indices(size).reshape(len(size), -1)  # (axis, position)
    units = [xp.eye(n, dtype=dtype)[place] for n, place in zip(size, places, strict=True)]
    return wrap(xp.concatenate(units, -1))


class RelativePoolingAttention(PoolingAttention):
    r"""Pooling attention with relative positions and residual pooling.

    Query i is at position p(i) of the map of queries, and key j is at position p(j) of the map of
    keys. Their score is

        s_ij = q_i k_j / sqrt(head_dim) + q_i R_{p(i), p(j)},   R = R^h + R^w (+ R^t),

    where R^h, R^w and, for videos, R^t are learned vectors that depend only on the distance along
    one axis: height, width or time (Eqs. 3 and 4). The pooled queries are added to the context:
    Z = Attn(Q, K, V) + Q (Eq. 6).

    Parameters
    ----------
    embed_dim, num_heads : int
    size : tuple of int
        Size of the map before pooling. It determines the sizes of the relative-position tables.
    relative_positions : bool, default True
    residual_pooling : bool, default True
    **options
        Arguments of `PoolingAttention`.

    Attributes
    ----------
    rel_pos_h, rel_pos_w, rel_pos_t : Parameter of shape (distance, head_dim)
        Tables of relative positions. The table of an axis has 2 max(query, key) - 1 rows, where
        query and key are the lengths of the axis in the maps of the queries and the keys.
        `rel_pos_t` is for videos only.

    Notes
    -----
    The class token does not have a position, so its scores are unchanged. The authors' code
    does not add the query of the class token to its context, but timm's code and Eq. 6 do.

    References
    ----------
    .. [1] Li et al. 2022, arXiv:2112.01526v2, section 4.1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> attention = RelativePoolingAttention(
    ...     6, 2, (4, 4), kernel_q=(3, 3), stride_q=(2, 2), kernel_kv=(3, 3), stride_kv=(1, 1),
    ...     class_token=False)
    >>> attention(mt.zeros(5, 4 * 4, 6), (4, 4))[0].shape
    (5, 4, 6)
    """

    def __init__(
        self, embed_dim, num_heads, size, *, relative_positions=True, residual_pooling=True,
        stride_q=(1, 1), stride_kv=(1, 1), **options,
    ):  # fmt: skip
        super().__init__(embed_dim, num_heads, stride_q=stride_q, stride_kv=stride_kv, **options)
        self.axes = AXES[len(size)] if relative_positions else ""
        self.residual_pooling = residual_pooling
        for axis, n, *steps in zip(AXES[len(size)], size, stride_q, stride_kv, strict=True):
            rows = 2 * max(n // step for step in steps) - 1
            if relative_positions:
                table = init.trunc_normal_(nn.Parameter(ops.empty(rows, self.head_dim)), std=0.02)
                self.register_parameter(f"rel_pos_{axis}", table)

    def mix(self, query, key, value, query_size, key_size):
        # query, key, value: (batch, heads, [1 +] position, head_dim)
        mixed = query
        if self.axes:
            mixed, key = self.with_positions(query, key, query_size, key_size)
        context = self.attend(mixed, key, value)
        return context + query if self.residual_pooling else context

    @computes("relative position bias")
    def with_positions(self, query, key, query_size, key_size):
        r"""Append features to queries and keys, so that dot products include relative positions.

        A query is extended by one number for each row of the keys' map: the dot product of q_i and
        R^h_{p(i), row}, the learned vector for the distance between the query's position p(i) and
        that row. Below, q_i R^h_i stands for all these numbers. A key is extended by e_row(j), the
        one-hot vector of its own row, which selects the number for that row. Both are extended in
        the same way for the other axes. For an image, the dot product is then

            [q_i, q_i R^h_i, q_i R^w_i] [k_j, e_row(j), e_column(j)]
                = q_i k_j + q_i R^h_{p(i), p(j)} + q_i R^w_{p(i), p(j)},

        so attention does not need a bias of shape (heads, query, key).

        Returns
        -------
        query : Tensor of shape (batch, heads, query, head_dim + sum of key_size)
        key : Tensor of shape (batch or 1, heads or 1, key, head_dim + sum of key_size)
        """
        prefix = self.num_prefix
        maps = query[:, :, prefix:].unflatten(2, query_size)  # (batch, heads, *size, head_dim)
        scores = [self.axis_scores(maps, i, key_size[i]) for i in range(len(self.axes))]
        scores = ops.cat(scores, -1).flatten(2, -2) / self.scale  # `attend` multiplies by the scale
        units = place_units(tuple(key_size), key.dtype, key.device)
        if prefix:
            scores, units = ops.pad(scores, (0, 0, 1, 0)), ops.pad(units, (0, 0, 1, 0))
        units = units.expand(*key.shape[:2], *units.shape)
        return ops.cat([query, scores], -1), ops.cat([key, units], -1)

    def axis_scores(self, maps, i, keys):
        """Return the dot products of the queries and the relative-position vectors of one axis.

        Parameters
        ----------
        maps : Tensor of shape (batch, heads, *size, head_dim)
            Queries.
        i : int
            Index of the axis in `size`.
        keys : int
            Length of the axis in the keys' map.

        Returns
        -------
        Tensor of shape (batch, heads, *size, keys)
        """
        axes, axis, queries = self.axes, self.axes[i], maps.shape[2 + i]
        table = getattr(self, f"rel_pos_{axis}")
        if 2 * max(queries, keys) - 1 > table.shape[0]:
            raise ShapeError(
                "RelativePoolingAttention: the map is larger than its table of relative positions",
                got=f"{queries} queries and {keys} keys along axis {axis}",
                expected=f"at most {(table.shape[0] + 1) // 2}",
                hint="use inputs of size input_size, and make it divisible by the product of "
                "patch_stride and stride_q of all stages (32 by default)",
            )
        table = table[relative_distances(queries, keys, maps.device)]  # (query, key, head_dim)
        return ops.einsum(f"bn{axes}c,{axis}kc->bn{axes}k", maps, table)


class MViTv2(MViT):
    """MViTv2 as a classifier of images or videos.

    Parameters
    ----------
    input_size : tuple of int, default (224, 224)
        Size of an image or a clip. Use a multiple of the product of `patch_stride` and the
        `stride_q` of all stages (32 with the defaults), so that the size of no map is rounded.
    relative_positions, residual_pooling : bool, default True
        See `RelativePoolingAttention`.
    widens_early : bool, default True
        Whether the attention layer of a stage's first block changes the number of channels. If
        False, the feed-forward network of the previous stage's last block does, as in MViT.
    **options
        Arguments of `MViT`, with the defaults of MViTv2-S on images.

    References
    ----------
    .. [1] Li et al. 2022, arXiv:2112.01526v2, section 4.3 and Table 1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = MViTv2((16, 16), 10, embed_dim=8, depths=(1, 1), stride_kv=(2, 2), in_channels=1)
    >>> model(mt.zeros(5, 1, 16, 16)).shape
    (5, 10)
    """

    pools_every_query = True

    def __init__(
        self, input_size=(224, 224), num_classes=1000, embed_dim=96, depths=(1, 2, 11, 2),
        num_heads=1, *, patch_kernel=(7, 7), patch_stride=(4, 4), patch_padding=(3, 3),
        kernel=(3, 3), stride_q=(2, 2), stride_kv=(4, 4), class_token=False, positions=None,
        relative_positions=True, residual_pooling=True, widens_early=True, **options,
    ):  # fmt: skip
        self.widens_early = widens_early
        self.attention = {
            "relative_positions": relative_positions, "residual_pooling": residual_pooling,
        }  # fmt: skip
        super().__init__(
            input_size, num_classes, embed_dim, depths, num_heads, patch_kernel=patch_kernel,
            patch_stride=patch_stride, patch_padding=patch_padding, kernel=kernel,
            stride_q=stride_q, stride_kv=stride_kv, class_token=class_token, positions=positions,
            **options,
        )  # fmt: skip

    def make_block(self, *, size, **settings):
        attention_class = partial(RelativePoolingAttention, size=size, **self.attention)
        return MultiscaleBlock(
            **settings, attention_class=attention_class, widen_in_attention=self.widens_early,
            make_norm=self.make_norm,
        )  # fmt: skip


def mvitv2_t(**changes):
    """MViTv2-T: 10 blocks, 24,173,320 parameters. `changes` override the defaults."""
    return MViTv2(**{"depths": (1, 2, 5, 2), **changes})


def mvitv2_s(**changes):
    """MViTv2-S: 16 blocks, 34,870,216 parameters."""
    return MViTv2(**changes)


def mvitv2_b(**changes):
    """MViTv2-B: 24 blocks, 51,472,744 parameters."""
    return MViTv2(**{"depths": (2, 3, 16, 3), **changes})


def mvitv2_l(**changes):
    """MViTv2-L: 48 blocks, 217,992,952 parameters."""
    sizes = {"embed_dim": 144, "num_heads": 2, "depths": (2, 6, 36, 4), "widens_early": False}
    return MViTv2(**{**sizes, **changes})


def mvitv2_s_16x4(**changes):
    """MViTv2-S for clips of 16 frames (Kinetics-400): 34,537,744 parameters."""
    clips = {
        "input_size": (16, 224, 224), "num_classes": 400, "patch_kernel": (3, 7, 7),
        "patch_stride": (2, 4, 4), "patch_padding": (1, 3, 3), "kernel": (3, 3, 3),
        "stride_q": (1, 2, 2), "stride_kv": (1, 8, 8), "class_token": True, "dropout": 0.5,
    }  # fmt: skip
    return mvitv2_s(**{**clips, **changes})
