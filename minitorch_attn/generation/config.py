"""GenerationConfig: the settings of `generate`, with their defaults and checks."""

import warnings

from ..errors import ArgumentError
from ..named_errors import NamedErrors
from ..schema import (
    COUNT,
    FLAG,
    INTEGER,
    NON_NEGATIVE,
    NUMBER,
    SIZE,
    TEXT,
    Kind,
    check,
    choice,
    either,
    list_of,
    optional,
    record,
)  # fmt: skip

__all__ = ["GenerationConfig"]

# Default value of each field. None means that the field has no effect.
DEFAULTS = {
    "max_length": 20, "max_new_tokens": None, "min_length": 0, "min_new_tokens": None,
    "early_stopping": False, "max_time": None, "stop_strings": None, "do_sample": False,
    "num_beams": 1, "use_cache": True, "temperature": 1.0, "top_k": 50, "top_p": 1.0,
    "min_p": None, "top_h": None, "typical_p": 1.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0,
    "repetition_penalty": 1.0, "encoder_repetition_penalty": 1.0, "length_penalty": 1.0,
    "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "bad_words_ids": None,
    "renormalize_logits": False, "forced_bos_token_id": None, "forced_eos_token_id": None,
    "remove_invalid_values": False, "exponential_decay_length_penalty": None,
    "suppress_tokens": None, "begin_suppress_tokens": None, "sequence_bias": None,
    "num_return_sequences": 1, "output_attentions": False, "output_hidden_states": False,
    "output_scores": False, "output_logits": False, "return_dict_in_generate": False,
    "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
    "decoder_start_token_id": None,
}  # fmt: skip

# Unsupported fields of Hugging Face, and values (besides None) for which they have no effect.
INERT = {
    "assistant_early_exit": (), "assistant_ensemble_weight": (), "cache_config": ({},),
    "cache_implementation": ("dynamic", "static"), "compile_config": (), "constraints": ([],),
    "continuous_batching_config": (), "diversity_penalty": (0,), "dola_layers": (),
    "force_words_ids": ([],), "guidance_scale": (1,), "is_assistant": (False,),
    "low_memory": (False,), "num_beam_groups": (1,), "penalty_alpha": (0,),
    "prefill_chunk_size": (), "prompt_lookup_num_tokens": (), "speculation_type": (),
    "token_healing": (False,), "use_mtp": (False,), "watermarking_config": (),
}  # fmt: skip

# Fields that only select an implementation, or that belong to an unsupported feature.
WITHOUT_EFFECT = {
    "assistant_confidence_threshold", "assistant_lookbehind", "disable_compile", "max_cache_len",
    "max_matching_ngram_size", "num_assistant_tokens", "num_assistant_tokens_schedule",
    "target_lookbehind", "transformers_version", "_from_model_config", "_commit_hash",
}  # fmt: skip

# Fields for which None means the default value. In other fields, None disables the feature.
NEVER_NONE = {
    "early_stopping", "length_penalty", "max_length", "min_length", "num_beams",
    "num_return_sequences", "use_cache",
}  # fmt: skip

# Kind of each field in a file. A null is treated like a missing field.
_SOME = Kind("a list of token ids", lambda ids: bool(ids) and not list_of(INTEGER).problem(ids, ""))
_IDS = either(INTEGER, _SOME)
_BEAMS = Kind("an integer from 1 to 10000", lambda n: SIZE.accepts(n) and n <= 10_000)
_BIAS = Kind(
    "a pair of token ids and a number",
    lambda pair: isinstance(pair, list) and len(pair) == 2
    and _SOME.accepts(pair[0]) and NUMBER.accepts(pair[1]),
)  # fmt: skip
KINDS = {
    name: optional(kind)
    for kind, names in (
        (COUNT, "max_length min_length min_new_tokens top_k no_repeat_ngram_size "
                "encoder_no_repeat_ngram_size"),
        (SIZE, "max_new_tokens"),
        (_BEAMS, "num_beams num_return_sequences"),
        (FLAG, "do_sample use_cache renormalize_logits remove_invalid_values output_attentions "
               "output_hidden_states output_scores output_logits return_dict_in_generate"),
        (NUMBER, "max_time temperature length_penalty"),
        (NON_NEGATIVE, "top_p min_p top_h typical_p epsilon_cutoff eta_cutoff repetition_penalty "
                       "encoder_repetition_penalty"),
        (_IDS, "forced_bos_token_id forced_eos_token_id eos_token_id decoder_start_token_id"),
        (INTEGER, "pad_token_id bos_token_id"),
        (list_of(INTEGER), "suppress_tokens begin_suppress_tokens"),
        (list_of(list_of(INTEGER)), "bad_words_ids"),
        (list_of(NUMBER, 2), "exponential_decay_length_penalty"),
        (either(TEXT, list_of(TEXT)), "stop_strings"),
        (choice(True, False, "never"), "early_stopping"),
        (list_of(_BIAS), "sequence_bias"),
    )
    for name in names.split()
}  # fmt: skip


def check_fields(fields, where, error):
    """Raise an error if a field of `generation_config.json` has the wrong type."""
    check(fields, record({}, KINDS), where, error, "restore the file, or leave the field out")


KNOWN = DEFAULTS.keys() | INERT.keys() | WITHOUT_EFFECT
EXTRAS = ("output_attentions", "output_hidden_states", "output_scores", "output_logits")


