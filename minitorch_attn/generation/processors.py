"""Logits processors: change the scores of the next token, based on the tokens so far.

Processors are called as `processor(input_ids, scores)` with the ids so far (row, token) and the
next token's scores (row, vocabulary). They return new scores and do not modify their arguments.
Forbidden tokens get -inf. Names and results are the same as in transformers.

A processor does not make the host wait for a device, unless the processor's docstring says so.
"""

import math

import numpy as np

from .. import ops
from ..errors import ArgumentError, IndexRangeError, MissingMethodError
from ..named_errors import NamedErrors
from ..tensor import Tensor, tensor

__all__ = [
    "EncoderNoRepeatNGramLogitsProcessor", "EncoderRepetitionPenaltyLogitsProcessor",
    "LogitsProcessor", "LogitsProcessorList", "NoBadWordsLogitsProcessor",
    "NoRepeatNGramLogitsProcessor", "RepetitionPenaltyLogitsProcessor",
    "SequenceBiasLogitsProcessor",
]  # fmt: skip


class LogitsProcessor(NamedErrors):
    """Base class of logits processors. Any callable can also be used as a processor."""

    def __call__(self, input_ids, scores):
        raise MissingMethodError(f"{type(self).__name__} does not define __call__")


class LogitsProcessorList(list, NamedErrors):
    """List of processors, applied in order.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> from minitorch_attn.generation import TemperatureLogitsWarper, TopKLogitsWarper
    >>> both = LogitsProcessorList([TemperatureLogitsWarper(0.5), TopKLogitsWarper(2)])
    >>> both(mt.tensor([[0]]), mt.tensor([[1.0, 2.0, 3.0]]))
    tensor([[-inf,   4.,   6.]])
    """

    def __init__(self, processors=()):
        super().__init__(processors)

    def __call__(self, input_ids, scores):
        for processor in self:
            scores = processor(input_ids, scores)
        return scores


