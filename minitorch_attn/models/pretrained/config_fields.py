"""Types of the fields of `config.json`, for checking a model's configuration.

A field must have the type of its default value, unless a table below lists a different type. The
tables agree with the type annotations in transformers' configuration classes.
"""

from ...errors import CheckpointError
from ...generation.config import KINDS
from ...schema import (
    ANY,
    COUNT,
    FLAG,
    INTEGER,
    NON_NEGATIVE,
    NUMBER,
    SHARE,
    SIZE,
    TEXT,
    Kind,
    check,
    choice,
    either,
    like,
    list_of,
    map_of,
    optional,
    record,
)  # fmt: skip

__all__ = ["check_config", "check_sizes", "check_timm"]


def _each(kind, names):
    return dict.fromkeys(names.split(), kind)


_PAIR = either(SIZE, list_of(SIZE, 1, 2))
_POSITIVE = Kind("a positive number", lambda value: NUMBER.accepts(value) and value > 0)
_ROTARY = record(
    {},
    _each(TEXT, "type rope_type")
    | _each(_POSITIVE, "factor rope_theta low_freq_factor high_freq_factor beta_fast beta_slow")
    | _each(optional(NUMBER), "attention_factor mscale mscale_all_dim partial_rotary_factor")
    | _each(optional(SIZE), "original_max_position_embeddings")
    | {"truncate": FLAG},
)
# Fields of `pretrained_cfg` in timm's config.json, which describes the weights. The code that uses
# the fields for preprocessing checks them.
WEIGHTS = record(
    {},
    {
        "input_size": optional(list_of(SIZE, 3)), "num_classes": optional(INTEGER),
        "fixed_input_size": optional(FLAG), "global_pool": optional(TEXT),
    },
)  # fmt: skip

# Fields without a default value, and fields whose type is not the type of the default value.
_FIELDS = {
    **KINDS,  # older files contain the settings of `generate`
    **_each(SIZE, "vocab_size hidden_size n_embd d_model embed_dim intermediate_size d_kv d_ff "
            "num_attention_heads n_head encoder_attention_heads decoder_attention_heads "
            "encoder_ffn_dim decoder_ffn_dim decoder_hidden_size decoder_intermediate_size "
            "decoder_num_attention_heads n_positions max_position_embeddings num_channels "
            "relative_attention_num_buckets relative_attention_max_distance encoder_stride"),
    **_each(COUNT, "num_hidden_layers n_layer encoder_layers decoder_layers num_layers "
            "type_vocab_size decoder_num_hidden_layers num_labels"),
    **_each(NON_NEGATIVE, "class_cost bbox_cost giou_cost bbox_loss_coefficient "
            "giou_loss_coefficient mask_loss_coefficient dice_loss_coefficient eos_coefficient"),
    **_each(optional(map_of(ANY)), "backbone_config backbone_kwargs"),
    **_each(optional(FLAG), "use_timm_backbone use_pretrained_backbone"),
    "backbone": optional(TEXT), "num_queries": SIZE,
    **_each(optional(SIZE), "n_inner num_key_value_heads head_dim decoder_vocab_size "
            "pooler_output_size original_max_position_embeddings"),
    **_each(_PAIR, "image_size patch_size"),
    **_each(optional(SHARE), "classifier_dropout attention_dropout"),
    "sep_token_id": optional(INTEGER),
    **_each(NON_NEGATIVE, "layer_norm_epsilon layer_norm_eps rms_norm_eps initializer_range "
            "init_std initializer_factor mlp_ratio"),
    **_each(SHARE, "resid_pdrop embd_pdrop attn_pdrop hidden_dropout_prob "
            "attention_probs_dropout_prob dropout activation_dropout "
            "dropout_rate drop_path_rate encoder_layerdrop decoder_layerdrop "
            "summary_first_dropout summary_last_dropout hidden_dropout"),
    **_each(FLAG, "return_dict is_decoder is_gated_act "
"token_classification_bias scale_decoder_outputs tie_encoder_decoder"),
    **_each(optional(_ROTARY), "rope_scaling rope_parameters"),
    **_each(optional(list_of(TEXT)), "architectures out_features"),
    **_each(optional(list_of(COUNT)), "pretrained_window_sizes"),
    "depths": list_of(COUNT), "out_indices": optional(list_of(INTEGER)),
    "num_decoder_layers": optional(COUNT), "mask_ratio": SHARE, "window_size": SIZE,
    "rope_theta": _POSITIVE,
    "partial_rotary_factor": optional(NUMBER), "pruned_heads": optional(map_of(ANY)),
    "id2label": optional(map_of(TEXT)), "label2id": ANY, "pretraining_tp": ANY,
    "summary_activation": optional(TEXT), "dense_act_fn": TEXT, "hidden_act": TEXT,
    "problem_type": optional(choice(
        "regression", "single_label_classification", "multi_label_classification")),
    "architecture": TEXT, "pretrained_cfg": optional(WEIGHTS), "num_classes": COUNT,
    "model_args": optional(map_of(ANY)), "position_embedding_type": TEXT,
    "position_embeddings_type": optional(TEXT), "output_hidden_size": optional(SIZE),
}  # fmt: skip
# Arguments of timm's classes, in `model_args`.
_TIMM = {
    **_each(_PAIR, "img_size patch_size"),
    **_each(SIZE, "base_width cardinality embed_dim in_chans output_stride"),
    **_each(COUNT, "num_classes depth reg_tokens"),
    **_each(SHARE, "drop_rate pos_drop_rate patch_drop_rate proj_drop_rate attn_drop_rate "
            "drop_path_rate"),
    **_each(optional(TEXT), "act_layer mlp_layer"),
    **_each(optional(either(TEXT, list_of(ANY, 2))), "norm_layer embed_norm_layer"),
    "window_size": either(SIZE, list_of(_PAIR)), "num_heads": either(SIZE, list_of(SIZE)),
    "depths": list_of(COUNT), "layers": list_of(COUNT), "channels": list_of(SIZE),
    "head_dim": optional(SIZE), "init_values": optional(NUMBER),
    "fc_norm": optional(FLAG), "pretrained_window_sizes": list_of(COUNT),
    "mlp_ratio": either(NON_NEGATIVE, list_of(NON_NEGATIVE)),
}  # fmt: skip

