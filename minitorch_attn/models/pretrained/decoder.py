"""What the faces of decoder-only language models share: masks, positions, what is collected."""

from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

from ... import nn, ops
from ...errors import ArgumentError, ShapeError
from .output import Output

__all__ = [
    "attention_mask_of", "cache_of", "collecting", "embeddings_of", "kept", "last_tokens",
    "positions_of", "result",
]  # fmt: skip


def embeddings_of(table, input_ids, inputs_embeds):
    """The embeddings that were given, or those of the ids that were given.

    Parameters
    ----------
    table : Embedding
    input_ids : int64 Tensor of shape (..., token), optional
        Leading axes are flattened into one.
    inputs_embeds : Tensor of shape (batch, token, embed), optional

    Returns
    -------
    Tensor of shape (batch, token, embed)
    """
    if (input_ids is None) == (inputs_embeds is None):
        raise ArgumentError(
            "the model takes either input_ids or inputs_embeds.",
            got="both" if input_ids is not None else "neither",
        )
    if inputs_embeds is not None:
        return inputs_embeds
    return table(input_ids.reshape(-1, input_ids.shape[-1]))


def attention_mask_of(attention_mask, position_ids, x, past):
    """Which keys the queries may attend to, beside the causal order.

    Parameters
    ----------
    attention_mask : Tensor of shape (batch, key), optional
        1 = a token, 0 = padding, for the cached tokens and the new ones.
    position_ids : int64 Tensor of shape (1 or batch, token), optional
        Without an attention mask and a cache, a position that does not follow the one before
        begins another text in the same row, which does not see the first.
    x : Tensor of shape (batch, token, embed)
    past : int or None
        How many tokens the cache holds; None without a cache.

    Returns
    -------
    bool Tensor that broadcasts to (batch, heads, query, key), or None
        None where there is nothing to block.
    """
    if attention_mask is None:
        packed = past is None and position_ids is not None and position_ids.shape[-1] > 1
        return _apart(position_ids) if packed else None
    batch, keys = x.shape[0], (past or 0) + x.shape[1]
    if attention_mask.ndim == 4 or attention_mask.numel() != batch * keys:
        raise ShapeError(
            "attention_mask: one number for each token, also for those in the cache.",
            got=f"{attention_mask.shape} for {past or 0} cached and {x.shape[1]} new tokens",
            expected=f"{(batch, keys)}",
        )
    attend = attention_mask.reshape(batch, 1, 1, keys) != 0
    return None if _readable(attend) and attend.all().item() else attend


def _apart(position_ids):
    """True where query and key are of the same text: (batch, 1, query, key); None if all are."""
    starts = position_ids[:, 1:] - position_ids[:, :-1] != 1  # (batch, token - 1)
    if _readable(starts) and not starts.any().item():
        return None
    text = ops.pad(ops.cumsum(starts, -1), (1, 0))  # which text each token is of
    return (text.unsqueeze(-1) == text.unsqueeze(-2)).unsqueeze(1)


def _readable(x):
    """Whether looking at a value costs nothing: elsewhere it would wait for the device."""
    return x.device.type == "cpu"


def positions_of(position_ids, x, past):
    """The positions that were given, or those that follow the cache: (1 or batch, token).

    Parameters
    ----------
    position_ids : int64 Tensor of shape (1 or batch, token), optional
    x : Tensor of shape (batch, token, embed)
    past : int or None
        How many tokens the cache holds.
    """
    tokens, past = x.shape[1], past or 0
    if position_ids is None:
        return ops.arange(past, past + tokens, device=x.device).unsqueeze(0)
    position_ids = position_ids.reshape(-1, position_ids.shape[-1])
    if position_ids.shape not in ((1, tokens), x.shape[:2]):
        raise ShapeError(
            "position_ids: one position for each new token.",
            got=f"{position_ids.shape} for {x.shape[0]} rows of {tokens} new tokens",
        )
    return position_ids


@contextmanager
def collecting(config, blocks, modules, output_attentions, output_hidden_states):
    """Watch the model while it runs, for what its paper's code does not return.

    Parameters
    ----------
    config : Config
        Decides where the two flags are None.
    blocks : Module
        Whose attention weights are wanted.
    modules : list of Module
        Whose outputs are the hidden states.
    output_attentions, output_hidden_states : bool or None

    Yields
    ------
    object with `attentions` and `hidden_states`
        After the `with` block tuples of tensors, or None where they were not asked for.
    """
    found = SimpleNamespace(attentions=None, hidden_states=None)
    weights = outputs = None
    with ExitStack() as stack:
        if _asked(config, "output_attentions", output_attentions):
            weights = stack.enter_context(nn.collect_attention(blocks))
        if _asked(config, "output_hidden_states", output_hidden_states):
            outputs = stack.enter_context(nn.collect_outputs(modules))
        yield found
    if weights is not None:
        found.attentions = tuple(w for _, w in weights)
    if outputs is not None:
        found.hidden_states = tuple(x for _, x in outputs)


def _asked(config, name, flag):
    return config.get(name, False) if flag is None else flag


def cache_of(config, past_key_values, use_cache):
    """(the cache to write into or None, whether to return it).

    Parameters
    ----------
    config : Config
        Decides where `use_cache` is None.
    past_key_values : KVCache or sequence of (key, value), optional
    use_cache : bool or None
    """
    wanted = config.use_cache if use_cache is None else use_cache
    cache = nn.KVCache.of(past_key_values)
    return (nn.KVCache() if cache is None and wanted else cache), wanted


def kept(x, logits_to_keep):
    """The tokens whose logits are wanted.

    Parameters
    ----------
    x : Tensor of shape (batch, token, embed)
    logits_to_keep : int or Tensor
        So many of the last tokens, 0 for all; or int64 positions, (position,) for all rows or
        (batch, position); or bools of shape (batch, token), which flatten the result.
    """
    if isinstance(logits_to_keep, int):
        return x[:, -logits_to_keep:] if logits_to_keep else x
    if logits_to_keep.ndim == 1:
        return x[:, logits_to_keep]
    if logits_to_keep.dtype.kind == "b":
        return x[logits_to_keep]
    rows = ops.arange(x.shape[0], device=x.device).unsqueeze(-1)
    return x[rows, logits_to_keep]


def last_tokens(x, input_ids, pad_token_id):
    """The vector of the last token of each row that is not padding.

    Parameters
    ----------
    x : Tensor of shape (batch, token, features)
    input_ids : int64 Tensor of shape (batch, token), optional
        Without ids the last token counts, padding or not.
    pad_token_id : int, optional
        There must be one, unless the batch is a single row.

    Returns
    -------
    Tensor of shape (batch, features)
    """
    if pad_token_id is None and x.shape[0] != 1:
        raise ArgumentError(
            "a batch of several texts needs to know which tokens are padding.",
            got=f"config.pad_token_id=None and {x.shape[0]} rows",
            hint="model.config.pad_token_id = 0, if 0 is the padding",
        )
    if pad_token_id is None or input_ids is None:
        return x[:, -1]
    places = ops.arange(x.shape[1], device=x.device)
    last = (places * (input_ids != pad_token_id)).argmax(-1)  # (batch,)
    return x[ops.arange(x.shape[0], device=x.device), last]


def result(return_dict, **results):
    """An Output, or a tuple with `return_dict=False`."""
    output = Output(**results)
    return output.to_tuple() if return_dict is False else output
