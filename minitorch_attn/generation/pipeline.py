"""From the settings of a call to its processors and stopping rules, in the peer's order."""

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
    """What is done to the scores of every step.

    Parameters
    ----------
    config : GenerationConfig
    ends : list of int or None
        The tokens that end a sequence.
    prompt_length : int
    encoder_ids : int64 Tensor or None
        The ids of the encoder's input, or of the prompt.
    padding : int64 Tensor of shape (row,) or None
        How many tokens at the beginning of each row are padding.
    allowed : callable or None
        The argument `prefix_allowed_tokens_fn`.
    custom : list
        The caller's processors; they stand behind these, but before what shapes a draw. One of
        the same class replaces one of these.

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
    """`own` with those of the caller: in the place of one of the same class, or at the end."""
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
            f"generate({name}): it is about ids of the encoder's input, or of the prompt.",
            got="no input_ids",
            expected="input_ids",
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
                "generate(exponential_decay_length_penalty): no token ends a sequence.",
                expected="eos_token_id",
            )
        yield constraints.ExponentialDecayLengthPenalty(
            config.exponential_decay_length_penalty, ends, prompt_length
        )
    if config.suppress_tokens is not None:
        yield constraints.SuppressTokensLogitsProcessor(config.suppress_tokens)
    if config.begin_suppress_tokens is not None:
        # A forced first token stands before the first one that is free.
        free = prompt_length > 1 or config.forced_bos_token_id is None
        yield constraints.SuppressTokensAtBeginLogitsProcessor(
            config.begin_suppress_tokens, prompt_length if free else prompt_length + 1
        )


def _drawing(config, ends):
    # Beams need one candidate that goes on, even if all ends are among the likeliest.
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
    """When sequences are finished.

    Parameters
    ----------
    config : GenerationConfig
    ends : list of int or None
    tokenizer : object or None
        Needed for `stop_strings`.
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
                "generate(stop_strings): ids have to be decoded to look for text.",
                got=f"stop_strings={config.stop_strings!r} and no tokenizer",
                expected="tokenizer=, with a method decode",
            )
        found.append(StopStringCriteria(tokenizer, config.stop_strings))
    if ends is not None:
        found.append(EosTokenCriteria(ends))
    return StoppingCriteriaList(merge(found, custom))


def warn_about_lengths(config, prompt_length):
    """Say so when a shortest length is longer than the longest."""
    shortest = max(config.min_length or 0, prompt_length + (config.min_new_tokens or 0))
    if shortest > config.max_length:
        warnings.warn(
            f"generate: at least {shortest} tokens are wanted and at most {config.max_length}; "
            "the sequences will be as long as the latter.",
            stacklevel=4,
        )
