"""generate: continue prompts token by token, with Hugging Face transformers' arguments."""

from ..autograd.modes import no_grad
from ..errors import ArgumentError
from ..named_errors import names_arguments
from ..nn import KVCache, StaticKVCache
from . import beam
from . import greedy_and_sampling as greedy
from .config import DEFAULTS, INERT, WITHOUT_EFFECT, resolve
from .output import Record
from .pipeline import processors_for, stopping_for, warn_about_lengths
from .processors import as_list
from .prompt import decoder_prompt, encoder_decoder_prompt
from .sampling import Draw
from .token_by_token import Stepper

__all__ = ["generate"]

INITIAL_CAPACITY = 1024  # largest initial capacity of the cache, in new tokens


@names_arguments
def generate(
    model, inputs=None, generation_config=None, logits_processor=None, stopping_criteria=None,
    prefix_allowed_tokens_fn=None, *, streamer=None, tokenizer=None, seed=None, **kwargs,
):  # fmt: skip
    """Generate continuations of prompts, or target sequences for an encoder's inputs.

    Arguments and defaults are the same as in transformers' `generate`. An omitted argument is taken
    from `generation_config`, or else from the model's `generation_config.json` (`config.json` if
    that file is missing), or else from the defaults below. Unknown arguments raise an error.

    Parameters
    ----------
    model : PretrainedModel
        Model to run. Its mode does not change, so dropout is active in training mode.
    inputs : int64 Tensor of shape (batch, token), optional
        Prompts, padded on the left. `input_ids` is another name for this argument. Default:
        `bos_token_id`.
    generation_config : GenerationConfig or dict, optional
    logits_processor, stopping_criteria : list of callable, optional
        Processors and criteria to use in addition to those that the settings select.
    prefix_allowed_tokens_fn : callable, optional
        Function from (index of the input, ids of a row) to a list of the ids that may follow.
    streamer : object, optional
        Object that receives the tokens as they are chosen, such as a `TextStreamer`.
    tokenizer : object, optional
        Tokenizer, required for `stop_strings`.
    seed : int, optional
        Random seed for sampling. Default: the generator seeded by `mt.manual_seed`.
    attention_mask, position_ids, token_type_ids, inputs_embeds, past_key_values : optional
        Arguments passed to the model. `attention_mask` is 0 at padding. Models with an encoder also
        accept `encoder_outputs`, `decoder_input_ids` and `decoder_attention_mask`.
    max_new_tokens, max_length, min_new_tokens, min_length, max_time, stop_strings : optional
        Stopping rules. `max_length` includes the prompt; its default is the prompt length plus 20.
    do_sample : bool, default False
        Whether to sample tokens instead of taking the most likely token. Arguments for sampling are
        temperature (default 1.0), top_k (50), top_p (1.0), min_p, typical_p, epsilon_cutoff,
        eta_cutoff and top_h.
    num_beams : int, default 1
        Number of beams. Values above 1 select beam search, which uses length_penalty (default 1.0)
        and early_stopping (False, True or "never"; default False).
    num_return_sequences : int, default 1
        Number of sequences to return for each prompt.
    repetition_penalty, encoder_repetition_penalty, no_repeat_ngram_size,
    encoder_no_repeat_ngram_size, bad_words_ids, sequence_bias, suppress_tokens,
    begin_suppress_tokens, forced_bos_token_id, forced_eos_token_id,
    exponential_decay_length_penalty, remove_invalid_values, renormalize_logits : optional
        Settings that change scores or forbid tokens. See `processors.py` and `constraints.py`.
    eos_token_id, pad_token_id, bos_token_id, decoder_start_token_id : int, optional
        Ids of special tokens. `eos_token_id` may be a list.
    use_cache : bool, default True
        Whether to keep the keys and values of earlier tokens, so that each token is read once.
    return_dict_in_generate : bool, default False
        Whether to return a `GenerateOutput`. The arguments output_scores, output_logits,
        output_attentions and output_hidden_states add results to it.

    Returns
    -------
    int64 Tensor of shape (batch * num_return_sequences, token), or GenerateOutput
        The prompts and the new tokens. `pad_token_id` fills rows after their end. `GenerateOutput`
        has `sequences`, `past_key_values` and the requested results: `scores` and `logits` (one
        entry for each step), `sequences_scores` and `beam_indices` (beam search), `attentions` and
        `hidden_states`. Models with an encoder have `encoder_attentions`, `decoder_attentions` and
        `cross_attentions` instead, and `encoder_hidden_states` and `decoder_hidden_states`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.models.pretrained.GPT2LMHeadModel(
    ...     {"vocab_size": 11, "n_positions": 16, "n_embd": 6, "n_layer": 1, "n_head": 2}
    ... ).eval()
    >>> generate(model, mt.tensor([[1, 2, 3]]), max_new_tokens=4).shape
    (1, 7)
    """
    settings = {name: kwargs.pop(name) for name in list(kwargs) if _is_setting(name)}
    config = resolve(model, generation_config, settings)
    given = kwargs.pop("input_ids", None)
    if given is not None and inputs is not None:
        raise ArgumentError(
            "generate: inputs and input_ids must not both be given",
            hint="pass the prompt once, as the first argument",
        )
    with no_grad():
        run = _Run(model, config, given if inputs is None else inputs, kwargs)
        return run(
            Draw(seed) if config.do_sample else None, processors=list(logits_processor or ()),
            criteria=list(stopping_criteria or ()), allowed=prefix_allowed_tokens_fn,
            streamer=streamer, tokenizer=tokenizer,
        )  # fmt: skip


