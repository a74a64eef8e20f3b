"""Sequence parallelism: each rank has some of the tokens of every sequence."""

from ... import ops
from ...autograd.modes import no_grad
from ...distributed import all_reduce, get_rank, get_world_size
from ...distributed.functional import all_gather, reduce_from_ranks
from ...distributed.ring_attention import ring_attention
from ...distributed.sequence_order import join_sequence, sequence_slices, split_sequence
from ...errors import ArgumentError
from ..attention import Attention
from ..dropout import Dropout
from ..module import Module
from .replace import replace_modules
from .split_dropout import SplitDropout

__all__ = ["RingAttention", "SequenceParallel"]


class RingAttention(Attention):
    """Attention layer for a sequence whose tokens are split among the ranks.

    Parameters
    ----------
    attention : Attention
        Layer whose parameters the new layer shares.
    group : ProcessGroup, optional
        Default: all ranks.
    order : {"zigzag", "contiguous"}, default "zigzag"
        Order that determines which tokens a rank has; see `distributed.sequence_slices`.

    Notes
    -----
    The projections process every token separately, so only `attend` differs from `Attention`. It
    calls `ring_attention`. A mask or bias must have entries for the rank's own queries (or for all
    queries) and for all keys. `rotary` must use the positions of the rank's tokens. A key-value
    cache and hooks on the attention weights (`weight_hooks`) are not supported.
    """

    def __init__(self, attention, group=None, order="zigzag"):
        Module.__init__(self)
        self.group, self.order = group, order
        self._set_heads(
            attention.num_heads, attention.num_kv_heads, attention.head_dim, attention.scale,
            attention.dropout,
        )  # fmt: skip
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, getattr(attention, name))

    def forward(self, x, memory=None, *, cache=None, **options):
        """Attend from the rank's tokens to the tokens of all ranks. See `Attention.forward`."""
        if cache is None:
            return super().forward(x, memory, **options)
        raise ArgumentError(
            "RingAttention: a key-value cache is not supported",
            hint="generate with the model before splitting it",
        )

    def attend(self, query, key, value, mask=None, bias=None, is_causal=False):
        """Return the context of the rank's queries; see `Attention.attend`."""
        if self.weight_hooks:
            raise ArgumentError(
                "RingAttention: weight hooks are not supported, because no rank has all weights",
                hint="remove the hooks, or inspect the model before splitting it",
            )
        if is_causal and query.shape[-2] != key.shape[-2]:
            raise ArgumentError(
                "RingAttention: causal attention must have the same number of queries and keys",
                got=f"{query.shape[-2]} queries and {key.shape[-2]} keys on a rank",
            )
        return super().attend(query, key, value, mask, bias, is_causal)

    def _context(self, *arguments, **options):
        return ring_attention(*arguments, **options, group=self.group, order=self.order)


