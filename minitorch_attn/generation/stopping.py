"""Stopping criteria: decide when a sequence is finished.

A criterion is called as `criterion(input_ids, scores)`. `input_ids` are the ids so far, of shape
(row, token). `scores` are the scores of all steps so far, or None if they are not recorded.
"""

import time

from .. import ops
from ..errors import ArgumentError, MissingMethodError
from ..named_errors import NamedErrors
from ..tensor import Tensor, tensor
from .processors import as_list

__all__ = [
    "EosTokenCriteria", "MaxLengthCriteria", "MaxTimeCriteria", "StopStringCriteria",
    "StoppingCriteria", "StoppingCriteriaList",
]  # fmt: skip


class StoppingCriteria(NamedErrors):
    """Base class for criteria. Any callable can also be used as a criterion.

    A criterion returns a bool Tensor of shape (row,), or one bool for all rows.
    """

    def __call__(self, input_ids, scores):
        raise MissingMethodError(f"{type(self).__name__} does not define __call__")


class MaxLengthCriteria(StoppingCriteria):
    """Finish a sequence when it has `max_length` tokens, including the prompt.

    Parameters
    ----------
    max_length : int
    """

    def __init__(self, max_length):
        self.max_length = max_length

    def __call__(self, input_ids, scores=None):
        return input_ids.shape[1] >= self.max_length


class MaxTimeCriteria(StoppingCriteria):
    """Finish all sequences `max_time` seconds after the criterion was created.

    Parameters
    ----------
    max_time : float
    """

    def __init__(self, max_time):
        self.end = time.monotonic() + max_time

    def __call__(self, input_ids, scores=None):
        return time.monotonic() > self.end


class EosTokenCriteria(StoppingCriteria):
    """Finish a sequence when its last token is one of the given end tokens.

    Parameters
    ----------
    eos_token_id : int or list of int
    """

    def __init__(self, eos_token_id):
        self.eos_token_id = as_list(eos_token_id, "eos_token_id", type(self).__name__)
        self._ends = None

    def __call__(self, input_ids, scores=None):
        if self._ends is None:
            self._ends = tensor(self.eos_token_id, device=input_ids.device)  # (end,)
        return (input_ids[:, -1:] == self._ends).any(1)


class StopStringCriteria(StoppingCriteria):
    """Finish a sequence when its last token completes one of the given strings.

    The ids are decoded on the host, so the host waits for the device at every step.

    Parameters
    ----------
    tokenizer : object
        Object whose `decode(list of int)` returns text.
    stop_strings : str or list of str
    """

    def __init__(self, tokenizer, stop_strings):
        self.tokenizer = tokenizer
        self.stop_strings = [stop_strings] if isinstance(stop_strings, str) else list(stop_strings)
        if not self.stop_strings or not all(self.stop_strings):
            raise ArgumentError(
                "StopStringCriteria: stop_strings is empty or contains an empty string",
                got=repr(stop_strings), hint="remove the empty strings, or omit stop_strings",
            )  # fmt: skip
        longest = max(len(s.encode()) for s in self.stop_strings)
        self._window = longest + 1  # a token adds at least one byte

    def __call__(self, input_ids, scores=None):
        tails = input_ids[:, -self._window :].tolist()
        return tensor([self._stops(tail) for tail in tails], device=input_ids.device)

    def _stops(self, tail):
        text, before = self.tokenizer.decode(tail), self.tokenizer.decode(tail[:-1])
        for stop in self.stop_strings:
            if text.find(stop, max(0, len(before) - len(stop) + 1)) >= 0:
                return True
        return False


class StoppingCriteriaList(list, NamedErrors):
    """List of criteria. A sequence is finished when at least one criterion is met."""

    def __init__(self, criteria=()):
        super().__init__(criteria)

    def __call__(self, input_ids, scores=None):
        done, rows = False, input_ids.shape[0]
        for criterion in self:
            result = criterion(input_ids, scores)
            done = result | done if isinstance(result, Tensor) else done | bool(result)
        if isinstance(done, Tensor):
            return done
        return ops.full((rows,), done, dtype="bool", device=input_ids.device)

    @property
    def max_length(self):
        """Number of tokens at which every sequence ends, or None if there is no maximum."""
        lengths = [c.max_length for c in self if isinstance(c, MaxLengthCriteria)]
        return min(lengths, default=None)

    @property
    def first_end(self):
        """First end token, which pads finished rows. None if there are no end tokens."""
        ends = [c.eos_token_id for c in self if hasattr(c, "eos_token_id")]
        return as_list(ends[0], "eos_token_id", type(self).__name__)[0] if ends else None

    @property
    def only_length(self):
        """True if all criteria are maximum lengths, which the host can check without the device."""
        return all(isinstance(criterion, MaxLengthCriteria) for criterion in self)
