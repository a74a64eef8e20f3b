"""Tensor parallelism: each rank has some of the heads and hidden features of every layer."""

from ... import ops
from ...autograd.modes import no_grad
from ...distributed import get_rank, get_world_size
from ...distributed.functional import (
    copy_to_ranks,
    gather_from_ranks,
    reduce_from_ranks,
    scatter_to_ranks,
)  # fmt: skip
from ...distributed.ring_attention import ALONE, ring_attention
from ...errors import ArgumentError
from ...named_errors import names_arguments
from ..attention import Attention
from ..dropout import Dropout
from ..feed_forward import FeedForward, GatedFeedForward
from ..linear import Linear
from ..masks import Mask
from ..module import Module
from ..parameter import Parameter
from .replace import replace_modules
from .split_dropout import SplitDropout

__all__ = [
    "ColumnParallelLinear", "RowParallelLinear", "SplitHeadsAttention", "gather_state_dict",
    "tensor_parallel",
]  # fmt: skip


class _SplitLinear(Module):
    """Base class of linear layers whose parameters are split among the ranks.

    Attributes
    ----------
    split_axes : dict
        Axis along which each split parameter is split, with parameter names as keys.
    """

    split_axes = {}

    def __init__(
        self, in_features, out_features, bias=True, *, group=None, device=None, dtype=None
    ):
        super().__init__()
        # Every rank draws the whole layer, so a seed gives the same parameters as in one process.
        self._take(Linear(in_features, out_features, bias, device, dtype), group)

    @classmethod
    def from_linear(cls, linear, group=None, **options):
        """Create the layer with the rank's part of an existing layer's parameters.

        Parameters
        ----------
        linear : Linear
            Layer to split, which is not changed. Its parameters must be equal on all ranks.
        group : ProcessGroup, optional
        **options
            Keyword arguments of the class, such as gather_output.
        """
        with no_grad():
            layer = cls(0, 0, False, group=ALONE, **options)  # without random initialization
        layer._take(linear, group)
        return layer

    def _take(self, linear, group):
        """Keep the rank's part of the parameters of `linear`."""
        self.group, self.in_features, self.out_features = (
            group, linear.in_features, linear.out_features,
        )  # fmt: skip
        rank, size = (0, 1) if group is ALONE else (get_rank(group), get_world_size(group))
        for name in ("weight", "bias"):
            whole, axis = getattr(linear, name), self.split_axes.get(name)
            if whole is not None and axis is not None:
                check_divisible(type(self).__name__, whole.shape[axis], size)
                part = whole.detach().chunk(size, axis)[rank] if size > 1 else whole.detach()
                whole = Parameter(part.clone(), whole.requires_grad)
            self.register_parameter(name, whole)

    def extra_repr(self):
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}, rank's weight {self.weight.shape}"
        )


