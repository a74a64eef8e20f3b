"""Greedy search and sampling: append the most likely token or a sampled token to each row."""

from .. import ops
from ..computes import computes

__all__ = ["likeliest", "search"]


def likeliest(scores):
    """Return the token with the highest score in each row of `scores` (first one in a tie)."""
    return scores.argmax(-1)


@computes("greedy decoding")
def search(step, ids, *, processors, stopping, choose, fill, record, streamer=None):
    """Append tokens to `ids` until every row is finished.

    Parameters
    ----------
    step : Stepper
    ids : int64 Tensor of shape (row, token)
        Prompt.
    processors : callable
        Function that maps (ids, logits) to the next token's scores, of shape (row, vocabulary).
    stopping : StoppingCriteriaList
    choose : callable
        Function that maps the scores to token ids of shape (row,): `likeliest` or a `Draw`.
    fill : int or None
        Token id that fills positions after the end of a row.
    record : Record
        Collects the requested results of every step.
    streamer : object, optional
        Object that receives the tokens of every step.

    Returns
    -------
    int64 Tensor, or GenerateOutput
        The prompt and the new tokens.
    """
    ends = stopping.first_end is not None
    finished = ops.zeros(ids.shape[0], dtype="bool", device=ids.device)
    while True:
        output = step(ids)
        logits = output["logits"][:, -1]  # (row, vocabulary)
        scores = processors(ids, logits)
        record.add(output, logits, scores)
        del output  # the logits of a long prompt are large
        tokens = choose(scores)  # (row,)
        if ends:
            tokens = ops.where(finished, fill, tokens)
        ids = ops.cat((ids, tokens.unsqueeze(1)), 1)
        if streamer is not None:
            streamer.put(tokens.numpy())
        finished = finished | stopping(ids, record.scores)
        if _is_over(ids, finished, stopping):
            break
    if streamer is not None:
        streamer.end()
    return record.result(ids, step.cache)


def _is_over(ids, finished, stopping):
    """Return True if all rows are finished. This reads at most one value from the device."""
    if stopping.max_length is not None and ids.shape[1] >= stopping.max_length:
        return True
    return not stopping.only_length and bool(finished.all())
