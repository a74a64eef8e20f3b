"""Generation prompt: ids, masks, positions and the encoder's output for the first step."""

import inspect
import warnings
from dataclasses import dataclass, field

from .. import ops
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor, tensor
from .output import GenerateOutput

__all__ = ["Prompt", "decoder_prompt", "encoder_decoder_prompt"]

NOT_FROM_OUTSIDE = {"labels", "logits_to_keep", "return_dict"}  # callers may not pass these
GROWING = {"token_type_ids"}  # arguments with one value per token, extended for new tokens


@dataclass
class Prompt:
    """Arguments of the first generation step. Tensors (row, ...) have one row for each sequence.

    Attributes
    ----------
    ids : int64 Tensor of shape (row, token)
        The decoder's first ids.
    mask, positions : int64 Tensor of shape (row, token), or None
        Attention mask (0 at padding), and positions of the tokens.
    constants, growing, embedded, covered
        See `Stepper`.
    source : int64 Tensor of shape (batch, token), or None
        Ids of the encoder's input or, without an encoder, of the prompt.
    encoded : mapping or None
        The encoder's output.
    """

    ids: Tensor
    mask: Tensor = None
    positions: Tensor = None
    constants: dict = field(default_factory=dict)
    growing: dict = field(default_factory=dict)
    embedded: Tensor = None
    covered: int = None
    source: Tensor = None
    encoded: dict = None

    def repeat(self, times):
        """Repeat each row of the prompt `times` times."""
        if times == 1:
            return self
        self.encoded = _repeat(self.encoded, times)
        for name in ("ids", "mask", "positions", "embedded", "constants", "growing"):
            setattr(self, name, _repeat(getattr(self, name), times))
        if self.encoded is not None:
            self.constants["encoder_outputs"] = self.encoded
        return self


def _repeat(value, times):
    """Repeat the rows of a tensor or of each tensor in a mapping."""
    if isinstance(value, Tensor):
        return value.repeat_interleave(times, 0)
    if isinstance(value, dict):
        return type(value)(**{name: _repeat(v, times) for name, v in value.items()})
    return value


def as_ids(value, name, device):
    """Return token ids on the model's device as an int64 Tensor of shape (row, token)."""
    ids = (value if isinstance(value, Tensor) else tensor(value)).to(device)
    if ids.ndim != 2 or ids.dtype.kind not in "iu":
        raise ShapeError(
            f"generate: {name} must have shape (batch, token) and an integer dtype",
            got=f"shape {ids.shape}, dtype {ids.dtype}",
            hint="pass ids.unsqueeze(0) for a single prompt",
        )
    return ids.long()


def accepted(model):
    """Return the argument names of the model's `forward`."""
    return set(inspect.signature(model.forward).parameters)


def _take_mask(arguments, name, device):
    mask = arguments.pop(name, None)
    return None if mask is None else as_ids(_numbers(mask), name, device)


def _numbers(mask):
    mask = mask if isinstance(mask, Tensor) else tensor(mask)
    return mask.long() if mask.dtype.kind == "b" else mask


def _constants(model, arguments):
    """Return the arguments that are not None. Raise an error if the model does not accept them."""
    unknown = sorted(
        name for name in arguments if name not in accepted(model) or name in NOT_FROM_OUTSIDE
    )
    if unknown:
        raise ArgumentError(
            f"generate: neither generate nor {type(model).__name__} accepts these arguments",
            got=", ".join(unknown),
            hint="check the spelling; help(minitorch_attn.generation.generate) lists the arguments",
        )
    return {name: value for name, value in arguments.items() if value is not None}


def decoder_prompt(model, config, ids, arguments, device):
    """Prepare the prompt of a model without an encoder.

    Parameters
    ----------
    model : PretrainedModel
    config : GenerationConfig
    ids : Tensor, list or None
        Ids of the prompts. If None, the text starts with `bos_token_id`.
    arguments : dict
        The caller's arguments for the model.
    device : Device

    Returns
    -------
    Prompt
    """
    embedded = arguments.pop("inputs_embeds", None)
    mask = _take_mask(arguments, "attention_mask", device)
    if ids is not None:
        ids = as_ids(ids, "input_ids", device)
    elif embedded is not None:
        ids = ops.zeros(embedded.shape[0], 0, dtype="int64", device=device)
    else:
        ids = _first_tokens(config, mask, device)
    length = ids.shape[1] if ids.shape[1] else embedded.shape[1]
    given_mask, covered = mask, length if mask is None else mask.shape[1]
    if mask is None:
        mask = _mask_of_padding(config, ids) if ids.shape[1] else None
    _warn_about_padding_behind(config, ids, given_mask)
    names = accepted(model)
    positions = arguments.pop("position_ids", None)
    if positions is None and "position_ids" in names:
        positions = _positions(mask, ids.shape[0], length, device)
    growing = {n: arguments.pop(n) for n in GROWING & names if arguments.get(n) is not None}
    if mask is not None and bool((mask == 1).all()):
        mask = None  # computing without a mask is faster
    constants = _constants(model, arguments)
    if "logits_to_keep" in names:
        constants["logits_to_keep"] = 1
    return Prompt(
        ids, mask, positions, constants, growing, embedded, covered,
        source=ids if ids.shape[1] else None,
    )  # fmt: skip


