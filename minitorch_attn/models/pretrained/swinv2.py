"""Swin Transformer V2 with the Hugging Face interface; the model is in `models/swinv2.py`."""

from ... import nn
from ..swinv2 import SwinV2
from .activations import activation
from .names import Ignored
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
    "Swinv2Backbone", "Swinv2ForImageClassification", "Swinv2ForMaskedImageModeling",
    "Swinv2Model",
]  # fmt: skip


class Swinv2PreTrainedModel(SwinFamilyModel):
    """Base class for the Swin V2 models.

    The window sizes are computed from the image size in the configuration, not from the given
    image. On a feature map smaller than the window, the window shrinks to the size of the map.
    Windows are shifted only on feature maps larger than the window.
    """

    model_type, base_prefix = "swinv2", "swinv2"
    defaults = DEFAULTS | {"pretrained_window_sizes": (0, 0, 0, 0)}
    block_names = {
        "attention.self.query": "attention.q_proj",
        "attention.self.key": "attention.k_proj",
        "attention.self.value": "attention.v_proj",
        "attention.output.dense": "attention.out_proj",
        "attention.self.logit_scale": "attention.logit_scale",
        "attention.self.continuous_position_bias_mlp.0": "attention.position_bias.linear1",
        "attention.self.continuous_position_bias_mlp.2": "attention.position_bias.linear2",
        "layernorm_before": "norm1",
        "layernorm_after": "norm2",
        "intermediate.dense": "feed_forward.linear1",
        "output.dense": "feed_forward.linear2",
    }

    def make_model(self, config, num_classes):
        # Hugging Face's table of positions has an unused row for a class token.
        config.refuse(type(self).__name__, use_absolute_embeddings=False)
        count = len(config.depths)
        height = pair(config.image_size)[0] // pair(config.patch_size)[0]
        heights = [height // 2**i for i in range(count)]
        windows = [(min(n, config.window_size),) * 2 for n in heights]
        pretrained = config.pretrained_window_sizes or (0,) * count
        model = SwinV2(
            config.image_size, config.patch_size, config.num_channels, num_classes,
            config.embed_dim, config.depths, config.num_heads, windows, config.mlp_ratio,
            qkv_bias=config.qkv_bias, dropout=config.hidden_dropout_prob,
            attention_dropout=config.attention_probs_dropout_prob,
            drop_path=config.drop_path_rate, fit_windows=False,
            pretrained_window_size=list(pretrained)[:count],
            activation=activation(config.hidden_act), eps=config.layer_norm_eps,
        )  # fmt: skip
        for stage, height in zip(model.stages, heights, strict=True):
            for block in stage.blocks:
                if height <= config.window_size:
                    block.shift_size = (0, 0)
                block.attention.blocked_score = -200.0  # Hugging Face adds its mask of -100 twice
                block.feed_forward.dropout.p = 0.0
                block.attention_dropout.p = config.attention_probs_dropout_prob
        return model

    def encode(
        self, pixel_values, bool_masked_pos=None, *, interpolate_pos_encoding=False,
        output_attentions=None, output_hidden_states=None,
    ):  # fmt: skip
        """Encode an image. A stage's hidden states are taken after patch merging, not before."""
        return super().encode(
            pixel_values, bool_masked_pos, interpolate_pos_encoding, output_attentions,
            output_hidden_states,
        )  # fmt: skip


class Swinv2Model(BaseHead, Swinv2PreTrainedModel):
    """Swin V2 without a head: returns `last_hidden_state` and its mean as `pooler_output`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> sizes = {"image_size": 8, "patch_size": 1, "embed_dim": 6, "window_size": 4}
    >>> model = Swinv2Model({**sizes, "depths": [2, 2], "num_heads": [1, 2]})
    >>> model(mt.zeros(1, 3, 8, 8)).last_hidden_state.shape
    (1, 16, 12)
    """


class Swinv2ForImageClassification(ClassificationHead, Swinv2PreTrainedModel):
    """Swin V2 for image classification: returns the logits and, if labels are given, the loss."""


class Swinv2ForMaskedImageModeling(MaskedImageHead, Swinv2PreTrainedModel):
    """Swin V2 for masked image modeling (SimMIM): reconstructs the pixels of masked patches."""


class Swinv2Backbone(Backbone, Swinv2PreTrainedModel):
    """Swin V2 backbone: returns the feature maps of the stages in `config.out_features`."""

    is_base = True

    def build(self, config):
        super().build(config)
        self.model.norm = nn.Identity()  # Hugging Face's backbone does not have a final norm

    def names(self):
        table = super().names()
        table.ignored.append(Ignored("layernorm.weight", "layernorm.bias"))
        return table

    def encode_stages(self, pixel_values, output_attentions):
        """Encode an image, and collect each stage's feature map before patch merging."""
        return SwinFamilyModel.encode(
            self, pixel_values, output_attentions=output_attentions, output_hidden_states=True,
            output_hidden_states_before_downsampling=True,
        )  # fmt: skip

    def feature_map(self, x, name):
        """Return a stage's feature map (batch, embed, height, width) without normalization."""
        return x

    def states(self, maps):
        """Flatten each map to tokens: (batch, embed, height, width) -> (batch, token, embed)."""
        return tuple(x.flatten(2).transpose(1, 2) for x in maps)