def _is_setting(name):
    return name in DEFAULTS or name in INERT or name in WITHOUT_EFFECT


class _Run:
    """State of one call of `generate`: the prompt, the lengths and the special tokens."""

    def __init__(self, model, config, ids, arguments):
        self.model, self.config = model, config
        self.has_encoder = bool(model.config.get("is_encoder_decoder", False))
        device = next(model.parameters()).device
        past = arguments.pop("past_key_values", None)
        self.ends = None
        if config.eos_token_id is not None:
            self.ends = as_list(config.eos_token_id, "eos_token_id", "generate")
        prepare = encoder_decoder_prompt if self.has_encoder else decoder_prompt
        prompt = prepare(model, config, ids, arguments, device)
        self.prompt = prompt.repeat(max(config.num_beams, config.num_return_sequences))
        self.length = self.prompt.ids.shape[1]
        self._set_lengths()
        self.cache = self._cache(past)

    def _set_lengths(self):
        """Set `max_length` and `min_length` in tokens, including the prompt."""
        config, embedded = self.config, self.prompt.embedded
        unseen = 0  # number of prompt tokens given as embeddings instead of ids
        if embedded is not None and embedded.shape[1] != self.length:
            unseen = embedded.shape[1]
        if config.max_new_tokens is not None:
            config.max_length = self.length + config.max_new_tokens
        elif unseen and config.own_max_length:
            config.max_length -= unseen
        elif not config.own_max_length:
            config.max_length += self.length
            limit = self.model.config.get("max_position_embeddings")
            config.max_length = min(config.max_length, limit or config.max_length)
        if config.min_new_tokens is not None:
            config.min_length = self.length + config.min_new_tokens
        elif unseen:
            config.min_length = max(config.min_length - unseen, 0)
        if self.length >= config.max_length:
            raise ArgumentError(
                "generate: max_length must be greater than the length of the prompt",
                got=f"{self.length} tokens and max_length={config.max_length}",
                hint="pass max_new_tokens, which does not count the prompt",
            )
        warn_about_lengths(config, self.length)

    def _cache(self, past):
        if past is not None:
            return KVCache.of(past)
        if not self.config.use_cache and self.prompt.embedded is None:
            return None
        read = 0 if self.prompt.embedded is None else self.prompt.embedded.shape[1]
        return StaticKVCache(
            min(self.config.max_length + read, self.length + read + INITIAL_CAPACITY)
        )

    def _padding(self):
        """Return each row's number of leading padding tokens, or None if there is no mask."""
        mask = self.prompt.mask
        return None if mask is None else (mask != 0).long().argmax(1)

    def __call__(self, choose, *, processors, criteria, allowed, streamer, tokenizer):
        config, prompt = self.config, self.prompt
        processors = processors_for(
            config, ends=self.ends, prompt_length=self.length, encoder_ids=prompt.source,
            padding=self._padding(), allowed=allowed, custom=processors,
        )  # fmt: skip
        stopping = stopping_for(config, ends=self.ends, tokenizer=tokenizer, custom=criteria)
        looks = ("output_attentions", "output_hidden_states")
        step = Stepper(
            self.model, self.cache, prompt.mask, prompt.positions,
            {**prompt.constants, **{name: True for name in looks if getattr(config, name)}},
            prompt.growing, prompt.embedded, prompt.covered,
        )  # fmt: skip
        record = Record(config, prompt.encoded)
        shared = {"processors": processors, "stopping": stopping, "record": record}
        if config.num_beams > 1:
            return self._search_beams(step, choose, streamer, shared)
        if streamer is not None:
            streamer.put(prompt.ids.numpy())
        fill = stopping.first_end if config.pad_token_id is None else config.pad_token_id
        choose = greedy.likeliest if choose is None else choose
        return greedy.search(
            step, prompt.ids, choose=choose, fill=fill, streamer=streamer, **shared
        )

    def _search_beams(self, step, choose, streamer, shared):
        if streamer is not None:
            raise ArgumentError(
                "generate: streamer is not supported with beam search",
                got=f"num_beams={self.config.num_beams}",
                hint="pass num_beams=1: beam search chooses the final tokens only at the end",
            )
        # As in Hugging Face, pad_token_id=0 is ignored. Without end tokens, no padding is needed.
        fill = -1 if self.ends is None else self.config.pad_token_id or self.ends[0]
        return beam.search(
            step, self.prompt.ids, config=self.config, choose=choose, fill=fill,
            ends=len(self.ends or ()), **shared,
        )  # fmt: skip
