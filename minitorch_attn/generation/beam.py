"""Beam search: keep the best unfinished sequences and the best finished sequences.

Sutskever et al. 2014, arXiv:1409.3215v3, section 3.2. The score of a sequence is the sum of its log
probabilities, divided by length ** length_penalty. No array changes its shape from step to step.
Each step reads only one value from the device, the flag that ends the search.
"""

import math

from .. import ops
from ..computes import computes
from ..errors import ArgumentError

__all__ = ["BeamSearch"]

WORST = -1e9  # score of forbidden choices; finite, so that sums can be compared


def _gather(x, index):
    """Select rows along axis 1 of `x` (batch, n, ...) by `index` (batch, k)."""
    index = index.reshape(*index.shape, *(1,) * (x.ndim - 2))
    return ops.take_along_dim(x, index.expand(*index.shape[:2], *x.shape[2:]), 1)


class BeamSearch:
    """State of a beam search for `batch` inputs with `beams` beams each.

    Parameters
    ----------
    ids : int64 Tensor of shape (batch * beams, token)
        The prompts, each repeated once per beam.
    config : GenerationConfig
        Uses `num_beams`, `num_return_sequences`, `length_penalty`, `early_stopping`, `max_length`.
    candidates : int
        Number of continuations considered for each input. Each beam can be continued with each end
        token only once. To be sure that at least `beams` candidates do not end, use
        (1 + number of end tokens) * beams.
    fill : int
        Token id that fills positions after the end of a sequence.
    dtype : dtype
        Dtype of the scores.

    Attributes
    ----------
    running, finished : tuple
        Ids (batch, beam, max_length), scores (batch, beam), and origins (batch, beam, max_length -
        prompt). A token's origin is the row, from 0 to batch * beam - 1, that it continues.
        `finished` also has bools (batch, beam), True where a sequence is stored.
    """

    def __init__(self, ids, config, candidates, fill, dtype):
        self.config, self.candidates = config, candidates
        self.beams, self.prompt = config.num_beams, ids.shape[1]
        self.length = self.prompt
        batch, device = ids.shape[0] // self.beams, ids.device
        shape = (batch, self.beams, config.max_length)
        sequences = ops.full(shape, fill, dtype="int64", device=device)
        sequences[:, :, : self.prompt] = ids.reshape(batch, self.beams, self.prompt)
        origins = ops.full(
            (batch, self.beams, config.max_length - self.prompt), -1, dtype="int64", device=device
        )
        scores = ops.full((batch, self.beams), WORST, dtype=dtype, device=device)
        # All beams are equal at the start, so the first step uses only the first beam.
        first = scores.clone()
        first[:, 0] = 0.0
        taken = ops.zeros(batch, self.beams, dtype="bool", device=device)
        self.running = (sequences, first, origins)
        self.finished = (sequences, scores, origins, taken)
        self.may_improve = ops.ones(batch, 1, dtype="bool", device=device)
        self.in_beams = ops.arange(candidates, device=device) < self.beams  # (candidate,)
        self.offset = (ops.arange(batch, device=device) * self.beams).unsqueeze(1)  # (batch, 1)

    @property
    def ids(self):
        """Unfinished sequences, with shape (batch * beam, token)."""
        return self.running[0][:, :, : self.length].flatten(0, 1)

    def advance(self, log_weights, stopping, choose, kept_scores):
        """Append one token.

        Parameters
        ----------
        log_weights : Tensor of shape (batch * beam, vocabulary)
            Processed log probabilities of the next token.
        stopping : StoppingCriteriaList
        choose : Draw or None
            Sampler of the continuations. If None, the most probable continuations are kept.
        kept_scores : tuple or None
            Scores of the steps so far, passed on to `stopping`; None if scores are not recorded.

        Returns
        -------
        rows : int64 Tensor of shape (batch * beam,)
            For each beam, the index of the row that it continues.
        over : bool
            True if the search is over.
        """
        continued = self._continue(log_weights, choose)
        ids = continued[0][:, :, : self.length + 1].flatten(0, 1)
        ends = stopping(ids, kept_scores).reshape(-1, self.candidates)  # (batch, candidate)
        self._keep_running(continued, ends)
        self._keep_finished(continued, ends)
        rows = self.running[2][:, :, self.length - self.prompt].flatten()
        self.length += 1
        self.may_improve = self.may_improve & self._may_improve()
        return rows, self._is_over(ends)

    def _continue(self, log_weights, choose):
        """Return the best continuations as (ids, scores, origins), like `running`.

        Axis 1 of each array is the candidate.
        """
        ids, scores, origins = self.running
        vocabulary = log_weights.shape[-1]
        total = log_weights.reshape(*scores.shape, vocabulary) + scores.unsqueeze(-1)
        total = total.flatten(1)  # (batch, beam * vocabulary)
        if choose is None:
            best, index = ops.topk(total, self.candidates)  # (batch, candidate)
        else:
            index = choose.several(total, self.candidates)
            best = total.gather(1, index)
        beam = index // vocabulary
        ids, origins = _gather(ids, beam), _gather(origins, beam)
        ids[:, :, self.length] = index % vocabulary
        origins[:, :, self.length - self.prompt] = beam + self.offset
        return ids, best, origins

    def _keep_running(self, continued, ends):
        """Keep, as the new beams, the best continuations that do not end in this step."""
        ids, scores, origins = continued
        scores = ops.where(ends, scores + WORST, scores)
        scores, index = ops.topk(scores, self.beams)
        self.running = (_gather(ids, index), scores, _gather(origins, index))

    def _keep_finished(self, continued, ends):
        """Add the continuations that end in this step to `finished`.

        Only the `self.beams` best continuations are considered.
        """
        ids, scores, origins = continued
        config, taken = self.config, self.finished[3]
        ended = ends & self.in_beams  # (batch, candidate)
        scores = scores / _weight(self.length + 1 - self.prompt, config.length_penalty)
        refused = ~self.may_improve
        if config.early_stopping is True:
            refused = refused | taken.all(-1, keepdim=True)
        scores = scores + WORST * refused.to(scores.dtype) + WORST * (~ended).to(scores.dtype)
        new = (ids, scores, origins, ended)
        merged = [ops.cat(pair, 1) for pair in zip(self.finished, new, strict=True)]
        index = ops.topk(merged[1], self.beams).indices  # (batch, beam)
        self.finished = tuple([_gather(x, index) for x in merged])

    def _may_improve(self):
        """Return bools (batch, 1), True if the best beam may outscore the worst finished sequence.

        With a positive length penalty, the score of a beam may increase as the beam gets longer.
        The result is an estimate: it uses the beam's score at the current length or, with
        early_stopping="never", at the maximum length.
        """
        config = self.config
        longest = config.early_stopping == "never" and config.length_penalty > 0
        length = (config.max_length if longest else self.length) - self.prompt
        best = self.running[1][:, :1] / _weight(length, config.length_penalty)
        _, scores, _, taken = self.finished
        worst = ops.where(taken, scores.amin(1, keepdim=True), WORST)  # (batch, beam)
        return (best > worst).any(-1, keepdim=True)

    def _is_over(self, ends):
        """Return True if no better sequence can be found. This reads one value from the device."""
        over = ~self.may_improve.any() | ends.all()
        if self.config.early_stopping is True:
            over = over | self.finished[3].all()
        return bool(over)

    def best(self):
        """Return the best finished sequences.

        Returns
        -------
        ids : int64 Tensor of shape (batch * returned, token)
        scores : Tensor of shape (batch * returned,)
        origins : int64 Tensor of shape (batch * returned, new token)
            Row (from 0 to batch * beam - 1) of the sequence to which each token was appended. -1
            after the end.
        """
        count = self.config.num_return_sequences
        ids, scores, origins, _ = [x[:, :count].flatten(0, 1) for x in self.finished]
        written = int((origins >= 0).sum(1).max())
        return ids[:, : self.prompt + written], scores, origins[:, :written]


