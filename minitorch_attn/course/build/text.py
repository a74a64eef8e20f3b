"""Text for `mta build`, the same as in `mta tour`: token ids, batches and losses on it."""

from functools import cache
from types import SimpleNamespace

from ...data import CharTokenizer, TextBatches, baselines, default_text, split_text
from ...data.batches import windows

__all__ = ["batches", "mean_loss", "tour_text"]


@cache
def tour_text(context=64):
    """Return the text of `mta tour` as token ids, its characters, and the losses of baselines.

    Returns
    -------
    SimpleNamespace
        `characters`, the ids `training` and `validation`, and `baselines`: the losses of
        models that only count characters (see `data.baselines`).
    """
    text = default_text()
    tokenizer = CharTokenizer.from_text(text)
    training, validation = (tokenizer.encode(part) for part in split_text(text, context))
    return SimpleNamespace(
        characters=tokenizer.vocabulary, training=training, validation=validation,
        baselines=baselines(training, validation, len(tokenizer)),
    )  # fmt: skip


def batches(ids, size, context, seed=1):
    """Yield the batches of `mta train gpt` as arrays, indefinitely."""
    for inputs, targets in TextBatches(ids, size, context, seed):
        yield inputs.numpy(), targets.numpy()


def mean_loss(m, model, ids, context=64, limit=1024):
    """Return the mean loss of the learner's model over evenly spaced windows of a text.

    Parameters
    ----------
    m : module
        The learner's file, imported as a module.
    model : callable
        Takes ids of shape (batch, token) and returns the logits, a Tensor of the learner's class.
    ids : array of int64
    context, limit : int
        Length of a window, and maximum number of windows.

    Returns
    -------
    float
    """
    total = count = 0
    for inputs, targets in windows(ids, 48, context, None, limit):
        loss = m.cross_entropy(model(inputs.numpy()), targets.numpy())
        total += float(loss.data) * targets.numel()
        count += targets.numel()
    return total / count