class GenerationConfig(NamedErrors):
    """Fields of `generation_config.json` as attributes. A field that is not set is None.

    Parameters
    ----------
    **fields
        See `generate`. Unknown fields, which occur in published files, are kept and have no effect,
        as in Hugging Face.

    Examples
    --------
    >>> config = GenerationConfig(num_beams=4, eos_token_id=[2, 3])
    >>> config.num_beams, config.max_new_tokens
    (4, None)
    """

    def __init__(self, **fields):
        vars(self).update(fields)

    def __getattr__(self, name):
        if name in KNOWN:
            return None
        raise AttributeError(f"GenerationConfig has no field {name!r}")

    def __eq__(self, other):
        return isinstance(other, GenerationConfig) and self.to_dict() == other.to_dict()

    def __repr__(self):
        return f"GenerationConfig({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"

    def to_dict(self):
        """Return the fields that are set, as a dict."""
        return dict(vars(self))


def stored_fields(model):
    """Return the generation settings from the model's folder.

    The file is `generation_config.json` or, if that is missing, `config.json`.
    """
    stored = getattr(model, "generation_config", None) or {}
    if isinstance(stored, GenerationConfig):
        stored = stored.to_dict()
    if stored:
        return dict(stored)
    found = {name: model.config.get(name) for name in DEFAULTS}
    if found["output_attentions"] or found["output_hidden_states"]:
        found["return_dict_in_generate"] = True
    return found


def resolve(model, given, arguments):
    """Merge settings, in this order of precedence: `arguments`, `given`, the model's, the defaults.

    Parameters
    ----------
    model : PretrainedModel
    given : GenerationConfig, dict or None
        The argument `generation_config`.
    arguments : dict
        Fields passed as arguments of `generate`.

    Returns
    -------
    GenerationConfig
        Configuration with a value for every field in `DEFAULTS`. `own_max_length` is True if
        max_length is not the default, and `own_min_length` is True if min_length is not.
    """
    given = given.to_dict() if isinstance(given, GenerationConfig) else dict(given or {})
    arguments = {k: v for k, v in arguments.items() if v is not None or k not in NEVER_NONE}
    fields = {}
    for layer in (stored_fields(model), given):
        fields.update({name: value for name, value in layer.items() if value is not None})
    own = [
        any(layer.get(name) is not None for layer in (fields, arguments))
        for name in ("max_length", "min_length")
    ]
    fields = {**DEFAULTS, **fields, **arguments}
    config = GenerationConfig(**fields)
    config.own_max_length, config.own_min_length = own
    _refuse_unsupported(config)
    _check(config, arguments)
    return config


def _refuse_unsupported(config):
    for name, harmless in INERT.items():
        value = getattr(config, name)
        if value is not None and value not in harmless:
            raise ArgumentError(
                f"generate: this value of {name} is not supported",
                got=f"{name}={value!r}", expected=" or ".join(["None", *map(repr, harmless)]),
                hint=f"leave {name} out of the call and of generation_config.json",
            )  # fmt: skip


def _check(config, arguments):
    """Raise an error for invalid or contradictory fields, and warn about unused arguments."""
    for name in ("num_beams", "num_return_sequences"):
        value = getattr(config, name)
        if not isinstance(value, int) or value < 1:
            raise ArgumentError(f"generate: {name} must be a positive integer", got=repr(value))
    if config.early_stopping not in (True, False, "never"):
        raise ArgumentError(
            "generate: early_stopping is invalid",
            got=repr(config.early_stopping), expected="True, False or 'never'",
        )  # fmt: skip
    returned, beams = config.num_return_sequences, config.num_beams
    if returned > beams and (beams > 1 or not config.do_sample):
        raise ArgumentError(
            "generate: num_return_sequences must be at most num_beams",
            got=f"num_return_sequences={returned}, num_beams={beams}, do_sample={config.do_sample}",
            hint="pass do_sample=True and num_beams=1 to return any number of sequences",
        )
    for name in ("max_new_tokens", "max_time"):
        value = getattr(config, name)
        if value is not None and value <= 0:
            raise ArgumentError(f"generate: {name} must be positive", got=repr(value))
    _check_forced(config)
    _warn_unused(config, arguments)


def _check_forced(config):
    """Check that forced tokens are not suppressed."""
    suppressed = set(config.suppress_tokens or ())
    for name in ("forced_bos_token_id", "forced_eos_token_id"):
        forced = getattr(config, name)
        forced = {forced} if isinstance(forced, int) else set(forced or ())
        if forced and forced <= suppressed:
            raise ArgumentError(
                f"generate: suppress_tokens must not contain all tokens of {name}",
                got=f"{name}={getattr(config, name)}, suppress_tokens={config.suppress_tokens}",
                hint="to delay the end of the text, use min_new_tokens instead",
            )


def _warn_unused(config, arguments):
    """Warn about arguments that the chosen search does not use."""
    unused = []
    if not config.do_sample:
        drawing = ("temperature", "top_k", "top_p", "min_p", "top_h", "typical_p")
        unused += [*drawing, "epsilon_cutoff", "eta_cutoff"]
    if config.num_beams == 1:
        unused += ["length_penalty", "early_stopping"]
    if not config.return_dict_in_generate:
        unused += EXTRAS
    unused = [n for n in unused if n in arguments and arguments[n] not in (None, DEFAULTS[n])]
    if unused:
        warnings.warn(
            f"generate: {', '.join(unused)} have no effect: sampling options require "
            "do_sample=True, length_penalty and early_stopping require num_beams > 1, and output_* "
            "require return_dict_in_generate=True",
            stacklevel=5,
        )
