"""Processors for where and when tokens may stand: lengths, forced and suppressed tokens."""

import math

import numpy as np

from .. import ops
from ..errors import ArgumentError
from ..tensor import tensor
from .processors import LogitsProcessor, TokenSet, as_list, positive, whole

__all__ = [
    "ExponentialDecayLengthPenalty",
    "ForcedBOSTokenLogitsProcessor",
    "ForcedEOSTokenLogitsProcessor",
    "InfNanRemoveLogitsProcessor",
    "MinLengthLogitsProcessor",
    "MinNewTokensLengthLogitsProcessor",
    "PrefixConstrainedLogitsProcessor",
    "SuppressTokensAtBeginLogitsProcessor",
    "SuppressTokensLogitsProcessor",
]


class MinLengthLogitsProcessor(LogitsProcessor):
    """Forbid the end until the sequence, prompt included, has `min_length` tokens.

    Parameters
    ----------
    min_length : int
    eos_token_id : int or list of int

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> MinLengthLogitsProcessor(3, 0)(mt.tensor([[1, 2]]), mt.tensor([[1.0, 2.0]]))
    tensor([[-inf,   2.]])
    """

    def __init__(self, min_length, eos_token_id):
        where = type(self).__name__
        self.min_length = whole(min_length, "min_length", where, least=0)
        self.ends = TokenSet(as_list(eos_token_id, "eos_token_id", where))

    def __call__(self, input_ids, scores):
        if input_ids.shape[1] >= self.min_length:
            return scores
        return scores.masked_fill(self.ends.mask(scores), -math.inf)


class MinNewTokensLengthLogitsProcessor(MinLengthLogitsProcessor):
    """Forbid the end until there are `min_new_tokens` tokens after the prompt.

    Parameters
    ----------
    prompt_length_to_skip : int
    min_new_tokens : int
    eos_token_id : int or list of int
    """

    def __init__(self, prompt_length_to_skip, min_new_tokens, eos_token_id):
        where = type(self).__name__
        whole(min_new_tokens, "min_new_tokens", where, least=0)
        whole(prompt_length_to_skip, "prompt_length_to_skip", where, least=0)
        super().__init__(prompt_length_to_skip + min_new_tokens, eos_token_id)


def _only(tokens, scores):
    """0 for the tokens of a set and -inf for all others: one of them must come."""
    row = ops.where(tokens.mask(scores), 0.0, ops.full_like(scores[0], -math.inf))
    return row.expand(scores.shape)


class ForcedBOSTokenLogitsProcessor(LogitsProcessor):
    """Make one token the first after a prompt of a single token, as of a decoder.

    Parameters
    ----------
    bos_token_id : int
    """

    def __init__(self, bos_token_id):
        self.first = TokenSet(as_list(bos_token_id, "bos_token_id", type(self).__name__))

    def __call__(self, input_ids, scores):
        return _only(self.first, scores) if input_ids.shape[1] == 1 else scores


class ForcedEOSTokenLogitsProcessor(LogitsProcessor):
    """Make an end the last token that fits into `max_length`.

    Parameters
    ----------
    max_length : int
    eos_token_id : int or list of int
    """

    def __init__(self, max_length, eos_token_id):
        self.max_length = max_length
        self.ends = TokenSet(as_list(eos_token_id, "eos_token_id", type(self).__name__))

    def __call__(self, input_ids, scores):
        return _only(self.ends, scores) if input_ids.shape[1] == self.max_length - 1 else scores


class PrefixConstrainedLogitsProcessor(LogitsProcessor):
    """Allow only the tokens that a function names for each sequence so far.

    The function sees the ids of a row on the host, which waits for the device at every step.

    Parameters
    ----------
    prefix_allowed_tokens_fn : callable
        (number of the input, int64 Tensor of shape (token,)) -> list of allowed ids.
    num_beams : int
        Rows for each input.
    """

    def __init__(self, prefix_allowed_tokens_fn, num_beams):
        self.allowed = prefix_allowed_tokens_fn
        self.num_beams = num_beams

    def __call__(self, input_ids, scores):
        mask = np.full(scores.shape, -math.inf, scores.dtype)
        for row, ids in enumerate(input_ids.numpy()):
            tokens = self.allowed(row // self.num_beams, tensor(ids))
            if len(tokens) == 0:
                raise ArgumentError(
                    "prefix_allowed_tokens_fn: no token is allowed.",
                    got=f"an empty list for input {row // self.num_beams}",
                    expected="at least one token, for instance the end",
                )
            mask[row, np.asarray(tokens)] = 0
        mask = tensor(mask, device=scores.device)
        allowed = scores + mask
        # Where an input has no token left in any row, because of an earlier processor, any
        # allowed one will do.
        stuck = (allowed.amax(-1) == -math.inf).reshape(-1, self.num_beams).all(1)
        stuck = stuck.repeat_interleave(self.num_beams, 0).unsqueeze(1)  # (row, 1)
        return ops.where(stuck, mask, allowed)


class InfNanRemoveLogitsProcessor(LogitsProcessor):
    """Replace NaN by 0 and infinities by the largest and smallest finite numbers."""

    def __call__(self, input_ids, scores):
        largest = float(np.finfo(scores.dtype).max)
        finite = scores.masked_fill(scores.isnan(), 0.0)
        return finite.clamp(-largest, largest)


class ExponentialDecayLengthPenalty(LogitsProcessor):
    """Make the end likelier and likelier from some length on.

    Parameters
    ----------
    exponential_decay_length_penalty : (int, float)
        After how many tokens behind the prompt it begins, and the factor per token.
    eos_token_id : int or list of int
    input_ids_seq_length : int
        The length of the prompt.
    """

    def __init__(self, exponential_decay_length_penalty, eos_token_id, input_ids_seq_length):
        where = type(self).__name__
        start, factor = exponential_decay_length_penalty
        self.start = whole(start, "start", where, least=0) + input_ids_seq_length
        self.factor = positive(factor, "factor", where)
        self.ends = TokenSet(as_list(eos_token_id, "eos_token_id", where))

    def __call__(self, input_ids, scores):
        steps = input_ids.shape[1] - self.start
        if steps <= 0:
            return scores
        raised = self.ends.mask(scores) & (scores.abs() < math.inf)
        return scores + ops.where(raised, scores.abs(), 0.0) * (self.factor**steps - 1)


class SuppressTokensLogitsProcessor(LogitsProcessor):
    """Forbid some tokens everywhere.

    Parameters
    ----------
    suppress_tokens : list of int
    """

    def __init__(self, suppress_tokens):
        self.tokens = TokenSet(as_list(suppress_tokens, "suppress_tokens", type(self).__name__))

    def __call__(self, input_ids, scores):
        return scores.masked_fill(self.tokens.mask(scores), -math.inf)


class SuppressTokensAtBeginLogitsProcessor(SuppressTokensLogitsProcessor):
    """Forbid some tokens as the first one.

    Parameters
    ----------
    begin_suppress_tokens : list of int
    begin_index : int
        The length of the sequence when the first one is chosen.
    """

    def __init__(self, begin_suppress_tokens, begin_index):
        super().__init__(begin_suppress_tokens)
        self.begin_index = begin_index

    def __call__(self, input_ids, scores):
        at_begin = input_ids.shape[1] == self.begin_index
        return super().__call__(input_ids, scores) if at_begin else scores
