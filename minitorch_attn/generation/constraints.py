"""Constraint processors: minimum lengths, forced tokens and suppressed tokens."""

import math

import numpy as np

from .. import ops
from ..errors import ArgumentError
from ..tensor import tensor
from .processors import LogitsProcessor, TokenSet, as_list, positive, whole

__all__ = [
    "ExponentialDecayLengthPenalty", "ForcedBOSTokenLogitsProcessor",
    "ForcedEOSTokenLogitsProcessor", "InfNanRemoveLogitsProcessor", "MinLengthLogitsProcessor",
    "MinNewTokensLengthLogitsProcessor", "PrefixConstrainedLogitsProcessor",
    "SuppressTokensAtBeginLogitsProcessor", "SuppressTokensLogitsProcessor",
]  # fmt: skip


class MinLengthLogitsProcessor(LogitsProcessor):
    """Forbid end tokens until the sequence, including the prompt, has `min_length` tokens.

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
    """Forbid end tokens until the prompt is followed by `min_new_tokens` new tokens.

    Parameters
    ----------
    prompt_length_to_skip : int
        Number of tokens in the prompt.
    min_new_tokens : int
    eos_token_id : int or list of int
    """

    def __init__(self, prompt_length_to_skip, min_new_tokens, eos_token_id):
        where = type(self).__name__
        whole(min_new_tokens, "min_new_tokens", where, least=0)
        whole(prompt_length_to_skip, "prompt_length_to_skip", where, least=0)
        super().__init__(prompt_length_to_skip + min_new_tokens, eos_token_id)


def _only(tokens, scores):
    """Return scores that allow only `tokens`: 0 for these tokens and -inf for all others."""
    row = ops.where(tokens.mask(scores), 0.0, ops.full_like(scores[0], -math.inf))
    return row.expand(scores.shape)


class ForcedBOSTokenLogitsProcessor(LogitsProcessor):
    """Force `bos_token_id` after a prompt of a single token, such as a decoder's start token.

    Parameters
    ----------
    bos_token_id : int
    """

    def __init__(self, bos_token_id):
        self.first = TokenSet(as_list(bos_token_id, "bos_token_id", type(self).__name__))

    def __call__(self, input_ids, scores):
        return _only(self.first, scores) if input_ids.shape[1] == 1 else scores


class ForcedEOSTokenLogitsProcessor(LogitsProcessor):
    """Force an end token at the last position of a sequence of `max_length` tokens.

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
    """Allow only the tokens that a given function returns for each sequence generated so far.

    The function receives the ids on the host, so the host waits for the device at every step.

    Parameters
    ----------
    prefix_allowed_tokens_fn : callable
        Function of (input index, int64 Tensor of shape (token,)) that returns the allowed ids.
    num_beams : int
        Number of rows (beams) for each input.
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
                    "prefix_allowed_tokens_fn must return at least one token",
                    got=f"an empty list for input {row // self.num_beams}",
                    hint="return an end token when the sequence is complete",
                )
            mask[row, np.asarray(tokens)] = 0
        mask = tensor(mask, device=scores.device)
        allowed = scores + mask
        # If earlier processors have forbidden all allowed tokens in every row of an input, any
        # allowed token may follow.
        stuck = (allowed.amax(-1) == -math.inf).reshape(-1, self.num_beams).all(1)
        stuck = stuck.repeat_interleave(self.num_beams, 0).unsqueeze(1)  # (row, 1)
        return ops.where(stuck, mask, allowed)


class InfNanRemoveLogitsProcessor(LogitsProcessor):
    """Replace NaN scores with 0, and infinite scores with the largest or smallest finite number."""

    def __call__(self, input_ids, scores):
        largest = float(np.finfo(scores.dtype).max)
        finite = scores.masked_fill(scores.isnan(), 0.0)
        return finite.clamp(-largest, largest)


class ExponentialDecayLengthPenalty(LogitsProcessor):
    """Increase the scores of end tokens exponentially after a given number of new tokens.

    Parameters
    ----------
    exponential_decay_length_penalty : (int, float)
        Number of new tokens after which the scores of end tokens increase, and a factor. After s
        further tokens, the score x of an end token becomes x + |x| (factor^s - 1).
    eos_token_id : int or list of int
    input_ids_seq_length : int
        Number of tokens in the prompt.
    """

    def __init__(self, exponential_decay_length_penalty, eos_token_id, input_ids_seq_length):
        where = type(self).__name__
        name = "exponential_decay_length_penalty"
        start, factor = exponential_decay_length_penalty
        self.start = whole(start, f"{name}[0]", where, least=0) + input_ids_seq_length
        self.factor = positive(factor, f"{name}[1]", where)
        self.ends = TokenSet(as_list(eos_token_id, "eos_token_id", where))

    def __call__(self, input_ids, scores):
        steps = input_ids.shape[1] - self.start
        if steps <= 0:
            return scores
        raised = self.ends.mask(scores) & (scores.abs() < math.inf)
        return scores + ops.where(raised, scores.abs(), 0.0) * (self.factor**steps - 1)


class SuppressTokensLogitsProcessor(LogitsProcessor):
    """Forbid the given tokens at every position.

    Parameters
    ----------
    suppress_tokens : list of int
    """

    def __init__(self, suppress_tokens):
        self.tokens = TokenSet(as_list(suppress_tokens, "suppress_tokens", type(self).__name__))

    def __call__(self, input_ids, scores):
        return scores.masked_fill(self.tokens.mask(scores), -math.inf)


class SuppressTokensAtBeginLogitsProcessor(SuppressTokensLogitsProcessor):
    """Forbid the given tokens as the first new token.

    Parameters
    ----------
    begin_suppress_tokens : list of int
    begin_index : int
        Length of the sequence when the first new token is chosen.
    """

    def __init__(self, begin_suppress_tokens, begin_index):
        where = type(self).__name__
        super().__init__(as_list(begin_suppress_tokens, "begin_suppress_tokens", where))
        self.begin_index = begin_index

    def __call__(self, input_ids, scores):
        at_begin = input_ids.shape[1] == self.begin_index
        return super().__call__(input_ids, scores) if at_begin else scores