class SequenceParallel(Module):
    """Language model whose sequences are split among the ranks, to train on long sequences.

    The attention and dropout layers of the given model are replaced in place. For long sequences,
    activations need most of the memory. Each rank stores all parameters, but only the activations
    of its own tokens.

    Parameters
    ----------
    model : Module
        Model with the methods `embed(ids, start)`, `decode(x)` and `head(x)`, such as `models.GPT`.
        Its parameters must be equal on all ranks, so use the same `mt.manual_seed`.
    group : ProcessGroup, optional
        Default: all ranks.
    order : {"zigzag", "contiguous"}, default "zigzag"
        Order that determines which tokens a rank has. With "zigzag", all ranks have the same amount
        of work under a causal mask.

    Raises
    ------
    ArgumentError
        If the model does not have the methods `embed`, `decode` and `head`, or does not contain an
        `nn.Attention`.

    Notes
    -----
    Every rank gets the whole batch of ids and selects its own tokens. One step is

        loss = model.loss(ids, targets)
        loss.backward()
        model.sum_gradients()
        optimizer.step()

    The loss is the mean over the T tokens of all ranks, L = (1/T) sum_r sum_{t on r} loss_t. Rank r
    backpropagates its own term. This term depends on the keys and values of all ranks, so
    `ring_attention` sends the gradients of each key and value back to the rank that computed
    it. Every rank uses a parameter w only for its own tokens, so dL/dw is the sum of the gradients
    of all ranks. `sum_gradients` computes this sum.

    If all ranks have the same seed, dropout masks are the same as in a single process.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> gpt = mt.models.GPT(65, 16, embed_dim=32, num_heads=4, num_layers=2)
    >>> model = mt.nn.parallel.SequenceParallel(gpt)  # doctest: +SKIP
    >>> model(mt.zeros(3, 16, dtype=mt.int64)).shape  # on each of 4 ranks  # doctest: +SKIP
    (3, 4, 65)
    """

    def __init__(self, model, group=None, order="zigzag"):
        super().__init__()
        missing = [name for name in ("embed", "decode", "head") if not hasattr(model, name)]
        if missing:
            raise ArgumentError(
                "SequenceParallel: the model does not have the methods of a language model",
                got=f"{type(model).__name__} without {', '.join(missing)}",
                expected="embed(ids, start), decode(x) and head(x), as in models.GPT",
            )
        self.group, self.order = group, order
        rings = []
        replace_modules(model, lambda module: self._replacement(module, rings))
        if not rings:
            raise ArgumentError(
                "SequenceParallel: the model does not have an nn.Attention",
                got=type(model).__name__,
            )
        self.model = model

    def _replacement(self, module, rings):
        """Return the replacement for an attention or dropout layer, or None for other modules."""
        if type(module) is Attention:
            rings.append(RingAttention(module, self.group, self.order))
            return rings[-1]
        if type(module) is Dropout and module.p:
            return SplitDropout(module.p, 1, self._slices)
        return None

    def _slices(self, tokens):
        """Return this rank's slices of a sequence, and the length of the whole sequence."""
        total = tokens * get_world_size(self.group)
        return self._own(total), total

    def _own(self, tokens):
        return sequence_slices(tokens, get_rank(self.group), get_world_size(self.group), self.order)

    def split(self, x, dim=1):
        """Return the rank's part of a whole sequence."""
        rank, size = get_rank(self.group), get_world_size(self.group)
        return split_sequence(x, rank, size, dim, self.order)

    def gather(self, x, dim=1):
        """Return the whole sequence, gathered from all ranks. The operation is differentiable."""
        parts = all_gather(x, dim, self.group).chunk(get_world_size(self.group), dim)
        return join_sequence(parts, dim, self.order)

    def forward(self, ids):
        """Compute the logits of the rank's tokens.

        Parameters
        ----------
        ids : int64 Tensor of shape (batch, token)
            The whole sequences, on every rank. Their length must be a multiple of the number of
            ranks or, in zigzag order, of twice the number of ranks.

        Returns
        -------
        Tensor of shape (batch, token / ranks, vocabulary)
        """
        embedded = [self.model.embed(ids[:, part], part.start) for part in self._own(ids.shape[-1])]
        x = embedded[0] if len(embedded) == 1 else ops.cat(embedded, 1)
        return self.model.head(self.model.decode(x))

    def loss(self, ids, targets, ignore_index=-100):
        """Return the mean cross-entropy over the tokens of all ranks.

        The backward pass computes only the rank's own part of the gradients. Call `sum_gradients`
        after the backward pass.

        Parameters
        ----------
        ids, targets : int64 Tensor of shape (batch, token)
            The whole sequences, on every rank.
        ignore_index : int, default -100
            Target value of tokens to ignore.

        Returns
        -------
        Tensor of shape ()
            The same value on every rank.
        """
        logits = self(ids)
        count = (targets != ignore_index).sum().item()
        total = ops.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), self.split(targets).reshape(-1),
            ignore_index=ignore_index, reduction="sum",
        )  # fmt: skip
        return reduce_from_ranks(total / count, self.group)

    def sum_gradients(self):
        """Replace each gradient with its sum over all ranks, using one all-reduce per dtype."""
        with no_grad():
            gradients = {}
            for parameter in self.parameters():
                if parameter.grad is not None:
                    gradients.setdefault(parameter.dtype, []).append(parameter.grad)
            for same in gradients.values():
                flat = ops.cat([gradient.reshape(-1) for gradient in same])
                all_reduce(flat, group=self.group)
                parts = ops.split(flat, [gradient.numel() for gradient in same])
                for gradient, part in zip(same, parts, strict=True):
                    gradient.copy_(part.reshape(gradient.shape))
