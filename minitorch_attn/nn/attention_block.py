"""Attention as the model families use it: projections, heads, masks, biases and a cache.

`MultiheadAttention` is PyTorch's class of that name, with its names and its polarity of masks.
`Attention` here is the house's own: one convention for masks, fewer key heads than query heads,
added biases, rotations and cached keys. The mathematics of both is in `ops/attention.py`.
"""

import math

from .. import ops
from ..errors import ArgumentError
from .linear import Linear
from .masks import Mask, causal
from .module import Module

__all__ = ["Attention"]


class Attention(Module):
    r"""context = softmax(scale query key^T + bias + mask) value, in several heads.

    Parameters
    ----------
    embed_dim : int
        Size of the input that asks.
    num_heads : int
    num_kv_heads : int, optional
        Heads of key and value, each shared by a group of query heads; by default `num_heads`.
    head_dim : int, optional
        By default embed_dim / num_heads.
    memory_dim : int, optional
        Size of the input that is attended to, where it is another one; by default `embed_dim`.
    bias : bool, default True
        Of the query, key and value projections.
    key_bias, out_bias : bool, optional
        Of the key projection and of the output projection alone; by default `bias`.
    scale : float, optional
        Factor of the scores, by default 1/sqrt(head_dim).
    dropout : float, default 0
        On the attention weights, while training.
    output_dim : int, optional
        By default `embed_dim`.

    Attributes
    ----------
    q_proj, k_proj, v_proj, out_proj : Linear
    weight_hooks : list of callable
        Each is called as `hook(attention, weights)` with the weights of every forward pass,
        (batch, heads, query, key). While there is one, the weights are computed in the open,
        operation by operation, and the context is made from just those.

    References
    ----------
    .. [1] Vaswani et al. 2017, arXiv:1706.03762v7, section 3.2.2.
    .. [2] Ainslie et al. 2023, arXiv:2305.13245v3, section 2.2: groups of query heads.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> attention = mt.nn.Attention(embed_dim=6, num_heads=2)
    >>> attention(mt.zeros(5, 3, 6), mask=mt.masks.causal(3)).shape
    (5, 3, 6)
    """

    def __init__(
        self, embed_dim, num_heads, *, num_kv_heads=None, head_dim=None, memory_dim=None,
        bias=True, key_bias=None, out_bias=None, scale=None, dropout=0.0, output_dim=None,
    ):  # fmt: skip
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if num_heads % num_kv_heads:
            raise ArgumentError(
                "Attention: the query heads cannot share the key heads equally.",
                got=f"num_heads={num_heads}, num_kv_heads={num_kv_heads}",
                expected="num_heads to be a multiple of num_kv_heads",
            )
        if head_dim is None and embed_dim % num_heads:
            raise ArgumentError(
                "Attention: the heads cannot share out embed_dim equally.",
                got=f"embed_dim={embed_dim}, num_heads={num_heads}",
                expected="embed_dim to be a multiple of num_heads, or head_dim to be given",
            )
        self.head_dim = embed_dim // num_heads if head_dim is None else head_dim
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.scale = 1.0 / math.sqrt(self.head_dim) if scale is None else scale
        self.dropout = dropout
        memory_dim = embed_dim if memory_dim is None else memory_dim
        key_bias = bias if key_bias is None else key_bias
        out_bias = bias if out_bias is None else out_bias
        inner, shared = num_heads * self.head_dim, num_kv_heads * self.head_dim
        self.q_proj = Linear(embed_dim, inner, bias=bias)
        self.k_proj = Linear(memory_dim, shared, bias=key_bias)
        self.v_proj = Linear(memory_dim, shared, bias=bias)
        self.out_proj = Linear(inner, embed_dim if output_dim is None else output_dim, out_bias)
        self.weight_hooks = []

    def forward(
        self, x, memory=None, *, mask=None, bias=None, is_causal=False, rotary=None, cache=None
    ):
        """Attend from each token of `x` to those of `memory`, or of `x` itself.

        Parameters
        ----------
        x : Tensor of shape (batch, query, embed)
        memory : Tensor of shape (batch, key, memory), optional
        mask : Mask or bool Tensor, optional
            Broadcasts to (batch, heads, query, key); True = may attend. A token that may attend
            to nothing gets a context of zeros.
        bias : float Tensor, optional
            Added to the scores; broadcasts to (batch, heads, query, key).
        is_causal : bool
            The queries are the last tokens of the keys, and each sees the keys up to itself.
        rotary : callable, optional
            Turns queries and keys, (batch, heads, token, head_dim), by their positions.
        cache : layer of a KVCache, optional
            Holds the keys and values of earlier tokens, and takes the new ones.

        Returns
        -------
        Tensor of shape (batch, query, output)
        """
        query = self._split(self.q_proj(x), self.num_heads)  # (batch, heads, query, head_dim)
        if cache is not None and cache.complete:
            key, value = cache.key, cache.value
        else:
            memory = x if memory is None else memory
            key = self._split(self.k_proj(memory), self.num_kv_heads)  # (batch, heads, key, ...)
            value = self._split(self.v_proj(memory), self.num_kv_heads)
            if rotary is not None:
                key = rotary(key)
            if cache is not None:
                key, value = cache.update(key, value)
        if rotary is not None:
            query = rotary(query)
        context = self.attend(query, key, value, mask, bias, is_causal)
        return self.out_proj(self._merge(context))

    def _split(self, x, heads):
        # (batch, token, heads * head_dim) -> (batch, heads, token, head_dim)
        batch, tokens, _ = x.shape
        if tokens == 1:  # then the axes of tokens and heads are in either order as they lie
            return x.reshape(batch, heads, 1, self.head_dim)
        return x.reshape(batch, tokens, heads, self.head_dim).transpose(1, 2)

    def _merge(self, x):
        # (batch, heads, token, head_dim) -> (batch, token, heads * head_dim)
        batch, heads, tokens, head_dim = x.shape
        if tokens > 1:
            x = x.transpose(1, 2)
        return x.reshape(batch, tokens, heads * head_dim)

    def attend(self, query, key, value, mask=None, bias=None, is_causal=False):
        """The context of each query: its weighted mean of the values.

        Parameters
        ----------
        query : Tensor of shape (batch, heads, query, head_dim)
        key, value : Tensor of shape (batch, kv_heads, key, head_dim)
        mask, bias, is_causal : as in `forward`

        Returns
        -------
        Tensor of shape (batch, heads, query, head_dim)
        """
        return self._weigh(query, key, value, self.scale, mask, bias, is_causal)

    def _weigh(self, query, key, value, scale, mask, bias, is_causal):
        """`attend` with a given factor of the scores."""
        queries, keys = query.shape[-2], key.shape[-2]
        mask = mask.attend if isinstance(mask, Mask) else mask
        if is_causal and queries != keys:
            is_causal = False
            if queries > 1:
                triangle = causal(queries, offset=keys - queries, device=query.device).attend
                mask = triangle if mask is None else mask & triangle
        if self.weight_hooks:
            return self._weigh_in_the_open(query, key, value, scale, mask, bias, is_causal)
        return ops.scaled_dot_product_attention(
            query, key, value, _merged(mask, bias), self.dropout if self.training else 0.0,
            is_causal, scale, enable_gqa=self.num_kv_heads != self.num_heads,
        )  # fmt: skip

    def _weigh_in_the_open(self, query, key, value, scale, mask, bias, is_causal):
        groups = query.shape[1] // key.shape[1]
        if groups > 1:
            key = key.repeat_interleave(groups, 1)  # (batch, heads, key, head_dim)
            value = value.repeat_interleave(groups, 1)
        scores = (query * scale) @ key.transpose(-2, -1)  # (batch, heads, query, key)
        if bias is not None:
            scores = scores + bias
        if is_causal:
            triangle = causal(query.shape[-2], device=query.device).attend
            mask = triangle if mask is None else mask & triangle
        weights = ops.masked_softmax(scores, mask)
        weights = ops.dropout(weights, self.dropout, training=self.training)
        for hook in self.weight_hooks:
            hook(self, weights)
        return weights @ value  # (batch, heads, query, head_dim)

    def extra_repr(self):
        groups = self.num_kv_heads != self.num_heads
        shared = f", num_kv_heads={self.num_kv_heads}" if groups else ""
        return f"num_heads={self.num_heads}, head_dim={self.head_dim}{shared}"


def _merged(mask, bias):
    """A bool mask and an added bias as one: the bias, and -inf where nothing may be attended to."""
    if mask is None or bias is None:
        return bias if mask is None else mask
    return ops.where(mask, bias, -math.inf)
