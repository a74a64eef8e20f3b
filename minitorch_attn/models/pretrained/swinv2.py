"""Swin Transformer V2 with the face of its published weights; the model is `models/swinv2.py`."""

from ... import nn
from ..swinv2 import SwinV2
from .activations import activation
from .names import Ignored
from .swin_face import (
    DEFAULTS,
    Backbone,
    BaseHead,
    ClassificationHead,
    MaskedImageHead,
    SwinFace,
    pair,
)  # fmt: skip

__all__ = [
    "Swinv2Backbone", "Swinv2ForImageClassification", "Swinv2ForMaskedImageModeling",
    "Swinv2Model",
]  # fmt: skip


class _Swinv2Face(SwinFace):
    """Swin V2 under the names of transformers.

    The windows fit the configured image, not the one that is given: they shrink, and stay where
    they are, on maps that are no larger.
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
        # The peer's table of positions has one row too many, for a class token that is not there.
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
                block.attention.blocked_score = -200.0  # the peer adds its mask of -100 twice
                block.feed_forward.dropout.p = 0.0
                block.attention_dropout.p = config.attention_probs_dropout_prob
        return model

    def encode(
        self, pixel_values, bool_masked_pos=None, *, interpolate_pos_encoding=False,
        output_attentions=None, output_hidden_states=None,
    ):  # fmt: skip
        """As `SwinFace.encode`, with the hidden states behind the merging of patches only."""
        return super().encode(
            pixel_values, bool_masked_pos, interpolate_pos_encoding, output_attentions,
            output_hidden_states,
        )  # fmt: skip


class Swinv2Model(BaseHead, _Swinv2Face):
    """The map of features: `last_hidden_state` and its mean `pooler_output`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> sizes = {"image_size": 8, "patch_size": 1, "embed_dim": 6, "window_size": 4}
    >>> model = Swinv2Model({**sizes, "depths": [2, 2], "num_heads": [1, 2]})
    >>> model(mt.zeros(1, 3, 8, 8)).last_hidden_state.shape
    (1, 16, 12)
    """


class Swinv2ForImageClassification(ClassificationHead, _Swinv2Face):
    """Logits of the classes, and their loss."""


class Swinv2ForMaskedImageModeling(MaskedImageHead, _Swinv2Face):
    """The pixels of masked patches (SimMIM), and their loss."""


class Swinv2Backbone(Backbone, _Swinv2Face):
    """The maps of the stages that `config.out_features` names."""

    is_base = True

    def build(self, config):
        super().build(config)
        self.model.norm = nn.Identity()  # the peer's backbone ends with the last stage

    def names(self):
        table = super().names()
        table.ignored.append(Ignored("layernorm.weight", "layernorm.bias"))
        return table

    def encode_stages(self, pixel_values, output_attentions):
        """As `SwinFace.encode`, with the map of every stage."""
        return SwinFace.encode(
            self, pixel_values, output_attentions=output_attentions, output_hidden_states=True,
            output_hidden_states_before_downsampling=True,
        )  # fmt: skip

    def feature_map(self, x, name):
        """The map of a stage as it is: (batch, embed, height, width)."""
        return x

    def states(self, maps):
        """The hidden states are the tokens of each map: (batch, token, embed)."""
        return tuple(x.flatten(2).transpose(1, 2) for x in maps)
