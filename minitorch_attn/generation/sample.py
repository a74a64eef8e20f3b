"""Draw tokens from a language model, one after the other."""

import numpy as np

from ..autograd import no_grad
from ..backend import to_host
from ..errors import ArgumentError
from ..tensor import tensor

__all__ = ["sample", "sample_stream"]


def sample(model, ids, num_tokens, *, temperature=1.0, top_k=None, seed=0):
    """Continue a sequence of tokens.

    Parameters
    ----------
    model : Module
        Takes ids of shape (1, token), returns logits of shape (1, token, vocabulary), and has
        `context_length`. It is in eval mode meanwhile.
    ids : sequence of int
        The prompt, at least one token.
    num_tokens : int
        How many to add.
    temperature : float, default 1
        Logits are divided by it: below 1 likely tokens become likelier; 0 takes the likeliest.
    top_k : int, optional
        Draw from the k likeliest tokens only.
    seed : int, default 0
        The same seed gives the same continuation; other random numbers are not touched.

    Returns
    -------
    list of int
        The prompt and its continuation.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.models.GPT(
    ...     vocab_size=9, context_length=4, embed_dim=8, num_heads=2, num_layers=1
    ... )
    >>> len(sample(model, [1, 2, 3], 5))
    8
    """
    return [*ids, *sample_stream(model, ids, num_tokens, temperature, top_k, seed)]


def sample_stream(model, ids, num_tokens, temperature=1.0, top_k=None, seed=0):
    """The tokens of `sample`'s continuation, each as soon as it is drawn.

    Yields
    ------
    int
    """
    ids = [int(i) for i in ids]
    if not ids:
        raise ArgumentError("sample(model, ids): the prompt is empty.", expected="at least 1 token")
    if temperature < 0 or (top_k is not None and top_k < 1):
        raise ArgumentError(
            "sample: these settings leave nothing to draw from.",
            got=f"temperature={temperature}, top_k={top_k}",
            expected="temperature >= 0 and top_k >= 1",
        )
    generator = np.random.default_rng(seed % 2**64)
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    try:
        for _ in range(num_tokens):
            seen = tensor([ids[-model.context_length :]], device=device)  # (1, token)
            with no_grad():
                logits = model(seen)[0, -1]  # (vocabulary,)
            ids.append(_draw(to_host(logits.array), temperature, top_k, generator))
            yield ids[-1]
    finally:
        model.train(training)


def _draw(logits, temperature, top_k, generator):
    """One token id from the logits of one position."""
    if temperature == 0:
        return int(logits.argmax())
    scores = logits.astype(np.float64) / temperature
    if top_k is not None and top_k < len(scores):
        scores[scores < np.partition(scores, -top_k)[-top_k]] = -np.inf
    weights = np.exp(scores - scores.max())
    return int(generator.choice(len(weights), p=weights / weights.sum()))
