"""Generation pipeline: the processors and stopping criteria of a call, in Hugging Face's order."""

import warnings

from ..errors import ArgumentError
from . import constraints, processors, warpers
from .stopping import (
    EosTokenCriteria,
    MaxLengthCriteria,
    MaxTimeCriteria,
    StoppingCriteriaList,
    StopStringCriteria,
)

__all__ = ["processors_for", "stopping_for"]


def processors_for(config, *, ends, prompt_length, encoder_ids, padding, allowed, custom):
    """Build the list of logits processors.

    Parameters
    ----------
    config : GenerationConfig
    ends : list of int or None
        End tokens.
    prompt_length : int
        Number of tokens in the prompt.
    encoder_ids : int64 Tensor or None
        Ids of the encoder's input or, without an encoder, of the prompt.
    padding : int64 Tensor of shape (row,) or None
        Number of padding tokens at the start of each row.
    allowed : callable or None
        The argument `prefix_allowed_tokens_fn`.
    custom : list
        The caller's processors. A processor replaces the built-in processor of its class, if there
        is one. Otherwise it runs after the built-in processors, but before those for sampling.

    Returns
    -------
    LogitsProcessorList
    """
    found = [
        *_repetition(config, encoder_ids, padding, ends),
        *_lengths(config, ends, prompt_length),
    ]
    if allowed is not None:
        found.append(constraints.PrefixConstrainedLogitsProcessor(allowed, config.num_beams))
    found += _forced(config, ends, prompt_length)
    found = merge(found, custom)
    if config.do_sample:
        found += _drawing(config, ends)
    if config.renormalize_logits:
        found.append(warpers.LogitNormalization())
    return processors.LogitsProcessorList(found)


def merge(own, custom):
    """Replace items of `own` with `custom` items of the same class. Append the rest of `custom`."""
    classes = {type(c): c for c in custom}
    merged = [classes.get(type(o), o) for o in own]
    return merged + [c for c in custom if not any(c is m for m in merged)]


def _repetition(config, encoder_ids, padding, ends):
    if config.sequence_bias is not None:
        yield processors.SequenceBiasLogitsProcessor(config.sequence_bias)
    if config.encoder_repetition_penalty not in (None, 1.0):
        if _has_ids(encoder_ids, "encoder_repetition_penalty"):
            yield processors.EncoderRepetitionPenaltyLogitsProcessor(
                config.encoder_repetition_penalty, encoder_ids
            )
    if config.repetition_penalty not in (None, 1.0):
        yield processors.RepetitionPenaltyLogitsProcessor(config.repetition_penalty, padding)
    if config.no_repeat_ngram_size:
        yield processors.NoRepeatNGramLogitsProcessor(config.no_repeat_ngram_size)
    if config.encoder_no_repeat_ngram_size:
        if _has_ids(encoder_ids, "encoder_no_repeat_ngram_size"):
            yield processors.EncoderNoRepeatNGramLogitsProcessor(
                config.encoder_no_repeat_ngram_size, encoder_ids
            )
    if config.bad_words_ids is not None:
        yield processors.NoBadWordsLogitsProcessor(config.bad_words_ids, ends)


def _has_ids(encoder_ids, name):
    if encoder_ids is None:
        raise ArgumentError(
            f"generate: {name} requires input_ids",
            got="inputs_embeds or encoder_outputs without input_ids",
            hint=f"pass input_ids, or leave {name} out",
        )
    return True


def _lengths(config, ends, prompt_length):
    if ends is None:
        return
    if config.min_length:
        yield constraints.MinLengthLogitsProcessor(config.min_length, ends)
    if config.min_new_tokens:
        yield constraints.MinNewTokensLengthLogitsProcessor(
            prompt_length, config.min_new_tokens, ends
        )