def _first_tokens(config, mask, device):
    """Return a row with `bos_token_id` for each row of `mask`, or one row if `mask` is None."""
    if config.bos_token_id is None:
        raise ArgumentError(
            "generate: the prompt is missing",
            got="neither input_ids nor bos_token_id",
            hint="pass input_ids, or set bos_token_id to the id of the first token",
        )
    rows = 1 if mask is None else mask.shape[0]
    return ops.full((rows, 1), config.bos_token_id, dtype="int64", device=device)


def _mask_of_padding(config, ids):
    """Return a mask that is 0 at padding and 1 elsewhere.

    Return None if there is no padding. Also return None if the pad token is an end token too,
    because real end tokens would then be taken for padding.
    """
    pad, ends = config.pad_token_id, config.eos_token_id
    ends = ends if isinstance(ends, (list, tuple)) else [ends]
    if pad is None or pad in ends:
        return None
    mask = ids != pad
    return None if bool(mask.all()) else mask.long()


def _warn_about_padding_behind(config, ids, mask):
    """Warn about rows that end with padding, because generation continues after the padding."""
    if ids.shape[0] == 1 or config.pad_token_id is None or not ids.shape[1]:
        return
    last = mask[:, -1] == 0 if mask is not None else ids[:, -1] == config.pad_token_id
    if bool(last.any()):
        warnings.warn(
            "generate: some rows end in padding, and generation continues after it; pad prompts "
            "on the left",
            stacklevel=4,
        )


def _positions(mask, rows, length, device):
    """Return the position of each token, not counting padding. Padding has position 0."""
    if mask is None:
        return ops.arange(length, device=device).expand(rows, length)
    return (mask.cumsum(-1) - 1).masked_fill(mask == 0, 0)


def encoder_decoder_prompt(model, config, ids, arguments, device):
    """Encode the input and prepare the decoder's first ids. See `decoder_prompt` for arguments."""
    mask = _take_mask(arguments, "attention_mask", device)
    decoder_mask = _take_mask(arguments, "decoder_attention_mask", device)
    begun = arguments.pop("decoder_input_ids", None)
    encoded = arguments.pop("encoder_outputs", None)
    if encoded is None:
        ids, encoded = _encode(model, config, ids, mask, arguments, device)
    else:
        encoded = _as_output(encoded)
    batch = encoded["last_hidden_state"].shape[0]
    start = _start_tokens(config, batch, device)
    decoder_ids, decoder_mask = _begin(start, begun, decoder_mask, device)
    constants = _constants(model, arguments)
    constants.update(encoder_outputs=encoded)
    if mask is not None:
        constants.update(attention_mask=mask)
    if "logits_to_keep" in accepted(model):
        constants["logits_to_keep"] = 1
    covered = None if decoder_mask is None else decoder_mask.shape[1]
    return Prompt(
        decoder_ids, decoder_mask, constants=constants, covered=covered, source=ids,
        encoded=encoded,
    )  # fmt: skip


def _encode(model, config, ids, mask, arguments, device):
    embedded = arguments.pop("inputs_embeds", None)
    if ids is not None and embedded is not None:
        raise ArgumentError("generate: input_ids and inputs_embeds must not both be given")
    if embedded is not None:
        inputs = {"inputs_embeds": embedded}
    else:
        ids = _first_tokens(config, mask, device) if ids is None else ids
        ids = as_ids(ids, "input_ids", device)
        inputs = {"input_ids": ids}
    for name in ("output_attentions", "output_hidden_states"):
        if getattr(config, name):
            inputs[name] = True
    return ids, model.get_encoder()(**inputs, attention_mask=mask)


def _as_output(encoded):
    """Convert an encoder's output (a tensor, tuple or dict) to a dict."""
    if isinstance(encoded, dict):
        return encoded
    hidden = encoded if isinstance(encoded, Tensor) else encoded[0]
    return GenerateOutput(last_hidden_state=hidden)


def _start_tokens(config, batch, device):
    """Return the start token of the decoder for each input, with shape (batch, 1)."""
    start = config.decoder_start_token_id
    start = config.bos_token_id if start is None else start
    if start is None:
        raise ArgumentError(
            "generate: decoder_start_token_id is missing",
            got="neither decoder_start_token_id nor bos_token_id",
            hint="pass decoder_start_token_id, or set it in generation_config.json",
        )
    if isinstance(start, int):
        return ops.full((batch, 1), start, dtype="int64", device=device)
    start = as_ids([[int(i)] for i in start], "decoder_start_token_id", device)
    if start.shape[0] != batch:
        raise ShapeError(
            "generate: decoder_start_token_id must have one id for each input",
            got=f"{start.shape[0]} ids for {batch} inputs",
            hint="pass one int to start every input with the same id",
        )
    return start


def _begin(start, begun, mask, device):
    """Return the decoder's first ids and mask. Add the start token if no row starts with it."""
    if begun is None:
        return start, mask
    begun = as_ids(begun, "decoder_input_ids", device)
    if bool((begun[:, :1] != start).all()):
        begun = ops.cat((start, begun), 1)
        if mask is not None:
            mask = ops.cat((ops.ones_like(mask[:, :1]), mask), 1)
    return begun, mask
