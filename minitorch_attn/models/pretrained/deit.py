"""DeiT with the face of its published weights; the model itself is `models/deit.py`."""

from ... import nn
from ..deit import DistilledVisionTransformer
from .decoder import result
from .vit import ViTForImageClassification, ViTForMaskedImageModeling, ViTModel, ViTPreTrainedModel

__all__ = [
    "DeiTForImageClassification",
    "DeiTForImageClassificationWithTeacher",
    "DeiTForMaskedImageModeling",
    "DeiTModel",
]


class DeiTPreTrainedModel(ViTPreTrainedModel):
    """ViT with a distillation token after the class token."""

    model_type = "deit"
    base_prefix = "deit"
    encoder_class = DistilledVisionTransformer


class DeiTModel(DeiTPreTrainedModel, ViTModel):
    """The encoder, and a pooler on its class token; parameters as of `ViTModel`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = DeiTModel({"image_size": 8, "patch_size": 2, "hidden_size": 6,
    ...     "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 12})
    >>> model(mt.zeros(5, 3, 8, 8)).last_hidden_state.shape
    (5, 18, 6)
    """


class DeiTForImageClassification(DeiTPreTrainedModel, ViTForImageClassification):
    """A linear classifier on the class token; the distillation token has none."""


class DeiTForMaskedImageModeling(DeiTPreTrainedModel, ViTForMaskedImageModeling):
    """Paints the masked patches of an image."""

    has_mask_token = True


class DeiTForImageClassificationWithTeacher(DeiTPreTrainedModel):
    """A classifier on each of the two tokens, and the mean of what they say."""

    def add_head(self, config):
        def head():
            labels = config.num_labels
            return nn.Linear(config.hidden_size, labels) if labels else nn.Identity()

        self.cls_classifier = head()
        self.distillation_classifier = head()

    def forward(
        self, pixel_values=None, interpolate_pos_encoding=False, attention_mask=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """`logits`, `cls_logits` and `distillation_logits`; arguments as the peer's."""
        last, others = self.run(
            pixel_values, None, interpolate_pos_encoding, attention_mask, output_attentions,
            output_hidden_states,
        )  # fmt: skip
        cls_logits = self.cls_classifier(last[:, 0])  # (batch, labels)
        distillation_logits = self.distillation_classifier(last[:, 1])
        return result(
            return_dict,
            logits=(cls_logits + distillation_logits) / 2,
            cls_logits=cls_logits,
            distillation_logits=distillation_logits,
            hidden_states=others["hidden_states"],
            attentions=others["attentions"],
        )