class ColumnParallelLinear(_SplitLinear):
    r"""Linear layer whose output features are split among the ranks: Y_k = X A_k.

    Parameters
    ----------
    in_features, out_features : int
        Number of features of the whole layer. `out_features` must be a multiple of the number of
        ranks.
    bias : bool, default True
    group : ProcessGroup, optional
        Default: all ranks.
    gather_output : bool, default False
        Whether every rank gets the outputs of all ranks, concatenated.
    copy_input : bool, default True
        Whether this layer sums the gradient of the input over the ranks. Use False if the input has
        already passed through `copy_to_ranks`.

    Notes
    -----
    Shoeybi et al. 2019, arXiv:1909.08053v4, section 3. Rank k has the columns A_k of A. The
    columns of A are the rows of `weight`, which is A^T. X is equal on all ranks. Its gradient

        dL/dX = sum_k dL/dY_k A_k^T

    is a sum over the ranks, computed by the backward pass of `copy_to_ranks` (the paper's f).

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = mt.nn.parallel.ColumnParallelLinear(3, 8)  # doctest: +SKIP
    >>> layer(mt.zeros(2, 3)).shape  # on each of 4 ranks  # doctest: +SKIP
    (2, 2)
    """

    split_axes = {"weight": 0, "bias": 0}

    def __init__(
        self, in_features, out_features, bias=True, *, group=None, gather_output=False,
        copy_input=True, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(in_features, out_features, bias, group=group, device=device, dtype=dtype)
        self.gather_output, self.copy_input = gather_output, copy_input

    def forward(self, input):
        # input: (..., in_features), equal on all ranks -> (..., out_features / ranks)
        if self.copy_input:
            input = copy_to_ranks(input, self.group)
        output = ops.linear(input, self.weight, self.bias)
        return gather_from_ranks(output, -1, self.group) if self.gather_output else output


class RowParallelLinear(_SplitLinear):
    r"""Linear layer whose input features are split among the ranks: Y = sum_k X_k B_k.

    Parameters
    ----------
    in_features, out_features : int
        Number of features of the whole layer. `in_features` must be a multiple of the number of
        ranks.
    bias : bool, default True
        Whether the layer has a bias. Every rank has the whole bias, which is added once, to the sum
        of the products.
    group : ProcessGroup, optional
        Default: all ranks.
    input_is_parallel : bool, default True
        Whether the input is already split, as by ColumnParallelLinear. If not, it is split here.

    Notes
    -----
    Shoeybi et al. 2019, arXiv:1909.08053v4, section 3. A product X B is the sum of the products
    X_k B_k, where X_k are some columns of X, and B_k are the rows of B with the indices of these
    columns. With two layers and an elementwise activation f between them,

        Y = f(X A) B = f(X [A_1 ... A_N]) [B_1; ...; B_N]
          = [f(X A_1) ... f(X A_N)] [B_1; ...; B_N] = sum_k f(X A_k) B_k.

    A_k are the columns of A with the indices of the rows B_k. Rank k computes term k without
    communication. The sum is one all-reduce (the paper's g, `reduce_from_ranks`). If A were split
    by rows, the ranks would also have to compute a sum before the activation, because
    f(sum_k X_k A_k) is not sum_k f(X_k A_k).
    """

    split_axes = {"weight": 1}

    def __init__(
        self, in_features, out_features, bias=True, *, group=None, input_is_parallel=True,
        device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(in_features, out_features, bias, group=group, device=device, dtype=dtype)
        self.input_is_parallel = input_is_parallel

    def forward(self, input):
        # input: (..., in_features / ranks) -> (..., out_features), equal on all ranks
        if not self.input_is_parallel:
            input = scatter_to_ranks(input, -1, self.group)
        output = reduce_from_ranks(ops.linear(input, self.weight), self.group)
        return output if self.bias is None else output + self.bias


class SplitHeadsAttention(Attention):
    """Attention layer in which each rank computes some of the heads.

    Parameters
    ----------
    attention : Attention
        Layer to split, which is not changed. Its `num_heads` and `num_kv_heads` must be multiples
        of the number of ranks.
    group : ProcessGroup, optional
        Default: all ranks.

    Notes
    -----
    The heads are independent until the output projection B, which is linear in the concatenated
    contexts c_h. Let B_k be the rows of B that belong to the heads of rank k. Then

        Y = [c_1 ... c_H] B = sum_k [c_h, h on rank k] B_k,

    so self-attention needs one all-reduce in the forward pass (for Y) and one in the backward pass
    (for the gradient of X). `num_heads` is the number of heads on this rank. A key-value cache
    contains only the heads of this rank. The arguments `mask` and `bias` are for all heads, as in
    `Attention`.

    Dropout masks are the same as in a single process: each rank draws the entries of its own heads.
    """

    def __init__(self, attention, group=None):
        Module.__init__(self)
        rank, size = get_rank(group), get_world_size(group)
        for name in ("num_heads", "num_kv_heads"):
            check_divisible("SplitHeadsAttention", getattr(attention, name), size, name)
        self.group, self.part = group, (rank, size)
        self._set_heads(
            attention.num_heads // size, attention.num_kv_heads // size, attention.head_dim,
            attention.scale, attention.dropout,
        )  # fmt: skip
        for name in ("q_proj", "k_proj", "v_proj"):
            whole = getattr(attention, name)
            setattr(self, name, ColumnParallelLinear.from_linear(whole, group, copy_input=False))
        self.out_proj = RowParallelLinear.from_linear(attention.out_proj, group)

    def forward(self, x, memory=None, *, mask=None, bias=None, **options):
        """Return the attention output. Each rank computes some heads. See `Attention.forward`."""
        same, x = memory is None or memory is x, copy_to_ranks(x, self.group)
        memory = None if same else copy_to_ranks(memory, self.group)
        mask, bias = self._own_heads(mask), self._own_heads(bias)
        return super().forward(x, memory, mask=mask, bias=bias, **options)

    def _own_heads(self, mask):
        """Return the part of a mask or bias for the rank's heads."""
        values = mask.attend if isinstance(mask, Mask) else mask
        rank, size = self.part
        if values is None or values.ndim < 3 or values.shape[-3] == 1 or size == 1:
            return mask if values is None or not values.requires_grad else copy_to_ranks(
                values, self.group
            )  # fmt: skip
        if values.requires_grad:
            values = copy_to_ranks(values, self.group)
        return values.chunk(size, -3)[rank]

    def _context(self, query, key, value, mask, dropout_p, is_causal, scale, enable_gqa):
        if not dropout_p:
            return super()._context(
                query, key, value, mask, dropout_p, is_causal, scale, enable_gqa=enable_gqa
            )
        return ring_attention(  # without messages, but with the dropout masks of a single process
            query, key, value, mask, dropout_p, is_causal, scale, enable_gqa, group=ALONE,
            heads=self.part,
        )  # fmt: skip


class _SplitGatedFeedForward(GatedFeedForward):
    """Gated feed-forward network with split hidden features: Y = sum_k (f(X G_k) * X U_k) D_k.

    G_k, U_k and D_k are the parts of the gate, up and down projections on rank k.
    """

    def __init__(self, whole, group):
        Module.__init__(self)
        self.group, self.activation = group, whole.activation
        self.gate = ColumnParallelLinear.from_linear(whole.gate, group, copy_input=False)
        self.up = ColumnParallelLinear.from_linear(whole.up, group, copy_input=False)
        self.down = RowParallelLinear.from_linear(whole.down, group)
        self.dropout = _split_dropout(whole.dropout, group)

    def forward(self, x):
        return super().forward(copy_to_ranks(x, self.group))


def _split_feed_forward(whole, group):
    """Return a feed-forward network with split hidden features; see `RowParallelLinear`."""
    network = FeedForward.__new__(FeedForward)
    Module.__init__(network)
    network.linear1 = ColumnParallelLinear.from_linear(whole.linear1, group)
    network.activation = whole.activation
    network.dropout = _split_dropout(whole.dropout, group)
    network.linear2 = RowParallelLinear.from_linear(whole.linear2, group)
    return network


def _split_dropout(dropout, group):
    """Return a dropout layer like `dropout`, for hidden features that are split among the ranks.

    A module that is not a plain `Dropout` is returned unchanged.
    """
    if type(dropout) is not Dropout:
        return dropout
    rank, size = get_rank(group), get_world_size(group)
    return SplitDropout(dropout.p, -1, lambda n: ([slice(rank * n, rank * n + n)], size * n))


@names_arguments
def tensor_parallel(model, group=None):
    """Split the attention heads and hidden features of a model among the ranks, in place.

    Every `nn.Attention`, `nn.FeedForward` and `nn.GatedFeedForward` of the model is replaced.
    All other layers (embeddings, norms, the output layer) are not split. They compute the same
    values on every rank. A model that contains the three replaced types of layers, such as
    `models.GPT`, works without changes to its code.

    Parameters
    ----------
    model : Module
        Model to split. Its parameters must be equal on all ranks, so use the same `mt.manual_seed`.
        Create the optimizer after this call.
    group : ProcessGroup, optional
        Default: all ranks.

    Returns
    -------
    Module
        The same model.

    Raises
    ------
    ArgumentError
        If the model does not have a layer that can be split, or if a number of heads or hidden
        features is not divisible by the number of ranks. In either case, the model is unchanged.

    Notes
    -----
    Each split layer needs one all-reduce of (batch, token, embed) in the forward pass and one in
    the backward pass, so a block of two layers needs four. Every rank must have the same inputs and
    the same seed. The gradients of each rank's parameters are then complete without further
    communication. However, no single rank has all gradients, so `clip_grad_norm_` cannot compute
    their norm on one rank alone.

    Subclasses of the three replaced types, such as `nn.MultiheadAttention`, are not split.

    References
    ----------
    .. [1] "Megatron-LM", arXiv:1909.08053v4, section 3, Figures 3 and 4.
    """
    check_layers(model, get_world_size(group))
    if type(model) in _SPLIT:
        return _SPLIT[type(model)][1](model, group)
    replace_modules(model, lambda m: _SPLIT[type(m)][1](m, group) if type(m) in _SPLIT else None)
    return model


_SPLIT = {  # class -> (numbers that must be divisible, function that splits a layer)
    Attention: (
        lambda m: {"num_heads": m.num_heads, "num_kv_heads": m.num_kv_heads}, SplitHeadsAttention,
    ),
    FeedForward: (lambda m: {"hidden_dim": m.linear1.out_features}, _split_feed_forward),
    GatedFeedForward: (lambda m: {"hidden_dim": m.up.out_features}, _SplitGatedFeedForward),
}  # fmt: skip


_HINT = "use a number of ranks that divides it"


def check_layers(model, size, where="tensor_parallel", hint=_HINT):
    """Raise an error unless the layers of a model can be split among `size` ranks."""
    found = [(path, m) for path, m in model.named_modules() if type(m) in _SPLIT]
    if not found:
        raise ArgumentError(
            f"{where}: the model does not have a layer that can be split",
            got=type(model).__name__,
            expected="a model with nn.Attention, nn.FeedForward or nn.GatedFeedForward inside",
            hint="build layers with ColumnParallelLinear and RowParallelLinear",
        )
    for path, module in found:
        for name, number in _SPLIT[type(module)][0](module).items():
            check_divisible(where, number, size, name, f" of {path or 'the model'}", hint)


def check_divisible(where, number, size, name="the number of features", place="", hint=_HINT):
    """Raise an error unless `number` is divisible by the number of ranks."""
    if number % size:
        raise ArgumentError(
            f"{where}: {name}{place} is not divisible by the number of ranks",
            got=f"{number} for {size} ranks",
            expected=f"a multiple of {size}",
            hint=hint,
        )


@names_arguments
def gather_state_dict(model):
    """Return the state dict of the whole model, assembled from the parts of all ranks.

    Every rank must call this function, and every rank gets all values. Names and shapes are the
    same as before `tensor_parallel`, so the result can be loaded into a model that is not split.

    Parameters
    ----------
    model : Module

    Returns
    -------
    dict of str to Tensor
    """
    state = model.state_dict()
    with no_grad():
        for path, module in model.named_modules():
            for name, axis in getattr(module, "split_axes", {}).items():
                part = getattr(module, name)
                if part is not None:
                    whole = gather_from_ranks(part.detach(), axis, module.group)
                    state[f"{path}.{name}".lstrip(".")] = whole
    return state
