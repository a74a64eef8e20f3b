"""Sample from a character-level language model token by token."""

import inspect

from ..autograd import no_grad
from ..errors import ArgumentError
from ..named_errors import names_arguments
from ..nn import StaticKVCache, evaluating
from ..tensor import tensor
from .greedy_and_sampling import likeliest
from .processors import LogitsProcessorList
from .sampling import Draw
from .warpers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

__all__ = ["sample", "sample_stream"]


@names_arguments
def sample(model, ids, num_tokens, *, temperature=1.0, top_k=None, top_p=None, seed=0):
    """Continue a sequence of tokens.

    Parameters
    ----------
    model : Module
        Model that maps ids (1, token) to logits (1, token, vocabulary), with an attribute
        `context_length`. If it accepts a `cache`, like `GPT`, it reads each token once, as long as
        the text fits in the context. The model is in eval mode while this runs.
    ids : sequence of int
        Prompt, at least one token.
    num_tokens : int
        Number of tokens to append.
    temperature : float, default 1
        Divisor of the logits. Values below 1 favor likely tokens. 0 takes the most likely token.
    top_k : int, optional
        Sample only from the k most likely tokens.
    top_p : float, optional
        Sample only from the smallest set of most likely tokens with at least this total
        probability.
    seed : int, default 0
        Random seed for sampling. It does not affect other random numbers.

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


@names_arguments
def sample_stream(model, ids, num_tokens, temperature=1.0, top_k=None, top_p=None, seed=0):
    """Yield the new tokens of `sample` one by one, as soon as they are sampled.

    Yields
    ------
    int
    """
    ids = [int(i) for i in ids]
    if not ids:
        raise ArgumentError(
            "sample: the prompt is empty",
            expected="at least one token",
            hint="start with any token of the vocabulary, such as a newline",
        )
    if temperature < 0 or (top_k is not None and top_k < 1):
        raise ArgumentError(
            "sample: temperature must be at least 0, and top_k at least 1",
            got=f"temperature={temperature}, top_k={top_k}",
            hint="use temperature=0 for the most likely token, or top_k=None to allow all tokens",
        )
    choose, shape = Draw(seed), LogitsProcessorList()
    if temperature == 0:
        choose = likeliest
    elif top_k is None and top_p is None:
        choose = Draw(seed, temperature)
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
    """Model wrapper that computes the next token's logits for a text of any length."""

    def __init__(self, model):
        self.model, self.context = model, model.context_length
        self.device = next(model.parameters()).device
        caches = "cache" in inspect.signature(model.forward).parameters
        self.cache = StaticKVCache(self.context) if caches else None

    def __call__(self, ids):
        # When the window moves, all tokens change position, so all tokens are read again.
        if self.cache is None or len(ids) > self.context:
            logits = self.model(tensor([ids[-self.context :]], device=self.device))
        else:
            new = tensor([ids[self.cache.length :]], device=self.device)
            logits = self.model(new, cache=self.cache)
        return logits[:, -1].double()  # (1, vocabulary)