@computes("beam search", reveals=("greedy decoding",))
def search(step, ids, *, config, processors, stopping, choose, fill, ends, record):
    """Run a beam search.

    Parameters
    ----------
    step : Stepper
    ids : int64 Tensor of shape (batch * beams, token)
        The prompts, each repeated once per beam.
    config : GenerationConfig
    processors, stopping, record
        See `greedy_and_sampling.search`. The processors receive log probabilities.
    choose : Draw or None
        Sampler of the continuations. If None, the most probable continuations are kept.
    fill : int
        Token id that fills positions after the end of a sequence.
    ends : int
        Number of token ids that end a sequence.

    Returns
    -------
    int64 Tensor, or GenerateOutput
    """
    candidates, state = max(2, 1 + ends) * config.num_beams, None
    over = False
    while not over:
        output = step(ids)
        logits = output["logits"][:, -1]  # (batch * beam, vocabulary)
        log_weights = processors(ids, logits.log_softmax(-1))
        record.add(output, logits, log_weights)
        del output
        if state is None:
            state = BeamSearch(ids, config, candidates, fill, logits.dtype)
        rows, over = state.advance(log_weights, stopping, choose, record.scores)
        step.reorder(rows)
        ids = state.ids
    sequences, scores, origins = state.best()
    scores = scores if "scores" in record.steps else None
    return record.result(sequences, step.cache, sequences_scores=scores, beam_indices=origins)


def _weight(length, penalty):
    """Return length^penalty, computed with floats: a large integer power may take very long."""
    try:
        weight = float(length) ** float(penalty)
    except OverflowError:
        weight = math.inf
    if length and not 0 < weight < math.inf:
        raise ArgumentError(
            "generate: length_penalty is out of range",
            got=f"length_penalty={penalty!r} at length {length}",
            expected="a finite, nonzero length ** length_penalty; use, for example, 0.6, 1 or 2",
        )
    return weight
