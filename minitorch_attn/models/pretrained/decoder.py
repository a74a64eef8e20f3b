"""Helpers for decoder models with the Hugging Face interface: masks, positions and outputs."""

from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

from ... import nn, ops
from ...errors import ArgumentError, ShapeError
from .encoder import decoder_mask
from .output import Output

__all__ = [
    "attention_mask_of", "cache_of", "collecting", "embeddings_of", "kept", "last_tokens",
    "positions_of", "result",
]  # fmt: skip


def embeddings_of(table, input_ids, inputs_embeds):
    """Return the given embeddings, or look up the embeddings of the given ids.

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
            "exactly one of input_ids and inputs_embeds must be given",
            got="both" if input_ids is not None else "neither",
            hint="pass either the token ids (input_ids) or their vectors (inputs_embeds)",
        )
    if inputs_embeds is not None:
        return inputs_embeds
    return table(input_ids.reshape(-1, input_ids.shape[-1]))


def attention_mask_of(attention_mask, position_ids, x, past):
    """Return the mask of padding or of separate texts, which is combined with the causal mask.

    Parameters
    ----------
    attention_mask : Tensor of shape (batch, key), optional
        Mask for the cached and the new tokens, with 1 for tokens and 0 for padding. A mask with
        four axes replaces the causal mask; see `decoder_mask`.
    position_ids : int64 Tensor of shape (1 or batch, token), optional
        If there is neither a mask nor a cache, several texts can share a row. A position that is
        not the previous position plus 1 starts a new text. Tokens attend only to tokens of the same
        text.
    x : Tensor of shape (batch, token, embed)
    past : int or None
        Number of cached tokens; None without a cache.

    Returns
    -------
    bool Tensor that broadcasts to (batch, heads, query, key), CompleteMask, or None
        A `CompleteMask` (for a mask with four axes) replaces the causal mask. None if no key is
        masked.
    """
    if attention_mask is None:
        packed = past is None and position_ids is not None and position_ids.shape[-1] > 1
        return _same_text(position_ids) if packed else None
    batch, keys = x.shape[0], (past or 0) + x.shape[1]
    if attention_mask.ndim == 4:
        return decoder_mask(attention_mask, batch, keys)
    if attention_mask.numel() != batch * keys:
        raise ShapeError(
            "attention_mask does not match the number of cached and new tokens",
            got=f"{attention_mask.shape} for {past or 0} cached and {x.shape[1]} new tokens",
            expected=f"{(batch, keys)}",
            hint="concatenate the mask of the cached tokens and the mask of the new tokens",
        )
    attend = attention_mask.reshape(batch, 1, 1, keys) != 0
    return None if _readable(attend) and attend.all().item() else attend


def _same_text(position_ids):
    """Return a mask that is True where the query and the key are in the same text.

    A position that is not the previous position plus 1 starts a new text. If every row contains a
    single text, no mask is needed, and the function returns None. It checks this only on a CPU,
    because on a GPU the check would wait for the device.
    """
    starts = position_ids[:, 1:] - position_ids[:, :-1] != 1  # (batch, token - 1)
    if _readable(starts) and not starts.any().item():
        return None
    text = ops.pad(ops.cumsum(starts, -1), (1, 0))  # index of each token's text in its row
    return (text.unsqueeze(-1) == text.unsqueeze(-2)).unsqueeze(1)


def _readable(x):
    """Return whether reading a value of `x` is cheap. On a GPU, reading waits for the device."""
    return x.device.type == "cpu"


def positions_of(position_ids, x, past):
    """Return `position_ids`, or by default the positions (1, token) after the cached tokens.

    Parameters
    ----------
    position_ids : int64 Tensor of shape (1 or batch, token), optional
    x : Tensor of shape (batch, token, embed)
    past : int or None
        Number of cached tokens; None without a cache.
    """
    tokens, past = x.shape[1], past or 0
    if position_ids is None:
        return ops.arange(past, past + tokens, device=x.device).unsqueeze(0)
    position_ids = position_ids.reshape(-1, position_ids.shape[-1])
    if position_ids.shape not in ((1, tokens), x.shape[:2]):
        raise ShapeError(
            "position_ids does not match the number of new tokens",
            got=f"{position_ids.shape} for {x.shape[0]} rows of {tokens} new tokens",
            hint="omit position_ids to continue after the cached tokens",
        )
    return position_ids


@contextmanager
def collecting(config, blocks, modules, output_attentions, output_hidden_states):
    """Collect attention weights and hidden states while the model runs in the `with` block.

    Parameters
    ----------
    config : Config
        Configuration that supplies the value of each flag that is None.
    blocks : Module
        Module whose attention weights are collected.
    modules : list of Module
        Modules whose outputs are the hidden states.
    output_attentions, output_hidden_states : bool or None

    Yields
    ------
    object with `attentions` and `hidden_states`
        Set after the `with` block: tuples of tensors, or None if not requested.
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
    """Return the cache to write to (or None), and whether the model returns the cache.

    Parameters
    ----------
    config : Config
        Configuration whose value of `use_cache` is used if the argument is None.
    past_key_values : KVCache or sequence of (key, value), optional
    use_cache : bool or None
    """
    wanted = config.use_cache if use_cache is None else use_cache
    cache = nn.KVCache.of(past_key_values)
    return (nn.KVCache() if cache is None and wanted else cache), wanted


def kept(x, logits_to_keep):
    """Select the tokens whose logits are computed.

    Parameters
    ----------
    x : Tensor of shape (batch, token, embed)
    logits_to_keep : int or Tensor
        Number of tokens to keep at the end (0 keeps all tokens); or int64 positions of shape
        (position,) or (batch, position); or a bool mask of shape (batch, token). With a bool mask,
        the result has shape (selected, embed).
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
    """Return each row's vector at the last token that is not padding.

    Parameters
    ----------
    x : Tensor of shape (batch, token, features)
    input_ids : int64 Tensor of shape (batch, token), optional
        Token ids. If None, the last position is used, even if it is padding.
    pad_token_id : int, optional
        Id of the padding token. Required if the batch has more than one row.

    Returns
    -------
    Tensor of shape (batch, features)
    """
    if pad_token_id is None and x.shape[0] != 1:
        raise ArgumentError(
            "config.pad_token_id must be set to find the last token in a batch of several texts",
            got=f"config.pad_token_id=None and {x.shape[0]} rows",
            hint="set model.config.pad_token_id = 0, if 0 is the id of the padding token",
        )
    if pad_token_id is None or input_ids is None:
        return x[:, -1]
    places = ops.arange(x.shape[1], device=x.device)
    last = (places * (input_ids != pad_token_id)).argmax(-1)  # (batch,)
    return x[ops.arange(x.shape[0], device=x.device), last]


def result(return_dict, **results):
    """Return an Output, or a tuple if `return_dict` is False."""
    output = Output(**results)
    return output.to_tuple() if return_dict is False else output