def _forced(config, ends, prompt_length):
    if config.forced_bos_token_id is not None:
        yield constraints.ForcedBOSTokenLogitsProcessor(config.forced_bos_token_id)
    if config.forced_eos_token_id is not None:
        yield constraints.ForcedEOSTokenLogitsProcessor(
            config.max_length, config.forced_eos_token_id
        )
    if config.remove_invalid_values:
        yield constraints.InfNanRemoveLogitsProcessor()
    if config.exponential_decay_length_penalty is not None:
        if ends is None:
            raise ArgumentError(
                "generate: exponential_decay_length_penalty requires eos_token_id",
                got="eos_token_id=None",
                hint="pass eos_token_id, the id of the token that ends a text",
            )
        yield constraints.ExponentialDecayLengthPenalty(
            config.exponential_decay_length_penalty, ends, prompt_length
        )
    if config.suppress_tokens is not None:
        yield constraints.SuppressTokensLogitsProcessor(config.suppress_tokens)
    if config.begin_suppress_tokens is not None:
        # If the first token is forced, the first free choice is the second token.
        free = prompt_length > 1 or config.forced_bos_token_id is None
        yield constraints.SuppressTokensAtBeginLogitsProcessor(
            config.begin_suppress_tokens, prompt_length if free else prompt_length + 1
        )


def _drawing(config, ends):
    # Keep enough tokens that a beam can continue, even if the end tokens are the most likely ones.
    keep = 1 if config.num_beams == 1 else 2 if ends is None else len(ends) + 1
    if config.temperature not in (None, 1.0):
        yield warpers.TemperatureLogitsWarper(config.temperature)
    if config.top_h is not None:
        yield warpers.TopHLogitsWarper(config.top_h)
    if config.top_k:
        yield warpers.TopKLogitsWarper(config.top_k, min_tokens_to_keep=keep)
    if config.top_p is not None and config.top_p < 1.0:
        yield warpers.TopPLogitsWarper(config.top_p, min_tokens_to_keep=keep)
    if config.min_p is not None:
        yield warpers.MinPLogitsWarper(config.min_p, min_tokens_to_keep=keep)
    if config.typical_p is not None and config.typical_p < 1.0:
        yield warpers.TypicalLogitsWarper(config.typical_p, min_tokens_to_keep=keep)
    if config.epsilon_cutoff:
        yield warpers.EpsilonLogitsWarper(config.epsilon_cutoff, min_tokens_to_keep=keep)
    if config.eta_cutoff:
        yield warpers.EtaLogitsWarper(config.eta_cutoff, min_tokens_to_keep=keep)


def stopping_for(config, *, ends, tokenizer, custom):
    """Build the list of stopping criteria.

    Parameters
    ----------
    config : GenerationConfig
    ends : list of int or None
        End tokens.
    tokenizer : object or None
        Tokenizer, required for `stop_strings`.
    custom : list
        The caller's criteria.

    Returns
    -------
    StoppingCriteriaList
    """
    found = [MaxLengthCriteria(config.max_length)]
    if config.max_time is not None:
        found.append(MaxTimeCriteria(config.max_time))
    if config.stop_strings is not None:
        if tokenizer is None:
            raise ArgumentError(
                "generate: stop_strings requires a tokenizer",
                got=f"stop_strings={config.stop_strings!r} and tokenizer=None",
                hint="pass tokenizer=tokenizer, an object with a decode method",
            )
        found.append(StopStringCriteria(tokenizer, config.stop_strings))
    if ends is not None:
        found.append(EosTokenCriteria(ends))
    return StoppingCriteriaList(merge(found, custom))


def warn_about_lengths(config, prompt_length):
    """Warn if the minimum length is greater than the maximum length."""
    shortest = max(config.min_length or 0, prompt_length + (config.min_new_tokens or 0))
    if shortest > config.max_length:
        warnings.warn(
            f"generate: the minimum length of {shortest} tokens is greater than the maximum "
            f"length of {config.max_length}; the maximum is used",
            stacklevel=4,
        )
