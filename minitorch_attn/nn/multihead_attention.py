"""MultiheadAttention with PyTorch's packed weights and masks, built on `Attention`."""

from functools import partial

from .. import ops
from ..computes import computes
from ..errors import ArgumentError, DTypeError, ShapeError
from ..named_errors import names_arguments
from ..tensor import Tensor
from . import init
from .attention import Attention
from .linear import Linear
from .masks import Mask, causal
from .module import Module
from .parameter import Parameter

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Attention):
    """Multi-head attention with the arguments, masks and parameter names of PyTorch's class.

    Parameters
    ----------
    embed_dim : int
        Size of the query and of the output, divided among the heads.
    num_heads : int
        Number of heads.
    dropout : float, default 0
        Dropout probability of the attention weights, applied during training.
    bias : bool, default True
        Whether the projections have a bias.
    add_bias_kv : bool
        Whether to append one learned key and value to each sequence.
    add_zero_attn : bool
        Whether to append one key and value of zeros.
    kdim, vdim : int, optional
        Sizes of the keys and of the values. Default: embed_dim.
    batch_first : bool, default False
        Whether inputs are (batch, token, embed) instead of (token, batch, embed).
    device, dtype : optional
        Device and dtype of the parameters.

    Notes
    -----
    Vaswani et al. 2017, arXiv:1706.03762v7, section 3.2.2: head_i = Attention(Q W_i^Q, K W_i^K,
    V W_i^V), and the output is the concatenated heads times W^O. The first embed_dim rows of
    `in_proj_weight` contain the transposed W_i^Q of all heads. The transposed W_i^K and W_i^V
    follow. If kdim or vdim differs from embed_dim, the layer has three separate parameters instead.

    As in PyTorch, a query that cannot attend to any key gives NaN with `need_weights=True`, and a
    context of zeros with `need_weights=False`.

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
        Module.__init__(self)  # not Attention.__init__: the weights are packed
        _check_heads(embed_dim, num_heads)
        self._set_heads(num_heads, num_heads, embed_dim // num_heads, None, dropout)
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.batch_first, self.add_zero_attn = batch_first, add_zero_attn

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

    @computes("attention layer")
    def forward(
        self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
        average_attn_weights=True, is_causal=False,
    ):  # fmt: skip
        """Return the attention output for each query, and the attention weights.

        Parameters
        ----------
        query : Tensor of shape (batch, query, embed), (query, batch, embed) or (query, embed)
            Queries. The first shape is for `batch_first=True`, the third shape is for unbatched
            input.
        key, value : Tensor of shape (batch, key, kdim) and (batch, key, vdim)
            Keys and values. The order of their axes must be the same as for `query`.
        key_padding_mask : Tensor of shape (batch, key) or (key,), or Mask, optional
            Keys to block. A bool tensor is True where a key is blocked. Floats are added to the
            scores.
        need_weights : bool, default True
            Whether to return the attention weights. If True, attention is computed step by step,
            without a fused kernel.
        attn_mask : Tensor of shape (query, key) or (batch * heads, query, key), or Mask, optional
            Pairs to block. A bool tensor is True where attention is blocked. Floats are added to
            the scores.
        average_attn_weights : bool, default True
            Whether to average the returned weights over the heads.
        is_causal : bool
            Whether to block later keys. Unlike in PyTorch, `attn_mask` is not required. If it is
            given, it must be the causal mask.

        Returns
        -------
        output : Tensor of the same shape as `query`
        weights : Tensor of shape (batch, query, key) or (batch, heads, query, key), or None
            Attention weights after dropout, averaged over the heads or for each head. None with
            `need_weights=False`.
        """
        self._check_inputs(query, key, value)
        batched = query.ndim == 3
        query, key, value = map(self._split_layout, self._project(query, key, value))
        key, value = self._replaced("static_k", key), self._replaced("static_v", value)
        is_causal = is_causal or getattr(attn_mask, "is_causal", False)
        alone = not (need_weights or self._appended or key_padding_mask is not None)
        alone = alone and query.shape[2] == key.shape[2]
        if is_causal and attn_mask is None and not alone:
            attn_mask = causal(query.shape[2], key.shape[2], device=query.device)
        mask = self._merge_masks(attn_mask, key_padding_mask, query, key)
        if is_causal and alone:
            mask = None  # the fused kernel applies the causal mask itself
        key, value = self._append(key, value)
        weights = None
        if need_weights:
            context, weights = self._attend_with_weights(
                query, key, value, mask, self.dropout if self.training else 0.0,
                nan_if_blocked=True,
            )  # fmt: skip
            weights = weights.mean(1) if average_attn_weights else weights
            weights = weights if batched else weights.squeeze(0)
        else:
            context = self.attend(query, key, value, mask, is_causal=is_causal and alone)
        context = self._merge(context)  # (batch, query, embed)
        if not batched:
            context = context.squeeze(0)
        elif not self.batch_first:
            context = context.transpose(0, 1)
        return self.out_proj(context), weights

    def _project(self, query, key, value):
        """Compute W^Q query, W^K key and W^V value, each of shape (..., embed)."""
        if self.in_proj_weight is None:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        elif query is key and key is value:  # one product instead of three
            return ops.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        else:
            weights = self.in_proj_weight.chunk(3)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        inputs = (query, key, value)
        return [ops.linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True)]

    def _split_layout(self, x):
        # (batch, token, embed) or (token, batch, embed) or (token, embed)
        if x.ndim == 2:
            x = x.unsqueeze(0)
        elif not self.batch_first:
            x = x.transpose(0, 1)
        return self._split(x, self.num_heads)  # (batch, heads, token, head_dim)

    static_k = static_v = None  # set by multi_head_attention_forward, which is defined below

    def _replaced(self, name, projected):
        """Return the argument `static_k` or `static_v` (given by `name`), split into heads.

        If the caller did not pass this argument, return `projected`.
        """
        given = getattr(self, name)
        if given is None:
            return projected
        batch, heads, _, head_dim = projected.shape
        if given.ndim != 3 or given.shape[::2] != (batch * heads, head_dim):
            raise ShapeError(
                f"multi_head_attention_forward: the shape of {name} does not match the heads",
                got=f"{name} {given.shape}",
                expected=f"(batch * heads, key, head_dim) = ({batch * heads}, key, {head_dim})",
            )
        return given.reshape(batch, heads, -1, head_dim)

    @property
    def _appended(self):
        """Number of keys appended to each sequence."""
        return (self.bias_k is not None) + bool(self.add_zero_attn)

    def _append(self, key, value):
        """Append extra positions to the keys and values, if the layer has them.

        With `bias_k` and `bias_v`, a learned key and value are appended. With `add_zero_attn`, a
        key and a value of zeros are appended.
        """
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
        """Combine both masks into a bool mask (True = may attend), a float mask to add, or None."""
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
                raise DTypeError(
                    f"{name}: {label} is not a tensor",
                    got=type(x).__name__,
                    hint=f"mt.tensor({label})",
                )
            if x.ndim not in (2, 3) or x.ndim != query.ndim or x.shape[-1] != size:
                others = "" if x is query else f", query {query.shape}"
                raise ShapeError(
                    f"{name}: the shape of {label} does not match the layer",
                    got=f"{label} {x.shape}{others}",
                    expected=f"({axes}, {size}), or (token, {size}) if all inputs are unbatched",
                    hint=f"pass a {label} whose last axis has size {argument}",
                )
        batch = 0 if self.batch_first else 1
        if key.shape[:-1] != value.shape[:-1]:
            raise ShapeError(
                f"{name}: key and value must have the same number of tokens",
                got=f"key {key.shape}, value {value.shape}",
                expected="equal shapes, except for the last axis",
                hint="compute key and value from the same tokens",
            )
        if query.ndim == 3 and query.shape[batch] != key.shape[batch]:
            raise ShapeError(
                f"{name}: query and key must have the same batch size",
                got=f"query {query.shape}, key {key.shape}, batch_first={self.batch_first}",
                expected=f"the same length of axis {batch}",
                hint="use batch_first=True if the batch is the first axis",
            )


@names_arguments
def multi_head_attention_forward(
    query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v,
    add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None,
    need_weights=True, attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None,
    k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None,
    average_attn_weights=True, is_causal=False,
):  # fmt: skip
    """Multi-head attention as a function: `MultiheadAttention` with the parameters as arguments.

    Parameters
    ----------
    query, key, value : Tensor of shape (token, batch, embed) or (token, embed)
    embed_dim_to_check : int
        Size of the query. The last axis of `query` must have this size.
    num_heads : int
    in_proj_weight : Tensor of shape (3 * embed, embed), or None with separate weights
    in_proj_bias : Tensor of shape (3 * embed,), or None
    bias_k, bias_v : Tensor of shape (1, 1, embed), or None
        A key and a value to append to each sequence.
    add_zero_attn : bool
        Whether to append a key and a value of zeros.
    dropout_p : float
        Dropout probability of the attention weights, if `training` is True.
    out_proj_weight, out_proj_bias : Tensor of shape (embed, embed) and (embed,); None for no bias
    training : bool
    use_separate_proj_weight : bool
        Whether to use the next three arguments instead of `in_proj_weight`.
    q_proj_weight, k_proj_weight, v_proj_weight : Tensor of shape (embed, size of the input)
    static_k, static_v : Tensor of shape (batch * heads, key, head_dim), optional
        Projected keys and values to use instead of projecting `key` and `value`.
    key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
        See `MultiheadAttention.forward`.

    Returns
    -------
    output : Tensor of the same shape as `query`
    weights : Tensor of shape (batch, query, key) or (batch, heads, query, key), or None
        See `MultiheadAttention.forward`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> x, eye = mt.zeros(3, 5, 4), mt.eye(4)
    >>> output, weights = multi_head_attention_forward(
    ...     x, x, x, 4, 2, mt.cat([eye] * 3), None, None, None, False, 0.0, eye, None)
    >>> output.shape, weights.shape
    ((3, 5, 4), (5, 3, 3))
    """
    if bias_k is not None and not (static_k is None and static_v is None):
        raise ArgumentError(
            "multi_head_attention_forward: bias_k cannot be appended to static_k or static_v",
            got="bias_k together with static_k or static_v",
            hint="append bias_k to static_k and bias_v to static_v before the call",
        )
    _check_heads(embed_dim_to_check, num_heads)
    layer = MultiheadAttention.__new__(MultiheadAttention)
    Module.__init__(layer)  # without its own parameters
    layer._set_heads(num_heads, num_heads, embed_dim_to_check // num_heads, None, dropout_p)
    packed = (q_proj_weight, k_proj_weight, v_proj_weight)
    if not use_separate_proj_weight:
        packed = (None,) * 3
    layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight = packed
    layer.in_proj_weight = None if use_separate_proj_weight else in_proj_weight
    sizes = [embed_dim_to_check if w is None else w.shape[-1] for w in packed]
    layer.embed_dim, layer.kdim, layer.vdim = sizes
    layer.in_proj_bias, layer.bias_k, layer.bias_v = in_proj_bias, bias_k, bias_v
    layer.add_zero_attn, layer.batch_first, layer.training = add_zero_attn, False, training
    layer.static_k, layer.static_v = static_k, static_v
    layer.out_proj = partial(ops.linear, weight=out_proj_weight, bias=out_proj_bias)
    return layer(
        query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights,
        is_causal,
    )  # fmt: skip


def _read_mask(name, mask, shapes, sizes, query):
    """Convert a mask to a 4-d tensor: bool (True = may attend), or floats to add to the scores."""
    if mask is None:
        return None
    if isinstance(mask, Mask):
        shape = (1,) * (4 - len(mask.shape)) + mask.shape
        if any(n not in (1, size) for n, size in zip(shape, sizes, strict=True)):
            raise ShapeError(
                f"MultiheadAttention: the Mask in {name} does not broadcast to the scores",
                got=f"{mask.shape}",
                expected=f"a shape that broadcasts to (batch, heads, query, key) = {sizes}",
                hint="use masks.causal(queries, keys) or masks.padding(lengths, max_len=keys)",
            )
        return mask.to(query.device).attend.reshape(shape)
    if not isinstance(mask, Tensor) or mask.dtype.kind not in "bf":
        raise DTypeError(
            f"MultiheadAttention: {name} must be a boolean or floating-point tensor",
            got=f"{getattr(mask, 'dtype', type(mask).__name__)}",
            expected="bool, True = blocked; or floats to be added to the scores",
            hint="use mask == 0 if 1 means that a key may be attended to, or a Mask from mt.masks",
        )
    if mask.shape not in shapes:
        raise ShapeError(
            f"MultiheadAttention: the shape of {name} does not match query and key",
            got=f"{mask.shape}",
            expected=" or ".join(str(shape) for shape in shapes),
            hint="use a Mask from mt.masks, which broadcasts to (batch, heads, query, key)",
        )
    mask = mask.reshape(shapes[mask.shape])
    return ~mask if mask.dtype.kind == "b" else mask.to(dtype=query.dtype)


def _additive(mask, dtype):
    """Convert a bool mask (True = may attend) to 0 and -inf; return a float mask unchanged."""
    return mask if mask.dtype.kind == "f" else Mask(mask).additive(dtype)


def _check_heads(embed_dim, num_heads):
    if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
        most = min(embed_dim, 10_000)  # otherwise, a typo in embed_dim could hang the program
        divisors = [n for n in range(1, most + 1) if embed_dim % n == 0]
        raise ArgumentError(
            "MultiheadAttention: embed_dim is not divisible by num_heads",
            got=f"embed_dim={embed_dim}, num_heads={num_heads}",
            expected="embed_dim divisible by num_heads, both positive",
            hint=f"set num_heads to one of {divisors}" if 0 < len(divisors) <= 16 else None,
        )
