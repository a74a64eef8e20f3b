"""Pooling attention: multi-head attention whose queries, keys and values are pooled over a map.

Fan et al. 2021, "Multiscale Vision Transformers", arXiv:2104.11227v1, section 3.1.
"""

import math
from functools import partial

from .. import nn, ops
from ..computes import computes
from ..errors import ArgumentError, ShapeError
from ..nn.conv import CONVOLVE
from ..nn.hooks import is_plain, is_taken_apart

__all__ = ["PoolingAttention", "pool_tokens"]

CONVOLUTIONS = {2: nn.Conv2d, 3: nn.Conv3d}
POOLS = {
    "max": {2: nn.MaxPool2d, 3: nn.MaxPool3d},
    "avg": {2: nn.AvgPool2d, 3: nn.AvgPool3d},
}


@computes("pooled tokens")
def pool_tokens(tokens, size, pool, num_prefix=0):
    """Pool the tokens of a map, such as an image's patches, but not the prefix tokens before it.

    Parameters
    ----------
    tokens : Tensor of shape (batch, prefix + position, channel)
        Prefix tokens, such as a class token, followed by the tokens of the map in row-major order.
    size : tuple of int
        Size of the map, (time, height, width) or (height, width).
    pool : callable
        Maps (batch, channel, *size) to (batch, channel, *new size).
    num_prefix : int, default 0
        Number of tokens before the map.

    Returns
    -------
    tokens : Tensor of shape (batch, prefix + new position, channel)
    size : tuple of int
        Size of the pooled map.

    Raises
    ------
    ShapeError
        If the number of tokens does not match `size`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> tokens, size = pool_tokens(mt.zeros(5, 1 + 4 * 6, 3), (4, 6), mt.nn.MaxPool2d(2), 1)
    >>> tokens.shape, size
    ((5, 7, 3), (2, 3))
    """
    batch, count, channels = tokens.shape
    if count != num_prefix + math.prod(size):
        raise ShapeError(
            "pool_tokens: the number of tokens does not match the size of the map",
            got=f"{count} tokens for a map of size {tuple(size)}",
            expected=f"{num_prefix} + {math.prod(size)} tokens",
            hint="pass the size that the previous block returned",
        )
    prefix, positions = ops.split(tokens, [num_prefix, count - num_prefix], 1)
    maps = pool(positions.transpose(1, 2).reshape(batch, channels, *size))
    pooled = maps.flatten(2).transpose(1, 2)  # (batch, new position, channel)
    return (ops.cat([prefix, pooled], 1) if num_prefix else pooled), maps.shape[2:]


def pool_separately(parts, size, pools, num_prefix=0):
    """Pool each head of each part on its own. The arguments are those of `pool_jointly`."""
    pooled, new_size = [], tuple(size)
    for pool, heads in zip(pools, parts.permute(2, 0, 3, 1, 4), strict=True):
        if not isinstance(pool, nn.Identity):
            # (batch, heads, token, head_dim) -> (batch * heads, token, head_dim)
            tokens, new_size = pool_tokens(heads.flatten(0, 1), size, pool, num_prefix)
            heads = tokens.unflatten(0, heads.shape[:2])
        pooled.append(heads)
    return pooled, new_size


