"""Multi-head attention: projections, heads, masks; the mathematics is in `ops/attention.py`."""

import math

from .. import ops
from ..errors import ArgumentError, DTypeError, ShapeError
from ..tensor import Tensor
from . import init
from .linear import Linear
from .masks import Mask, causal
from .module import Module
from .parameter import Parameter

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention in several heads at once, as PyTorch's class of that name.

    Parameters
    ----------
    embed_dim : int
        Size of the query and of the output; shared out among the heads.
    num_heads : int
    dropout : float, default 0
        On the attention weights, while training.
    bias : bool, default True
        Of the projections.
    add_bias_kv : bool
        Append one learned key and value to each sequence.
    add_zero_attn : bool
        Append one key and value of zeros.
    kdim, vdim : int, optional
        Sizes of key and value, by default embed_dim.
    batch_first : bool, default False
        Inputs are (batch, token, embed) instead of (token, batch, embed).
    device, dtype : optional
        Of the parameters.

    Notes
    -----
    Vaswani et al. 2017, arXiv:1706.03762v7, section 3.2.2: head_i = Attention(Q W_i^Q, K W_i^K,
    V W_i^V), and the heads side by side times W^O. Rows [0, E) of `in_proj_weight` hold all W^Q
    transposed, then come W^K and W^V; where kdim or vdim differ they are three parameters.

    A query that may attend to nothing gives NaN with `need_weights=True` and a context of zeros
    with `need_weights=False`, as in PyTorch.

    References
    ----------
    .. [1] "Attention Is All You Need", arXiv:1706.03762v7, section 3.2.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> attention = mt.nn.MultiheadAttention(embed_dim=6, num_heads=2, batch_first=True)
    >>> x = mt.zeros(5, 3, 6)
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    ((5, 3, 6), (5, 3, 3))
    """

    def __init__(
        self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False,
        add_zero_attn=False, kdim=None, vdim=None, batch_first=False, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        _check_heads(embed_dim, num_heads)
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn

        def parameter(wanted, *shape):
            return Parameter(ops.empty(*shape, device=device, dtype=dtype)) if wanted else None

        same = self.kdim == self.vdim == embed_dim
        self.register_parameter("in_proj_weight", parameter(same, 3 * embed_dim, embed_dim))
        self.register_parameter("q_proj_weight", parameter(not same, embed_dim, embed_dim))
        self.register_parameter("k_proj_weight", parameter(not same, embed_dim, self.kdim))
        self.register_parameter("v_proj_weight", parameter(not same, embed_dim, self.vdim))
        self.register_parameter("in_proj_bias", parameter(bias, 3 * embed_dim))
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.register_parameter("bias_k", parameter(add_bias_kv, 1, 1, embed_dim))
        self.register_parameter("bias_v", parameter(add_bias_kv, 1, 1, embed_dim))
        self._reset_parameters()

    def _reset_parameters(self):
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if self._parameters[name] is not None:
                init.xavier_uniform_(self._parameters[name])
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
            init.xavier_normal_(self.bias_v)

    def forward(
        self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
        average_attn_weights=True, is_causal=False,
    ):  # fmt: skip
        """Attend from each query to the keys.

        Parameters
        ----------
        query : Tensor of shape (batch, query, embed), (query, batch, embed) or (query, embed)
            The first with `batch_first=True`, the second without, the third unbatched.
        key, value : Tensor of shape (batch, key, kdim) and (batch, key, vdim), or alike
        key_padding_mask : Tensor of shape (batch, key) or (key,), or Mask, optional
            A bare bool tensor is True where the key is blocked; floats are added to the scores.
        need_weights : bool, default True
            Also return the attention weights, which takes the slower path that computes them.
        attn_mask : Tensor of shape (query, key) or (batch * heads, query, key), or Mask, optional
            A bare bool tensor is True where blocked; floats are added to the scores.
        average_attn_weights : bool, default True
            Return the mean of the weights over the heads.
        is_causal : bool
            Block later keys. Where `attn_mask` is given too, it must be the causal mask itself;
            unlike in PyTorch it may be left out.

        Returns
        -------
        output : Tensor of the shape of `query`
        weights : Tensor of shape (batch, query, key) or (batch, heads, query, key), or None
            After dropout, as in PyTorch. None with `need_weights=False`.
        """
        self._check_inputs(query, key, value)
        batched = query.ndim == 3
        query, key, value = map(self._split_heads, self._project(query, key, value))
        is_causal = is_causal or getattr(attn_mask, "is_causal", False)
        alone = not (need_weights or self._appended or key_padding_mask is not None)
        if is_causal and attn_mask is None and not alone:
            attn_mask = causal(query.shape[2], key.shape[2], device=query.device)
        mask = self._merge_masks(attn_mask, key_padding_mask, query, key)
        if is_causal and alone:
            mask = None  # the fused operation draws the triangle itself
        key, value = self._append(key, value)
        dropout_p = self.dropout if self.training else 0.0
        if need_weights:
            context, weights = _attend_with_weights(query, key, value, mask, dropout_p)
            weights = weights.mean(1) if average_attn_weights else weights
            weights = weights if batched else weights.squeeze(0)
        else:
            weights = None
            context = ops.scaled_dot_product_attention(
                query, key, value, mask, dropout_p, is_causal and alone
            )
        return self.out_proj(self._merge_heads(context, batched)), weights

    def _project(self, query, key, value):
        """W^Q query, W^K key and W^V value, each (..., embed)."""
        if self.in_proj_weight is None:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        elif query is key and key is value:  # one product instead of three
            return ops.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        else:
            weights = self.in_proj_weight.chunk(3)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        inputs = (query, key, value)
        return [ops.linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True)]

    def _split_heads(self, x):
        # (batch, token, embed) or (token, batch, embed) or (token, embed)
        x = x.reshape(*x.shape[:-1], self.num_heads, self.head_dim)
        if x.ndim == 3:
            return x.transpose(0, 1).unsqueeze(0)  # (1, heads, token, head_dim)
        # -> (batch, heads, token, head_dim)
        return x.transpose(1, 2) if self.batch_first else x.permute(1, 2, 0, 3)

    def _merge_heads(self, context, batched):
        # (batch, heads, query, head_dim)
        if not batched:
            context = context.squeeze(0).transpose(0, 1)  # (query, heads, head_dim)
        else:
            context = context.transpose(1, 2) if self.batch_first else context.permute(2, 0, 1, 3)
        return context.reshape(*context.shape[:-2], self.embed_dim)

    @property
    def _appended(self):
        """How many keys are appended to each sequence."""
        return (self.bias_k is not None) + bool(self.add_zero_attn)

    def _append(self, key, value):
        """Append the learned key and value, then those of zeros."""
        if not self._appended:
            return key, value
        # key, value: (batch, heads, key, head_dim)
        like = (key.shape[0], self.num_heads, 1, self.head_dim)
        keys, values = [key], [value]
        if self.bias_k is not None:
            own = (1, self.num_heads, 1, self.head_dim)
            keys.append(self.bias_k.reshape(own).expand(like))
            values.append(self.bias_v.reshape(own).expand(like))
        if self.add_zero_attn:
            zeros = ops.zeros(like, dtype=key.dtype, device=key.device)
            keys.append(zeros)
            values.append(zeros)
        return ops.cat(keys, 2), ops.cat(values, 2)

    def _merge_masks(self, attn_mask, key_padding_mask, query, key):
        """One mask out of two: bool, True = may attend, or floats to be added; or None."""
        # query: (batch, heads, query, head_dim)   key: (batch, heads, key, head_dim)
        batch, heads, queries, keys = sizes = (*query.shape[:3], key.shape[2])
        shapes = {(queries, keys): (1, 1, queries, keys), (batch * heads, queries, keys): sizes}
        mask = _read_mask("attn_mask", attn_mask, shapes, sizes, query)
        shapes = {(batch, keys): (batch, 1, 1, keys)}
        if batch == 1:
            shapes[(keys,)] = (1, 1, 1, keys)
        padding = _read_mask("key_padding_mask", key_padding_mask, shapes, sizes, query)
        if mask is None or padding is None:
            mask = padding if mask is None else mask
        elif mask.dtype.kind == padding.dtype.kind == "b":
            mask = mask & padding
        else:
            mask = _additive(mask, query.dtype) + _additive(padding, query.dtype)
        if mask is None or not self._appended:
            return mask
        return ops.pad(mask, (0, self._appended), value=float(mask.dtype.kind == "b"))

    def _check_inputs(self, query, key, value):
        name, axes = "MultiheadAttention", "batch, token" if self.batch_first else "token, batch"
        sizes = {"embed_dim": self.embed_dim, "kdim": self.kdim, "vdim": self.vdim}
        for x, label, (argument, size) in zip(
            (query, key, value), ("query", "key", "value"), sizes.items(), strict=True
        ):
            if not isinstance(x, Tensor):
                raise DTypeError(f"{name}: {label} is not a tensor.", got=type(x).__name__)
            if x.ndim not in (2, 3) or x.ndim != query.ndim or x.shape[-1] != size:
                others = "" if x is query else f", query {query.shape}"
                raise ShapeError(
                    f"{name}: {label} has the wrong shape.",
                    got=f"{label} {x.shape}{others}",
                    expected=f"({axes}, {size}), or (token, {size}) for all three",
                    hint=f"the last axis is {argument}, given when the layer was made",
                )
        batch = 0 if self.batch_first else 1
        if key.shape[:-1] != value.shape[:-1]:
            raise ShapeError(
                f"{name}: every key has one value.",
                got=f"key {key.shape}, value {value.shape}",
                expected="equal shapes but for the last axis",
            )
        if query.ndim == 3 and query.shape[batch] != key.shape[batch]:
            raise ShapeError(
                f"{name}: query and key have different batch sizes.",
                got=f"query {query.shape}, key {key.shape}, batch_first={self.batch_first}",
                expected=f"equal sizes of axis {batch}",
                hint="batch_first=True if the batch is the first axis",
            )


def _read_mask(name, mask, shapes, sizes, query):
    """A mask as a tensor of four axes: bool, True = may attend, or floats to be added."""
    if mask is None:
        return None
    if isinstance(mask, Mask):
        shape = (1,) * (4 - len(mask.shape)) + mask.shape
        if any(n not in (1, size) for n, size in zip(shape, sizes, strict=True)):
            raise ShapeError(
                f"MultiheadAttention: the Mask in {name} does not fit.",
                got=f"{mask.shape}",
                expected=f"a shape that broadcasts to (batch, heads, query, key) = {sizes}",
            )
        return mask.to(query.device).attend.reshape(shape)
    if not isinstance(mask, Tensor) or mask.dtype.kind not in "bf":
        raise DTypeError(
            f"MultiheadAttention: {name} has the wrong dtype.",
            got=f"{getattr(mask, 'dtype', type(mask).__name__)}",
            expected="a bool tensor, True = blocked, or floats to be added to the scores",
            hint="mask == 0 where 1 means that a key may be attended to; or a Mask from mt.masks",
        )
    if mask.shape not in shapes:
        raise ShapeError(
            f"MultiheadAttention: {name} has the wrong shape.",
            got=f"{mask.shape}",
            expected=" or ".join(str(shape) for shape in shapes),
            hint="a Mask from mt.masks broadcasts to (batch, heads, query, key)",
        )
    mask = mask.reshape(shapes[mask.shape])
    return ~mask if mask.dtype.kind == "b" else mask.to(dtype=query.dtype)


def _additive(mask, dtype):
    """A bool mask, True = may attend, as 0 and -inf."""
    return mask if mask.dtype.kind == "f" else Mask(mask).additive(dtype)


def _attend_with_weights(query, key, value, mask, dropout_p):
    """softmax(query key^T / sqrt(head_dim) + mask) value, and the weights."""
    # query: (batch, heads, query, head_dim)   key, value: (batch, heads, key, head_dim)
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)
    if mask is not None:
        additive = mask.dtype.kind == "f"
        scores = scores + mask if additive else scores.masked_fill(~mask, -math.inf)
    weights = ops.dropout(ops.softmax(scores, -1), dropout_p, training=dropout_p > 0)
    return weights @ value, weights  # (batch, heads, query, key) @ (batch, heads, key, head_dim)


def _check_heads(embed_dim, num_heads):
    if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
        divisors = [n for n in range(1, max(embed_dim, 0) + 1) if embed_dim % n == 0]
        raise ArgumentError(
            "MultiheadAttention: the heads cannot share out embed_dim equally.",
            got=f"embed_dim={embed_dim}, num_heads={num_heads}",
            expected="embed_dim divisible by num_heads, both positive",
            hint=f"num_heads one of {divisors}" if 0 < len(divisors) <= 16 else None,
        )
