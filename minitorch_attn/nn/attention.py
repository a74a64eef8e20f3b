"""Multi-head attention layer: projections, heads, masks, biases and a KV cache.

The mathematics is in `ops/attention/`. The subclass `MultiheadAttention` has PyTorch's packed
weights. It also accepts PyTorch's masks, in which True means blocked.
"""

import math

from .. import ops
from ..computes import computes
from ..errors import ArgumentError
from ..named_errors import names_arguments
from ..ops.attention import attention_with_weights
from ..tensor import Tensor
from .linear import Linear, lay_side_by_side, project
from .masks import CompleteMask, Mask, causal
from .module import Module
from .sdpa_kernel import SDPBackend, sdpa_kernel  # noqa: F401  (PyTorch's nn.attention)

__all__ = ["Attention"]


class Attention(Module):
    r"""Multi-head attention: `softmax(scale query key^T + bias + mask) value` in each head.

    Parameters
    ----------
    embed_dim : int
        Embedding size of the query tokens.
    num_heads : int
        Number of query heads.
    num_kv_heads : int, optional
        Number of key and value heads. Each is shared by a group of query heads. Default:
        `num_heads`.
    head_dim : int, optional
        Size of a head. Default: embed_dim / num_heads.
    memory_dim : int, optional
        Embedding size of the key and value tokens. Default: `embed_dim`.
    bias : bool, default True
        Whether the query, key and value projections have a bias.
    key_bias, out_bias : bool, optional
        Whether the key projection and the output projection have a bias. Default: `bias`.
    scale : float, optional
        Factor applied to the scores. Default: 1/sqrt(head_dim).
    dropout : float, default 0
        Dropout probability of the attention weights, applied during training.
    output_dim : int, optional
        Size of the output. Default: `embed_dim`.

    Attributes
    ----------
    q_proj, k_proj, v_proj, out_proj : Linear
    weight_hooks : list of callable
        Functions that every forward pass calls as `hook(attention, weights)`, with weights of shape
        (batch, heads, query, key). If the list is not empty, attention is computed step by step,
        and the context is computed from these weights.

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
                "Attention: num_heads is not divisible by num_kv_heads",
                got=f"num_heads={num_heads}, num_kv_heads={num_kv_heads}",
                expected=f"a divisor of {num_heads} for num_kv_heads",
                hint="use num_kv_heads=1 to share one key and value head among all query heads",
            )
        if head_dim is None and embed_dim % num_heads:
            raise ArgumentError(
                "Attention: embed_dim is not divisible by num_heads",
                got=f"embed_dim={embed_dim}, num_heads={num_heads}",
                expected=f"a multiple of {num_heads} for embed_dim",
                hint="pass head_dim if num_heads * head_dim may differ from embed_dim",
            )
        head_dim = embed_dim // num_heads if head_dim is None else head_dim
        self._set_heads(num_heads, num_kv_heads, head_dim, scale, dropout)
        memory_dim = embed_dim if memory_dim is None else memory_dim
        key_bias = bias if key_bias is None else key_bias
        out_bias = bias if out_bias is None else out_bias
        inner, shared = num_heads * head_dim, num_kv_heads * head_dim
        self.q_proj = Linear(embed_dim, inner, bias=bias)
        self.k_proj = Linear(memory_dim, shared, bias=key_bias)
        self.v_proj = Linear(memory_dim, shared, bias=bias)
        self.out_proj = Linear(inner, embed_dim if output_dim is None else output_dim, out_bias)

    def _set_heads(self, num_heads, num_kv_heads, head_dim, scale, dropout):
        """Set the attributes for heads, scale and dropout, and create an empty `weight_hooks`."""
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, head_dim
        self.scale = 1.0 / math.sqrt(head_dim) if scale is None else scale
        self.dropout = dropout
        self.weight_hooks = []

    @computes("attention layer")
    def forward(
        self, x, memory=None, *, mask=None, bias=None, is_causal=False, rotary=None, cache=None
    ):
        """Let the tokens of `x` attend to the tokens of `memory` (default: `x`). Return the output.

        Parameters
        ----------
        x : Tensor of shape (batch, query, embed)
        memory : Tensor of shape (batch, key, memory), optional
        mask : Mask or bool Tensor, optional
            True where the query may attend to the key. Must broadcast to (batch, heads, query,
            key). A query without any allowed key gets a context of zeros.
        bias : float Tensor, optional
            Numbers added to the scores. Must broadcast to (batch, heads, query, key).
        is_causal : bool
            Whether each query attends only to keys up to its own position. The queries are at the
            positions of the last keys. With a cache, the queries are the tokens that are not yet in
            the cache.
        rotary : callable, optional
            Function that rotates queries and keys (batch, heads, token, head_dim) by position.
        cache : layer of a KVCache, optional
            Keys and values of earlier tokens. The call appends the new keys and values.

        Returns
        -------
        Tensor of shape (batch, query, output)
        """
        if cache is not None and cache.complete:
            query, key, value = self.q_proj(x), cache.key, cache.value
            query = self._split(query, self.num_heads)  # (batch, heads, query, head_dim)
        else:
            query, key, value = self._project_heads(x, memory)
            if rotary is not None:
                key = rotary(key)
            if cache is not None:
                key, value = cache.update(key, value)
                visible = getattr(cache, "visible", None)  # set only while a CUDA graph is captured
                if visible is not None:
                    mask = visible if mask is None else visible & mask
        if rotary is not None:
            query = rotary(query)
        context = self.attend(query, key, value, mask, bias, is_causal)
        return self.out_proj(self._merge(context))

    def _apply(self, convert):
        super()._apply(convert)
        lay_side_by_side(*[self._modules.get(name) for name in ("q_proj", "k_proj", "v_proj")])
        return self

    @computes("attention layer")
    def _project_heads(self, x, memory):
        """Project x to queries, and memory to keys and values. Split them into heads."""
        memory = x if memory is None else memory
        if memory is x and not self.weight_hooks:
            query, key, value = project(x, self.q_proj, self.k_proj, self.v_proj)
        else:  # separate products, because a loss of the weights alone does not depend on v_proj
            query, key, value = self.q_proj(x), self.k_proj(memory), self.v_proj(memory)
        query = self._split(query, self.num_heads)  # (batch, heads, query, head_dim)
        key = self._split(key, self.num_kv_heads)  # (batch, heads, key, head_dim)
        return query, key, self._split(value, self.num_kv_heads)

    @computes("splitting heads")
    def _split(self, x, heads):
        # (batch, token, heads * head_dim) -> (batch, heads, token, head_dim)
        batch, tokens, _ = x.shape
        if tokens == 1:  # the memory layout is the same before and after the transpose
            return x.reshape(batch, heads, 1, self.head_dim)
        return x.reshape(batch, tokens, heads, self.head_dim).transpose(1, 2)

    @computes("merging heads")
    def _merge(self, x):
        # (batch, heads, token, head_dim) -> (batch, token, heads * head_dim)
        batch, heads, tokens, head_dim = x.shape
        if tokens > 1:
            x = x.transpose(1, 2)
        return x.reshape(batch, tokens, heads * head_dim)

    @names_arguments
    def attend(self, query, key, value, mask=None, bias=None, is_causal=False):
        """Return each query's context, the weighted mean of the values.

        Parameters
        ----------
        query : Tensor of shape (batch, heads, query, head_dim)
        key, value : Tensor of shape (batch, kv_heads, key, head_dim)
        mask, bias, is_causal : as in `forward`

        Returns
        -------
        Tensor of shape (batch, heads, query, head_dim)
        """
        queries, keys = query.shape[-2], key.shape[-2]
        if isinstance(mask, CompleteMask):
            mask, is_causal = mask.values, False
        mask = mask.attend if isinstance(mask, Mask) else mask
        if isinstance(mask, Tensor) and mask.dtype.kind == "f":  # added to the scores
            mask, bias = None, mask if bias is None else bias + mask
        if is_causal and queries != keys:
            is_causal = False
            if queries > 1:
                triangle = causal(queries, offset=keys - queries, device=query.device).attend
                mask = triangle if mask is None else mask & triangle
        attention = self._show_weights if self.weight_hooks else self._context
        return attention(
            query, key, value, _merged(mask, bias), self.dropout if self.training else 0.0,
            is_causal, self.scale, enable_gqa=self.num_kv_heads != self.num_heads,
        )  # fmt: skip

    def _context(self, *arguments, **options):
        """Return each query's context. Layers that split the work across ranks override this."""
        return ops.scaled_dot_product_attention(*arguments, **options)

    def _show_weights(self, *arguments, **options):
        """Compute attention step by step, pass the weights to the hooks, and return the context."""
        return self._attend_with_weights(*arguments, **options)[0]

    def _attend_with_weights(self, *arguments, **options):
        context, weights = attention_with_weights(*arguments, **options)
        for hook in self.weight_hooks:
            hook(self, weights)
        return context, weights

    def extra_repr(self):
        groups = self.num_kv_heads != self.num_heads
        shared = f", num_kv_heads={self.num_kv_heads}" if groups else ""
        return f"num_heads={self.num_heads}, head_dim={self.head_dim}{shared}"


def _merged(mask, bias):
    """Combine mask and bias: if both are given, return the bias with -inf at the blocked keys."""
    if mask is None or bias is None:
        return bias if mask is None else mask
    return ops.where(mask, bias, -math.inf)