def pool_jointly(parts, size, pools, num_prefix=0):
    """Pool all heads of all parts in one convolution.

    A depthwise convolution processes each channel separately, so the channels of all heads can be
    the channels of one map. This convolution does not need a copy of each head, and its innermost
    loop over the channels is longer. A training step of MViT takes 2 to 3 % less time
    (benchmarks/workloads/w9.py, on two cores of an AMD EPYC with Zen 4).

    Parameters
    ----------
    parts : Tensor of shape (batch, prefix + position, part, heads, head_dim)
        For example, the two parts are the keys and the values.
    size : tuple of int
        Size of the map.
    pools : list of Module
        One depthwise convolution for each part, all with the same settings. It maps
        (batch, head_dim, *size) to (batch, head_dim, *new size).
    num_prefix : int, default 0
        Number of tokens before the map.

    Returns
    -------
    parts : list of Tensor of shape (batch, heads, prefix + new position, head_dim)
    size : tuple of int
        Size of the pooled map.
    """
    first, heads = pools[0], parts.shape[3]
    kernels = [p.weight.expand(heads, *p.weight.shape).flatten(0, 1) for p in pools]
    pool = partial(
        CONVOLVE[first.axes], weight=ops.cat(kernels), stride=first.stride, padding=first.padding,
        groups=len(pools) * len(kernels[0]),
    )  # fmt: skip
    tokens, size = pool_tokens(parts.flatten(2), size, pool, num_prefix)
    return [*tokens.unflatten(2, parts.shape[2:]).permute(2, 0, 3, 1, 4)], size


