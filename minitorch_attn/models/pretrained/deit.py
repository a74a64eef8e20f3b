"""DeiT with the Hugging Face interface; the model itself is in `models/deit.py`."""

from ... import nn
from ..deit import DistilledVisionTransformer
from .decoder import result
from .vit import ViTForImageClassification, ViTForMaskedImageModeling, ViTModel, ViTPreTrainedModel

__all__ = [
    "DeiTForImageClassification", "DeiTForImageClassificationWithTeacher",
    "DeiTForMaskedImageModeling", "DeiTModel",
]  # fmt: skip


class DeiTPreTrainedModel(ViTPreTrainedModel):
    """Base class for the DeiT models: ViT with a distillation token after the class token."""

    model_type = "deit"
    base_prefix = "deit"
    encoder_class = DistilledVisionTransformer


class DeiTModel(DeiTPreTrainedModel, ViTModel):
    """DeiT encoder with a pooler on its class token. See `ViTModel` for the parameters.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = DeiTModel({"image_size": 8, "patch_size": 2, "hidden_size": 6,
    ...     "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 12})
    >>> model(mt.zeros(5, 3, 8, 8)).last_hidden_state.shape
    (5, 18, 6)
    """


class DeiTForImageClassification(DeiTPreTrainedModel, ViTForImageClassification):
    """DeiT with a linear classifier on the class token. The distillation token is not used."""


class DeiTForMaskedImageModeling(DeiTPreTrainedModel, ViTForMaskedImageModeling):
    """DeiT for masked image modeling: reconstructs the masked patches of an image."""

    has_mask_token = True


class DeiTForImageClassificationWithTeacher(DeiTPreTrainedModel):
    """DeiT with a classifier on the class token and one on the distillation token.

    `logits` is the mean of the logits of the two classifiers.
    """

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
        """Return logits, cls_logits and distillation_logits, as in Hugging Face."""
        last, others = self.run(
            pixel_values, None, interpolate_pos_encoding, attention_mask, output_attentions,
            output_hidden_states,
        )  # fmt: skip
        cls_logits = self.cls_classifier(last[:, 0])  # (batch, labels)
        distillation_logits = self.distillation_classifier(last[:, 1])
        return result(
            return_dict, logits=(cls_logits + distillation_logits) / 2, cls_logits=cls_logits,
            distillation_logits=distillation_logits, hidden_states=others["hidden_states"],
            attentions=others["attentions"],
        )  # fmt: skip
