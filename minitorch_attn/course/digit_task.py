"""Task of the lessons on recurrent attention: read digits and write them in reverse."""

import numpy as np

from ..nn.functional import cross_entropy
from ..nn.utils import clip_grad_norm_
from ..optim import Adam
from ..tensor import tensor

__all__ = ["BLANK", "START", "digit_batch", "train", "train_on_digits"]

START, BLANK = 10, 11  # ids after those of the digits


def digit_batch(rng, length, size=64, reverse=True, blanks=0):
    """Draw a batch for teacher forcing: the decoder is given the correct previous digit.

    Parameters
    ----------
    rng : numpy.random.Generator
    length : int
        Number of digits.
    size : int, default 64
        Number of examples.
    reverse : bool, default True
        Whether the target has the digits in reverse order; otherwise, in the order of the source.
    blanks : int, default 0
        Number of blanks at random positions in the source. The target does not contain them.

    Returns
    -------
    source : int64 Tensor of shape (size, length + blanks)
    given : int64 Tensor of shape (size, length)
        `START`, followed by the target without its last digit.
    target : int64 Tensor of shape (size, length)

    Examples
    --------
    >>> source, given, target = digit_batch(np.random.default_rng(0), 4, size=1)
    >>> source.tolist(), given.tolist(), target.tolist()
    ([[8, 6, 5, 2]], [[10, 2, 5, 6]], [[2, 5, 6, 8]])
    """
    digits = source = rng.integers(0, 10, (size, length))
    if blanks:
        places = np.arange(length + blanks).repeat(size).reshape(-1, size).T
        places = np.sort(rng.permuted(places, axis=1)[:, :length], axis=1)
        source = np.full((size, length + blanks), BLANK)
        np.put_along_axis(source, places, digits, axis=1)
    target = digits[:, ::-1].copy() if reverse else digits
    given = np.concatenate([np.full((size, 1), START), target[:, :-1]], axis=1)
    return tensor(source), tensor(given), tensor(target)


def train_on_digits(model, steps, rate, lengths, reverse=True, blanks=False):
    """Train a model with Adam to output the source's digits, by default in reverse; return it.

    Parameters
    ----------
    model : Module
        Called with the source and the given digits, the model returns scores (batch, target,
        class), or a tuple whose first entry is the scores.
    steps : int
    rate : float
        Learning rate. In the last third of the steps it falls linearly to 0.
    lengths : sequence of int
        Possible numbers of digits; each step draws one of them.
    reverse : bool, default True
    blanks : bool, default False
        Whether half of each source consists of blanks.

    Returns
    -------
    Module
    """

    def draw(rng):
        length = int(rng.choice(lengths))
        return digit_batch(rng, length, reverse=reverse, blanks=length if blanks else 0)

    return train(model, steps, rate, draw)


def train(model, steps, rate, draw):
    """Train a model with Adam and teacher forcing on batches from `draw`; return the model.

    Parameters
    ----------
    model : Module
        Model with the arguments and results described in `train_on_digits`.
    steps : int
    rate : float
        Learning rate, as in `train_on_digits`.
    draw : callable
        Takes a random generator and returns source, given and target, as `digit_batch` does.

    Returns
    -------
    Module
    """
    rng, optimizer = np.random.default_rng(0), Adam(model.parameters(), lr=rate)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min(1.0, 3 * (1 - step / steps))
        source, given, target = draw(rng)
        scores = model(source, given)
        scores = scores[0] if isinstance(scores, tuple) else scores
        loss = cross_entropy(scores.reshape(-1, scores.shape[-1]), target.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model
