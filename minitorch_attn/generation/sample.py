"""Draw tokens from a character model, one after the other."""

import inspect

from ..autograd import no_grad
from ..errors import ArgumentError
from ..nn import StaticKVCache, evaluating
from ..tensor import tensor
from .greedy import likeliest
from .processors import LogitsProcessorList
from .sampling import Draw
from .warpers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

__all__ = ["sample", "sample_stream"]


def sample(model, ids, num_tokens, *, temperature=1.0, top_k=None, top_p=None, seed=0):
    """Continue a sequence of tokens.

    Parameters
    ----------
    model : Module
        Takes ids of shape (1, token), returns logits of shape (1, token, vocabulary), and has
        `context_length`; with an argument `cache`, as `GPT` has, it reads each token once while
        the text fits into the context. It is in eval mode meanwhile.
    ids : sequence of int
        The prompt, at least one token.
    num_tokens : int
        How many to add.
    temperature : float, default 1
        Logits are divided by it: below 1 likely tokens become likelier; 0 takes the likeliest.
    top_k : int, optional
        Draw from the k likeliest tokens only.
    top_p : float, optional
        Draw from the likeliest tokens that together have this probability.
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
    return [*ids, *sample_stream(model, ids, num_tokens, temperature, top_k, top_p, seed)]


def sample_stream(model, ids, num_tokens, temperature=1.0, top_k=None, top_p=None, seed=0):
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
    choose, shape = Draw(seed), LogitsProcessorList()
    if temperature == 0:
        choose = likeliest
    else:
        shape.append(TemperatureLogitsWarper(temperature))
    if top_k is not None:
        shape.append(TopKLogitsWarper(top_k))
    if top_p is not None:
        shape.append(TopPLogitsWarper(top_p))
    with evaluating(model):
        read = _Reader(model)
        for _ in range(num_tokens):
            with no_grad():
                ids.append(choose(shape(None, read(ids))).item())
            yield ids[-1]


class _Reader:
    """The logits behind the last token of a text, however long it is."""

    def __init__(self, model):
        self.model, self.context = model, model.context_length
        self.device = next(model.parameters()).device
        caches = "cache" in inspect.signature(model.forward).parameters
        self.cache = StaticKVCache(self.context) if caches else None

    def __call__(self, ids):
        # When the window begins to move, every token gets another position: all are read again.
        if self.cache is None or len(ids) > self.context:
            logits = self.model(tensor([ids[-self.context :]], device=self.device))
        else:
            new = tensor([ids[self.cache.length :]], device=self.device)
            logits = self.model(new, cache=self.cache)
        return logits[:, -1].double()  # (1, vocabulary)
