"""Translate with an encoder-decoder such as `Transformer`: encode once, decode token by token."""

from .. import ops
from ..autograd.modes import no_grad
from ..computes import computes
from ..errors import ArgumentError
from ..named_errors import names_arguments
from ..nn import Mask, StaticKVCache, evaluating
from .generate import generate

__all__ = ["translate"]


@names_arguments
def translate(
    model, source, start_id, end_id, max_new_tokens=64, source_mask=None, num_beams=1,
    length_penalty=1.0,
):  # fmt: skip
    """Translate source sentences, token by token, until every target has ended.

    Parameters
    ----------
    model : Transformer or Seq2Seq
        Model with the methods `padding_mask`, `encode` and `decode`, and also `new_cache` if its
        cache is not a `KVCache`. The model is in eval mode while this runs.
    source : int64 Tensor of shape (batch, source)
    start_id, end_id : int
        Ids of the tokens that start and end a target.
    max_new_tokens : int, default 64
        Maximum number of tokens of a target.
    source_mask : Mask or bool Tensor, optional
        Mask for `model.encode`. Default: `model.padding_mask(source)`.
    num_beams : int, default 1
        Number of beams. 1 selects greedy search.
    length_penalty : float, default 1
        Exponent of the length in beam search. The score of a target is its log probability divided
        by length^length_penalty, so larger values favor longer targets.

    Returns
    -------
    int64 Tensor of shape (batch, target)
        Targets without the start token. Shorter targets are padded with `end_id`.

    Notes
    -----
    The Transformer paper (arXiv:1706.03762v7, section 6.1) uses 4 beams, a length penalty of 0.6 in
    a different formula, and targets that are at most 50 tokens longer than the source.

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
        raise ArgumentError("translate: max_new_tokens must be at least 1", got=f"{max_new_tokens}")
    with evaluating(model), no_grad():
        if source_mask is None:
            source_mask = model.padding_mask(source)
        memory = model.encode(source, source_mask)  # (batch, source, embed), or a dict
        new_cache = getattr(model, "new_cache", None)
        if num_beams == 1 and new_cache is None:
            return _greedy(model, memory, source_mask, start_id, end_id, max_new_tokens)
        written = generate(
            _Decoder(model, source_mask), encoder_outputs=memory, num_beams=num_beams,
            length_penalty=length_penalty, max_new_tokens=max_new_tokens,
            past_key_values=None if new_cache is None else new_cache(),
            decoder_start_token_id=start_id, eos_token_id=end_id, pad_token_id=end_id,
        )  # fmt: skip
        return written[:, 1:]


@computes("greedy decoding")
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
        ended = token == end_id  # a finished row repeats end_id
        if ended.all().item():
            break
    return ops.cat(written, 1)


class _Decoder:
    """Adapter that lets `generate` call a Transformer or Seq2Seq like a Hugging Face model.

    Parameters
    ----------
    model : Transformer or Seq2Seq
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
        """Return logits and cache. Arguments have one row for each beam of each source sentence."""
        states, mask = encoder_outputs["last_hidden_state"], self.attend
        if mask is not None and mask.ndim == 4 and mask.shape[0] > 1:
            mask = mask.repeat_interleave(states.shape[0] // mask.shape[0], 0)
        memory = encoder_outputs if len(encoder_outputs) > 1 else states
        logits = self.model.decode(decoder_input_ids, memory, mask, cache=past_key_values)
        return {"logits": logits, "past_key_values": past_key_values}
