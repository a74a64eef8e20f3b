"""Sequence parallelism: each rank holds some of the tokens of every sequence."""

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
        Layer whose parameters this one shares.
    group : ProcessGroup, optional
        Default: all ranks.
    order : {"zigzag", "contiguous"}, default "zigzag"
        Which tokens a rank holds; see `distributed.sequence_slices`.

    Notes
    -----
    The projections act on single tokens, so only `attend` differs: it is `ring_attention`. A mask
    or bias covers the rank's own queries (or all of them) and all keys. A key-value cache and
    weight hooks are not supported, and `rotary` must use the positions of the rank's tokens.
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
        """Attend from the rank's tokens to the tokens of all ranks; see `Attention.forward`."""
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
    """Train a language model whose sequences are split among the ranks.

    The attention and dropout layers of the model are replaced in place. Activations, which need
    most of the memory for long sequences, are divided by the number of ranks; parameters are not.

    Parameters
    ----------
    model : Module
        A model with the methods `embed(ids, start)`, `decode(x)` and `head(x)`, such as
        `models.GPT`. Its parameters must be equal on all ranks; use the same `mt.manual_seed`.
    group : ProcessGroup, optional
        Default: all ranks.
    order : {"zigzag", "contiguous"}, default "zigzag"
        Which tokens a rank holds. Zigzag gives all ranks the same work under a causal mask.

    Raises
    ------
    ArgumentError
        If the model does not have these methods, or does not have an `nn.Attention`.

    Notes
    -----
    Every rank gets the whole batch of ids and selects its own tokens. One step is

        loss = model.loss(ids, targets)
        loss.backward()
        model.sum_gradients()
        optimizer.step()

    The loss is the mean over the tokens of all ranks, L = (1/T) sum_r sum_{t on r} loss_t. Rank r
    backpropagates its own term, which depends on keys and values of all ranks; the ring sends their
    gradients back to the ranks that hold them. For a parameter w, which every rank uses for its own
    tokens, dL/dw is therefore the sum of the ranks' gradients, which `sum_gradients` computes.

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
        """Return the layer that takes the place of an attention or dropout layer, or None."""
        if type(module) is Attention:
            rings.append(RingAttention(module, self.group, self.order))
            return rings[-1]
        if type(module) is Dropout and module.p:
            return SplitDropout(module.p, 1, self._slices)
        return None

    def _slices(self, tokens):
        """Return the slices of a sequence that this rank holds, and its length."""
        total = tokens * get_world_size(self.group)
        return self._own(total), total

    def _own(self, tokens):
        return sequence_slices(tokens, get_rank(self.group), get_world_size(self.group), self.order)

    def split(self, x, dim=1):
        """Return the rank's part of a whole sequence."""
        rank, size = get_rank(self.group), get_world_size(self.group)
        return split_sequence(x, rank, size, dim, self.order)

    def gather(self, x, dim=1):
        """Return the whole sequence from the parts of all ranks; it is differentiable."""
        parts = all_gather(x, dim, self.group).chunk(get_world_size(self.group), dim)
        return join_sequence(parts, dim, self.order)

    def forward(self, ids):
        """Compute the logits of the rank's tokens.

        Parameters
        ----------
        ids : int64 Tensor of shape (batch, token)
            The whole sequences, on every rank. Their length must be a multiple of the number of
            ranks, or of twice that in zigzag order.

        Returns
        -------
        Tensor of shape (batch, token / ranks, vocabulary)
        """
        embedded = [self.model.embed(ids[:, part], part.start) for part in self._own(ids.shape[-1])]
        x = embedded[0] if len(embedded) == 1 else ops.cat(embedded, 1)
        return self.model.head(self.model.decode(x))

    def loss(self, ids, targets, ignore_index=-100):
        """Return the mean cross-entropy over the tokens of all ranks.

        Its backward pass computes the rank's own part of the gradients; call `sum_gradients` next.

        Parameters
        ----------
        ids, targets : int64 Tensor of shape (batch, token)
            The whole sequences, on every rank.
        ignore_index : int, default -100
            Target of tokens that do not count.

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
        """Replace each parameter's gradient with its sum over the ranks, in one message."""
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
