"""Translate with the paper's Transformer: read the source once, then write token after token."""

from .. import ops
from ..autograd.modes import no_grad
from ..errors import ArgumentError
from ..nn import Mask, StaticKVCache, evaluating
from .generate import generate

__all__ = ["translate"]


def translate(
    model, source, start_id, end_id, max_new_tokens=64, source_mask=None, num_beams=1,
    length_penalty=1.0,
):  # fmt: skip
    """Write the target of each source, until every one has ended.

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
    num_beams : int, default 1
        1 takes the likeliest next token, again and again. More keeps so many unfinished targets
        and returns the best one found.
    length_penalty : float, default 1
        Of a beam search: targets are compared by their log probability divided by
        length^length_penalty, so that larger values favour longer ones.

    Returns
    -------
    int64 Tensor of shape (batch, target)
        Without the start token; a row that has ended goes on with `end_id`.

    Notes
    -----
    The paper (arXiv:1706.03762v7, section 6.1) searches with 4 beams, a length penalty of 0.6,
    by another formula for its effect, and at most 50 tokens more than the source has.

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
    with evaluating(model), no_grad():
        if source_mask is None:
            source_mask = model.padding_mask(source)
        memory = model.encode(source, source_mask)  # (batch, source, embed)
        if num_beams == 1:
            return _greedy(model, memory, source_mask, start_id, end_id, max_new_tokens)
        written = generate(
            _Decoder(model, source_mask), encoder_outputs=memory, num_beams=num_beams,
            length_penalty=length_penalty, max_new_tokens=max_new_tokens,
            decoder_start_token_id=start_id, eos_token_id=end_id, pad_token_id=end_id,
        )  # fmt: skip
        return written[:, 1:]


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


class _Decoder:
    """The model with the arguments and results that `generate` knows.

    Parameters
    ----------
    model : Transformer
    source_mask : Mask or bool Tensor, optional
    """

    config = {"is_encoder_decoder": True}
    generation_config = {}

    def __init__(self, model, source_mask):
        self.model, self.parameters = model, model.parameters
        self.attend = source_mask.attend if isinstance(source_mask, Mask) else source_mask

    def __call__(self, **arguments):
        return self.forward(**arguments)

    def forward(
        self, encoder_outputs=None, decoder_input_ids=None, past_key_values=None, use_cache=True
    ):
        """Logits of the next token and the cache; every source has several rows, its beams."""
        memory, mask = encoder_outputs["last_hidden_state"], self.attend
        if mask is not None and mask.ndim == 4 and mask.shape[0] > 1:
            mask = mask.repeat_interleave(memory.shape[0] // mask.shape[0], 0)
        logits = self.model.decode(decoder_input_ids, memory, mask, cache=past_key_values)
        return {"logits": logits, "past_key_values": past_key_values}
