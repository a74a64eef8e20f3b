"""Write one token after the other in every row: the likeliest, or one drawn at random."""

from .. import ops

__all__ = ["likeliest", "search"]


def likeliest(scores):
    """The best token of each row of scores, (row, vocabulary); of equal ones the first."""
    return scores.argmax(-1)


def search(step, ids, *, processors, stopping, choose, fill, record, streamer=None):
    """Choose tokens until every row is finished.

    Parameters
    ----------
    step : Stepper
    ids : int64 Tensor of shape (row, token)
        The prompt.
    processors : callable
        (ids, logits) -> scores of the next token, (row, vocabulary).
    stopping : StoppingCriteriaList
    choose : callable
        scores -> int64 Tensor of shape (row,): `likeliest`, or a `Draw`.
    fill : int or None
        What a finished row goes on with.
    record : Record
    streamer : object, optional
        Is shown every step's tokens.

    Returns
    -------
    int64 Tensor, or GenerateOutput
        The prompt and what was written.
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
    """Whether nothing is left to write: the one question a step asks the device."""
    if stopping.max_length is not None and ids.shape[1] >= stopping.max_length:
        return True
    return not stopping.only_length and bool(finished.all())