_LAYERS = (
    "num_hidden_layers", "n_layer", "encoder_layers", "decoder_layers", "num_layers",
    "num_decoder_layers", "decoder_num_hidden_layers", "depths", "depth",
    "layers",
)  # fmt: skip
_WIDTHS = (
    "vocab_size", "hidden_size", "n_embd", "d_model", "embed_dim", "intermediate_size", "n_inner",
    "d_ff", "d_kv", "encoder_ffn_dim", "decoder_ffn_dim", "type_vocab_size", "decoder_vocab_size",
    "channels",
)  # fmt: skip


def check_config(config, defaults, where, error):
    """Raise an error if a field of a configuration has the wrong type.

    Parameters
    ----------
    config : Config
    defaults : dict
        Default values of the model's fields.
    where : str
        Name of the configuration for error messages.
    error : class
        Class of the error.
    """
    fields = config.to_dict()
    kinds = {name: _FIELDS.get(name) or like(defaults.get(name)) for name in fields}
    kinds["num_heads"] = list_of(SIZE) if "depths" in defaults else SIZE  # Swin: one per stage
    if defaults.get("vocab_size", 0) is None:  # vocab_size is optional in these models
        kinds["vocab_size"] = optional(SIZE)
    check(fields, record({}, kinds), where, error, "restore the file from its source")


def check_timm(config, arguments, where, error):
    """Raise an error if a field of timm's `config.json` has the wrong type.

    Parameters
    ----------
    config, where, error
        As for `check_config`.
    arguments : dict
        Arguments of timm's class and their defaults.
    """
    check(config.to_dict(), WEIGHTS, where, error)
    kinds = {name: _TIMM.get(name) or like(value) for name, value in arguments.items()}
    kinds["num_heads"] = list_of(SIZE) if "depths" in arguments else SIZE
    check(config.get("model_args") or {}, record({}, kinds), f"{where}: model_args", error)


def check_sizes(fields, arrays, where, strict):
    """Raise an error if a configuration describes a much larger model than the file contains.

    The number of layers cannot exceed the number of tensors in the file, and a width cannot exceed
    the total number of elements of these tensors. Without this check, a damaged field could make
    the model use up all memory.

    Parameters
    ----------
    fields : dict
        Fields of the configuration.
    arrays : dict of array
        Arrays in the file, with stored names as keys.
    where : str
        Name of the configuration for error messages.
    strict : bool
        Whether the file must contain all tensors of the model, so that its contents limit the
        sizes. If False, the limits are constants, which only extremely large numbers of layers and
        widths exceed.
    """
    elements = sum(array.size for array in arrays.values())
    arguments = {**fields, **(fields.get("model_args") or {})}
    limits = (
        (_LAYERS, len(arrays), ", the number of tensors"),
        (_WIDTHS, elements, ", the number of elements"),
    )
    for names, limit, what in limits if strict else ((_LAYERS, 1000, ""), (_WIDTHS, 1 << 24, "")):
        for name in names:
            value = arguments.get(name) or 0
            total = sum(value) if isinstance(value, list | tuple) else value
            if total > limit:
                raise CheckpointError(
                    f"{where}: {name} does not fit the tensors in the folder",
                    got=f"{name}={value}", expected=f"at most {limit}{what}",
                    hint="use config.json and weights from the same download",
                )  # fmt: skip
