"""Translate with the paper's Transformer: read the source once, then write token after token."""

from .. import ops
from ..autograd.modes import no_grad
from ..errors import ArgumentError
from ..nn import StaticKVCache

__all__ = ["translate"]


def translate(model, source, start_id, end_id, max_new_tokens=64, source_mask=None):
    """The likeliest next token, again and again, until every sentence has ended.

    Parameters
    ----------
    model : Transformer
        Or another model with its `padding_mask`, `encode` and `decode`. It is put in eval mode
        for the time being.
    source : int64 Tensor of shape (batch, source)
    start_id, end_id : int
        The tokens that begin and end a target.
    max_new_tokens : int, default 64
    source_mask : Mask or bool Tensor, optional
        As for the model.

    Returns
    -------
    int64 Tensor of shape (batch, target)
        Without the start token; a row that has ended goes on with `end_id`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.models.Transformer(
    ...     vocab_size=11, embed_dim=6, num_heads=2, ff_dim=8, num_encoder_layers=1,
    ...     num_decoder_layers=1,
    ... )
    >>> ids = translate(model, mt.tensor([[4, 7, 5]]), start_id=1, end_id=2, max_new_tokens=5)
    >>> ids.shape[0], ids.shape[1] <= 5
    (1, True)
    """
    if max_new_tokens < 1:
        raise ArgumentError(
            "translate(max_new_tokens): nothing to write.", got=f"{max_new_tokens}", expected=">= 1"
        )
    training = model.training
    model.eval()
    try:
        with no_grad():
            if source_mask is None:
                source_mask = model.padding_mask(source)
            memory = model.encode(source, source_mask)
            return _greedy(model, memory, source_mask, start_id, end_id, max_new_tokens)
    finally:
        model.train(training)


def _greedy(model, memory, source_mask, start_id, end_id, max_new_tokens):
    batch = memory.shape[0]
    cache = StaticKVCache(max_new_tokens)
    token = ops.full((batch, 1), start_id, dtype="int64", device=memory.device)
    ended = ops.zeros((batch, 1), dtype="bool", device=memory.device)
    written = []
    for _ in range(max_new_tokens):
        logits = model.decode(token, memory, source_mask, cache=cache)  # (batch, 1, vocabulary)
        token = ops.where(ended, end_id, logits.argmax(-1))  # (batch, 1)
        written.append(token)
        ended = token == end_id  # a row that had ended wrote end_id again
        if ended.all().item():
            break
    return ops.cat(written, 1)
