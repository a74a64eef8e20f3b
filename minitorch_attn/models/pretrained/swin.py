"""Swin Transformer with the Hugging Face interface; the model is in `models/swin.py`."""

from ... import nn
from ...backend import array_module
from ...errors import ShapeError
from ..swin import Swin
from .activations import activation
from .swin_huggingface import (  # fmt: skip
    DEFAULTS,
    Backbone,
    BaseHead,
    ClassificationHead,
    MaskedImageHead,
    SwinFamilyModel,
    pair,
)

__all__ = [
    "SwinBackbone", "SwinForImageClassification", "SwinForMaskedImageModeling", "SwinModel",
]  # fmt: skip

_OLD_NAMES = {  # names in files from before transformers 5; the first match is used
    "attention.self.query": "attention.q_proj",
    "attention.self.key": "attention.k_proj",
    "attention.self.value": "attention.v_proj",
    "attention.output.dense": "attention.o_proj",
    "intermediate.dense": "mlp.fc1",
    "output.dense": "mlp.fc2",
}
_OLD_TABLE = "attention.self.relative_position_bias_table"
_NEW_TABLE = "attention.relative_position_bias.relative_position_bias_table"


class SwinPreTrainedModel(SwinFamilyModel):
    """Base class for the Swin models.

    As in Hugging Face, a feature map smaller than the window raises an error. If the shorter side
    of a feature map is as long as the window, its windows are not shifted.
    """

    model_type, base_prefix, has_old_names = "swin", "swin", False
    defaults = DEFAULTS
    old_names = {
        f"{old}.{kind}": f"{new}.{kind}"
        for old, new in _OLD_NAMES.items()
        for kind in ("weight", "bias")
    } | {_OLD_TABLE: _NEW_TABLE}
    block_names = {
        "attention.q_proj": "attention.q_proj", "attention.k_proj": "attention.k_proj",
        "attention.v_proj": "attention.v_proj", "attention.o_proj": "attention.out_proj",
        _NEW_TABLE: "attention.position_bias.table", "layernorm_before": "norm1",
        "layernorm_after": "norm2", "mlp.fc1": "feed_forward.linear1",
        "mlp.fc2": "feed_forward.linear2",
    }  # fmt: skip

    def make_model(self, config, num_classes):
        model = Swin(
            config.image_size, config.patch_size, config.num_channels, num_classes,
            config.embed_dim, config.depths, config.num_heads, config.window_size,
            config.mlp_ratio, qkv_bias=config.qkv_bias, dropout=config.hidden_dropout_prob,
            attention_dropout=config.attention_probs_dropout_prob,
            drop_path=config.drop_path_rate, absolute_positions=config.use_absolute_embeddings,
            fit_windows=False, activation=activation(config.hidden_act),
            eps=config.layer_norm_eps,
        )  # fmt: skip
        for stage in model.stages:
            for block in stage.blocks:
                # Hugging Face has dropout only at a branch's end and DropPath only after attention.
                block.feed_forward.dropout.p = 0.0
                block.drop_path2.drop_prob = 0.0
        return model

    def _with_expected_names(self, arrays, expected, table):
        self.has_old_names = any(".attention.self." in name for name in arrays)
        return super()._with_expected_names(arrays, expected, table)

    def peer_state(self):
        """Return the tensors to save.

        If the loaded file had names from before transformers 5, the tensors get these names.
        """
        state = super().peer_state()
        return {_older(name): x for name, x in state.items()} if self.has_old_names else state

    def encode(self, pixel_values, bool_masked_pos=None, *, always_partition=False, **settings):
        """Encode an image.

        With `always_partition`, feature maps can have any size: maps smaller than the window are
        padded, and the windows are shifted on all maps.
        """
        if pixel_values is not None:
            self._place_windows(pixel_values.shape[-2:], always_partition)
        return super().encode(pixel_values, bool_masked_pos, **settings)

    def _place_windows(self, size, always_partition):
        """Choose the shift of each block's windows for images of the given size.

        Every second block shifts its windows, except on a feature map whose shorter side is as long
        as the window. If the shorter side is shorter than the window, an error is raised. With
        `always_partition`, neither exception applies.
        """
        window, patches = self.config.window_size, pair(self.config.patch_size)
        grid = [-(-n // patch) for n, patch in zip(size, patches, strict=True)]
        for stage in self.model.stages:
            shift = window // 2
            if not always_partition and min(grid) <= window:
                if min(grid) < window:
                    raise ShapeError(
                        f"{type(self).__name__}: a stage's feature map is smaller than the window",
                        got=f"image {size[0]} x {size[1]}, feature map {grid[0]} x {grid[1]}",
                        expected=f"at least {window} x {window}",
                        hint="use a larger image, or pass always_partition=True to pad the map",
                    )
                shift = 0
            for i, block in enumerate(stage.blocks):
                block.shift_size = (shift, shift) if i % 2 else (0, 0)
            grid = [(n + 1) // 2 for n in grid]


def _older(name):
    """Return the name that a tensor has in files written before transformers 5."""
    for old, new in SwinPreTrainedModel.old_names.items():
        if name.endswith("." + new):
            return name.removesuffix(new) + old
    return name


class SwinModel(BaseHead, SwinPreTrainedModel):
    """Swin without a head: returns `last_hidden_state` and its mean as `pooler_output`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> sizes = {"image_size": 8, "patch_size": 1, "embed_dim": 6, "window_size": 4}
    >>> model = SwinModel({**sizes, "depths": [2, 2], "num_heads": [1, 2]})
    >>> model(mt.zeros(1, 3, 8, 8)).last_hidden_state.shape
    (1, 16, 12)
    """


class SwinForImageClassification(ClassificationHead, SwinPreTrainedModel):
    """Swin for image classification: returns the logits and, with labels, the loss."""


class SwinForMaskedImageModeling(MaskedImageHead, SwinPreTrainedModel):
    """Swin for masked image modeling (SimMIM): reconstructs the pixels of masked patches."""


class SwinBackbone(Backbone, SwinPreTrainedModel):
    """Swin backbone: returns the normalized feature maps of the stages in `config.out_features`."""

    def build(self, config):
        super().build(config)
        widths = [config.embed_dim] + [config.embed_dim * 2**i for i in range(len(config.depths))]
        self.hidden_states_norms = nn.ModuleDict(
            {name: nn.LayerNorm(widths[i]) for name, i in self.out_features.items()}
        )

    def _with_prefix(self, arrays, expected):
        """Add the prefix "swin." to the names of the base model's tensors.

        If the file does not contain the final norm, add a weight of ones and a bias of zeros.
        """
        arrays = {
            f"swin.{name}"
            if name.startswith(("embeddings.", "encoder.", "layernorm."))
            else name: x
            for name, x in arrays.items()
        }
        xp = array_module(*list(arrays.values())[:1])
        for name, fill in (("swin.layernorm.weight", xp.ones), ("swin.layernorm.bias", xp.zeros)):
            arrays.setdefault(name, fill(expected[name], "float32"))
        return arrays

    def encode_stages(self, pixel_values, output_attentions):
        """Return each stage's feature map.

        By default, `encode` raises an error if a map is smaller than the window. Here, such a map
        is padded, and the windows are shifted on maps of any size.
        """
        return self.encode(
            pixel_values, always_partition=True, output_attentions=output_attentions,
            output_hidden_states=True, output_hidden_states_before_downsampling=True,
        )  # fmt: skip

    def feature_map(self, x, name):
        """Return a stage's normalized feature map, with shape (batch, embed, height, width)."""
        return self.hidden_states_norms[name](x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    def states(self, maps):
        """Return `maps` unchanged: as in Hugging Face, the hidden states are not flattened."""
        return maps