class PoolingAttention(nn.Attention):
    r"""Multi-head pooling attention, `softmax(Q K^T / sqrt(head_dim)) V` of pooled Q, K and V.

    In each head, `Q = P(x W_Q)`, `K = P(x W_K)` and `V = P(x W_V)` (Eqs. 1 and 2). The pooling P is
    a depthwise convolution that the heads share, followed by a layer norm. The class token is
    not pooled, but it is normalized.

    Parameters
    ----------
    embed_dim, num_heads : int
    kernel_q, kernel_kv : tuple of int, default (1, 1, 1)
        Pooling windows of the queries, and of the keys and values: one number for each map axis.
    stride_q, stride_kv : tuple of int, default (1, 1, 1)
        Strides from window to window. Where kernel and stride are all 1, there is no pooling.
    qkv_bias : bool, default True
    class_token : bool, default True
        Whether the first token is a class token.
    output_dim : int, optional
        Size of the output, and total size of all heads. Default: `embed_dim`.
    pooling : {"conv", "max", "avg"}, default "conv"
        Type of pooling. Only "conv" has parameters and a norm.
    make_norm : callable, optional
        Function that makes the norm of a head, given its size. Default: `LayerNorm` with eps 1e-6.

    References
    ----------
    .. [1] Fan et al. 2021, arXiv:2104.11227v1, section 3.1. The convolution is L_p in Table 6.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> attention = PoolingAttention(
    ...     6, 2, kernel_q=(3, 3, 3), stride_q=(1, 2, 2), kernel_kv=(3, 3, 3), stride_kv=(1, 2, 2)
    ... )
    >>> output, size = attention(mt.zeros(5, 1 + 2 * 4 * 4, 6), (2, 4, 4))
    >>> output.shape, size
    ((5, 9, 6), (2, 2, 2))
    """

    def __init__(
        self, embed_dim, num_heads, kernel_q=(1, 1, 1), kernel_kv=(1, 1, 1), stride_q=(1, 1, 1),
        stride_kv=(1, 1, 1), qkv_bias=True, class_token=True, *, output_dim=None, pooling="conv",
        make_norm=None,
    ):  # fmt: skip
        nn.Module.__init__(self)  # not Attention.__init__, which makes separate projections
        output_dim = embed_dim if output_dim is None else output_dim
        if output_dim % num_heads:
            raise ArgumentError(
                "PoolingAttention: the output size is not divisible by num_heads",
                got=f"output size {output_dim}, num_heads={num_heads}",
            )
        self._set_heads(num_heads, num_heads, output_dim // num_heads, None, 0.0)
        self.num_prefix = int(class_token)
        self.qkv = nn.Linear(embed_dim, 3 * output_dim, bias=qkv_bias)
        self.proj = nn.Linear(output_dim, output_dim)
        windows = {"q": (kernel_q, stride_q), "k": (kernel_kv, stride_kv)}
        for name in "qkv":
            self._add_pool(name, *windows.get(name, windows["k"]), pooling, make_norm)

    def _add_pool(self, name, kernel, stride, pooling, make_norm):
        kernel, stride = tuple(kernel), tuple(stride)
        pool = norm = nn.Identity()
        if max(kernel + stride) > 1:
            padding, channels = tuple(n // 2 for n in kernel), self.head_dim
            if pooling == "conv":
                pool = CONVOLUTIONS[len(kernel)](
                    channels, channels, kernel, stride, padding, groups=channels, bias=False
                )
                norm = (make_norm or layer_norm)(channels)
            else:
                pool = pools_named(pooling)[len(kernel)](kernel, stride, padding)
        self.add_module(f"pool_{name}", pool)
        self.add_module(f"norm_{name}", norm)

    @computes("attention layer")
    def forward(self, x, size):
        """Attend from the pooled queries of `x` to its pooled keys and values.

        Parameters
        ----------
        x : Tensor of shape (batch, [1 +] position, embed)
            Tokens of the map in row-major order, after the class token if there is one ("1 +").
        size : tuple of int
            Size of the map, (time, height, width) or (height, width).

        Returns
        -------
        output : Tensor of shape (batch, [1 +] new position, output)
        size : tuple of int
            Size of the map of the pooled queries.
        """
        batch, tokens, _ = x.shape
        projected = self.qkv(x).reshape(batch, tokens, 3, self.num_heads, self.head_dim)
        query, key_and_value = ops.split(projected, [1, 2], 2)
        (query,), query_size = self.pool(query, size, "q")
        (key, value), key_size = self.pool(key_and_value, size, "kv")
        context = self.mix(query, key, value, query_size, key_size)
        return self.proj(self._merge(context)), query_size

    @computes("pooled tokens")
    def pool(self, parts, size, names):
        """Pool and normalize the queries, or the keys and the values.

        Parameters
        ----------
        parts : Tensor of shape (batch, [1 +] position, part, heads, head_dim)
            Tokens of the map, after the class token if there is one ("1 +").
        size : tuple of int
            Size of the map.
        names : str
            "q" for one part, the queries, or "kv" for two parts, the keys and the values.

        Returns
        -------
        parts : list of Tensor of shape (batch, heads, [1 +] new position, head_dim)
        size : tuple of int
            Size of the pooled map.
        """
        pools = [getattr(self, f"pool_{name}") for name in names]
        norms = [getattr(self, f"norm_{name}") for name in names]
        pool_parts = pool_jointly if _can_join(pools) else pool_separately
        parts, size = pool_parts(parts, size, pools, self.num_prefix)
        return [norm(part) for norm, part in zip(norms, parts, strict=True)], size

    def mix(self, query, key, value, query_size, key_size):
        """Return the context of each pooled query, (batch, heads, query, head_dim)."""
        return self.attend(query, key, value)


def _can_join(pools):
    """Return True if `pool_jointly` computes what the modules compute one by one."""
    if is_taken_apart() or not all(map(_is_depthwise, pools)):
        return False
    return len({(pool.weight.shape, pool.stride, pool.padding) for pool in pools}) == 1


def _is_depthwise(pool):
    """Return True for a depthwise convolution with the settings of `PoolingAttention._add_pool`."""
    return (
        any(is_plain(pool, kind) for kind in CONVOLUTIONS.values())
        and pool.groups == pool.in_channels == pool.out_channels
        and pool.bias is None
        and pool.padding_mode == "zeros"
        and max(pool.dilation) == 1
    )


def layer_norm(channels):
    """Return the layer norm of MViT, with an epsilon of 1e-6."""
    return nn.LayerNorm(channels, eps=1e-6)


def pools_named(pooling):
    """Return the 2D and 3D layer classes of a pooling type, such as those of "max"."""
    known = {"conv": CONVOLUTIONS, **POOLS}
    if pooling not in known:
        raise ArgumentError(
            "MViT: the type of pooling is invalid",
            got=repr(pooling), expected=f"one of {', '.join(known)}",
        )  # fmt: skip
    return known[pooling]