def positive(value, name, where):
    """Return `value` as a float. Raise an ArgumentError if it is not positive."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ArgumentError(f"{where}: {name} must be a positive number", got=f"{name}={value!r}")
    return float(value)


def whole(value, name, where, least=1):
    """Return `value` as an int. Raise an ArgumentError if it is not an integer >= `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ArgumentError(
            f"{where}: {name} must be an integer of at least {least}", got=f"{name}={value!r}"
        )
    return int(value)


def as_list(tokens, name, where):
    """Convert a token id, or a sequence of token ids, to a list of int."""
    tokens = tokens.tolist() if isinstance(tokens, Tensor) else tokens
    tokens = [tokens] if isinstance(tokens, (int, np.integer)) else list(tokens)
    if any(isinstance(t, bool) or not isinstance(t, (int, np.integer)) or t < 0 for t in tokens):
        raise ArgumentError(
            f"{where}: {name} must contain token ids (non-negative integers)",
            got=repr(tokens), hint="encode words with the model's tokenizer first",
        )  # fmt: skip
    return [int(t) for t in tokens]


class TokenSet:
    """A set of tokens, stored as a mask that is copied to the device once.

    Parameters
    ----------
    tokens : list of int
    """

    def __init__(self, tokens):
        self.tokens = tokens
        self._masks = {}

    def mask(self, scores):
        """Return a bool Tensor of shape (vocabulary,), True for the tokens in the set."""
        key = (scores.shape[-1], scores.device)
        if key not in self._masks:
            chosen = np.zeros(scores.shape[-1], dtype=bool)
            chosen[[t for t in self.tokens if t < len(chosen)]] = True
            self._masks[key] = tensor(chosen, device=scores.device)
        return self._masks[key]


def _penalized(scores, penalty):
    """Divide positive scores by the penalty and multiply negative ones, so that both decrease."""
    return ops.where(scores < 0, scores * penalty, scores / penalty)


class RepetitionPenaltyLogitsProcessor(LogitsProcessor):
    """Decrease the scores of tokens that already occurred.

    Keskar et al. 2019, arXiv:1909.05858v2, section 4.1. Their formula divides negative scores too,
    which increases them. Here, negative scores are multiplied.

    Parameters
    ----------
    penalty : float
        Divisor of positive scores, and factor for negative scores. 1 has no effect.
    prompt_ignore_length : int or int64 Tensor of shape (row,), optional
        Number of tokens to ignore at the start: one number for all rows, or one for each row.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> RepetitionPenaltyLogitsProcessor(2.0)(mt.tensor([[0, 2]]), mt.tensor([[1.0, 1.0, -1.0]]))
    tensor([[ 0.5,  1. , -2. ]])
    """

    def __init__(self, penalty, prompt_ignore_length=None):
        self.penalty = positive(penalty, "penalty", type(self).__name__)
        if isinstance(prompt_ignore_length, int):
            whole(prompt_ignore_length, "prompt_ignore_length", type(self).__name__, least=0)
        self.prompt_ignore_length = prompt_ignore_length

    def __call__(self, input_ids, scores):
        ignore, vocabulary = self.prompt_ignore_length, scores.shape[-1]
        if isinstance(ignore, int):
            input_ids = input_ids[:, ignore:]
        if not isinstance(ignore, Tensor):
            return scores.scatter(
                1, input_ids, _penalized(scores.gather(1, input_ids), self.penalty)
            )
        positions = ops.arange(input_ids.shape[1], device=input_ids.device)
        # For ignored tokens, change the score in an extra column, which is dropped at the end.
        input_ids = input_ids.masked_fill(positions < ignore.unsqueeze(1), vocabulary)
        wider = ops.cat((scores, ops.zeros_like(scores[:, :1])), 1)  # (row, vocabulary + 1)
        wider = wider.scatter(1, input_ids, _penalized(wider.gather(1, input_ids), self.penalty))
        return wider[:, :vocabulary]


class EncoderRepetitionPenaltyLogitsProcessor(LogitsProcessor):
    """Increase the scores of tokens that occur in the encoder's input or in the prompt.

    Parameters
    ----------
    penalty : float
        Factor for positive scores and divisor of negative scores. 1 has no effect.
    encoder_input_ids : int64 Tensor of shape (batch, token)
    """

    def __init__(self, penalty, encoder_input_ids):
        self.penalty = 1 / positive(penalty, "penalty", type(self).__name__)
        self.encoder_input_ids = encoder_input_ids

    def __call__(self, input_ids, scores):
        seen = self.encoder_input_ids
        if scores.shape[0] > seen.shape[0]:  # several beams for each input
            seen = seen.repeat_interleave(scores.shape[0] // seen.shape[0], 0)
        return scores.scatter(1, seen, _penalized(scores.gather(1, seen), self.penalty))


def _without_followers(windows, prefix, scores):
    """Set the scores of tokens to -inf if they follow `prefix` in one of the windows.

    Parameters
    ----------
    windows : int64 Tensor of shape (row, window, n)
    prefix : int64 Tensor of shape (row, n - 1)
    scores : Tensor of shape (row, vocabulary)
    """
    vocabulary = scores.shape[-1]
    followers = windows[..., -1]  # (row, window)
    if windows.shape[-1] > 1:
        matches = (windows[..., :-1] == prefix.unsqueeze(1)).all(-1)  # (row, window)
        followers = ops.where(matches, followers, vocabulary)
    shape = (scores.shape[0], vocabulary + 1)  # the last column is for other windows
    banned = ops.zeros(*shape, dtype=np.dtype(bool), device=scores.device)
    banned = banned.scatter(1, followers, True)
    return scores.masked_fill(banned[:, :vocabulary], -math.inf)


class NoRepeatNGramLogitsProcessor(LogitsProcessor):
    """Forbid tokens that would repeat an n-gram of the sequence.

    Paulus et al. 2017, arXiv:1705.04304v3, section 2.5, use n = 3.

    Parameters
    ----------
    ngram_size : int

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> NoRepeatNGramLogitsProcessor(2)(mt.tensor([[0, 2, 0]]), mt.tensor([[1.0, 1.0, 1.0]]))
    tensor([[  1.,   1., -inf]])
    """

    def __init__(self, ngram_size):
        self.ngram_size = whole(ngram_size, "ngram_size", type(self).__name__)

    def __call__(self, input_ids, scores):
        n, length = self.ngram_size, input_ids.shape[1]
        if length < n:
            return scores
        windows = input_ids.unfold(1, n, 1)  # (row, window, n)
        return _without_followers(windows, input_ids[:, length + 1 - n :], scores)


class EncoderNoRepeatNGramLogitsProcessor(LogitsProcessor):
    """Forbid tokens that would repeat an n-gram of the encoder's input.

    Parameters
    ----------
    encoder_ngram_size : int
    encoder_input_ids : int64 Tensor of shape (batch, token)
    """

    def __init__(self, encoder_ngram_size, encoder_input_ids):
        self.ngram_size = whole(encoder_ngram_size, "encoder_ngram_size", type(self).__name__)
        self.encoder_input_ids = encoder_input_ids

    def __call__(self, input_ids, scores):
        n, length, seen = self.ngram_size, input_ids.shape[1], self.encoder_input_ids
        if seen.shape[1] < n or length < n - 1:
            return scores
        windows = seen.unfold(1, n, 1)  # (batch, window, n)
        windows = windows.repeat_interleave(scores.shape[0] // seen.shape[0], 0)
        return _without_followers(windows, input_ids[:, length + 1 - n :], scores)


class SequenceBiasLogitsProcessor(LogitsProcessor):
    """Add a bias to tokens that would complete a given sequence of tokens.

    Parameters
    ----------
    sequence_bias : dict of tuple of int to float, or list of [list of int, float]
        Bias for each sequence. The bias of a single token applies at every position.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> bias = SequenceBiasLogitsProcessor({(1,): 5.0, (0, 2): -3.0})
    >>> bias(mt.tensor([[0], [1]]), mt.zeros(2, 3))
    tensor([[ 0.,  5., -3.],
            [ 0.,  5.,  0.]])
    """

    def __init__(self, sequence_bias):
        where = type(self).__name__
        if isinstance(sequence_bias, list):
            sequence_bias = {tuple(run): bias for run, bias in sequence_bias}
        self.sequence_bias = {}
        for run, bias in sequence_bias.items():
            run = tuple(as_list(run, "sequence_bias", where))
            if not run:
                raise ArgumentError(f"{where}: sequence_bias must not contain an empty sequence")
            self.sequence_bias[run] = float(bias)
        self._everywhere = None

    def __call__(self, input_ids, scores):
        if self._everywhere is None:
            self._prepare(scores)
        bias = self._everywhere.expand(scores.shape)
        for prefixes, last, amounts in self._after:
            size = prefixes.shape[1]
            if size <= input_ids.shape[1]:
                follows = (input_ids[:, -size:].unsqueeze(1) == prefixes).all(-1)  # (row, run)
                bias = bias.index_add(1, last, ops.where(follows, amounts, 0.0))
        return scores + bias

    def _prepare(self, scores):
        """Copy the biases to the scores' device, grouped by the length of their sequences."""
        vocabulary = scores.shape[-1]
        if outside := [run for run in self.sequence_bias if max(run) >= vocabulary]:
            raise IndexRangeError(
                f"{type(self).__name__}: token ids are out of range",
                got=f"{outside}", expected=f"ids below {vocabulary}",
                hint="encode the words with the tokenizer of this model",
            )  # fmt: skip
        everywhere, by_length = np.zeros(vocabulary, scores.dtype), {}
        for run, bias in self.sequence_bias.items():
            if len(run) == 1:
                everywhere[run[0]] = bias
            else:
                by_length.setdefault(len(run), []).append((run, bias))
        self._everywhere = tensor(everywhere, device=scores.device)
        self._after = []
        for group in by_length.values():
            runs = np.array([run for run, _ in group])
            amounts = np.array([bias for _, bias in group], scores.dtype)
            parts = (runs[:, :-1], np.ascontiguousarray(runs[:, -1]), amounts)
            self._after.append([tensor(part, device=scores.device) for part in parts])


class NoBadWordsLogitsProcessor(SequenceBiasLogitsProcessor):
    """Forbid tokens that would complete one of the given sequences of tokens.

    Parameters
    ----------
    bad_words_ids : list of list of int
    eos_token_id : int or list of int, optional
        End tokens, which are never forbidden.
    """

    def __init__(self, bad_words_ids, eos_token_id=None):
        if not isinstance(bad_words_ids, list) or not bad_words_ids:
            raise ArgumentError(
                "NoBadWordsLogitsProcessor: bad_words_ids must be a non-empty list of lists of ids",
                got=repr(bad_words_ids),
                hint="pass, for example, [[5, 7], [9]] to forbid the sequence 5, 7 and the token 9",
            )
        ends = [] if eos_token_id is None else as_list(eos_token_id, "eos_token_id", "BadWords")
        words = [word for word in bad_words_ids if list(word) not in [[end] for end in ends]]
        super().__init__({tuple(word): -math.inf for word in words})
