"""ViT with the Hugging Face interface; the model itself is in `models/vit.py`."""

from ... import nn, ops
from .activations import activation
from .decoder import result
from .losses import classification_loss
from .vit_huggingface import DEFAULTS, ImageEncoderModel, MaskedImageModeling

__all__ = ["ViTForImageClassification", "ViTForMaskedImageModeling", "ViTModel"]


class ViTPreTrainedModel(ImageEncoderModel):
    """Base class for the ViT and DeiT models."""

    model_type = "vit"
    base_prefix = "vit"
    defaults = dict(DEFAULTS, encoder_stride=16, pooler_output_size=None, pooler_act="tanh")

    def build(self, config):
        self.vision = self.make_encoder(config)
        if self.has_mask_token:
            self.mask_token = nn.Parameter(ops.zeros(1, 1, config.hidden_size))
        self.add_head(config)
        self.initialize()

    def add_head(self, config):
        """Create the modules outside the encoder. Subclasses must override this method."""

    def run(
        self, pixel_values, bool_masked_pos, interpolate, attention_mask, output_attentions,
        output_hidden_states,
    ):  # fmt: skip
        """Run the encoder. Return (token vectors, dict of the other outputs)."""
        patches = self.patches_of(pixel_values)  # (batch, patch, embed)
        if bool_masked_pos is not None:
            patches = self.hide(patches, bool_masked_pos)
        positions = self.positions_of(pixel_values, interpolate)
        tokens = self.vision.dropout(self.vision.with_prefix(patches) + positions)
        return self.encode(tokens, attention_mask, output_attentions, output_hidden_states)


class ViTModel(ViTPreTrainedModel):
    """ViT encoder with a pooler on its class token.

    Parameters
    ----------
    config : Config or dict
    add_pooling_layer : bool, default True
        Whether the model has a pooler.
    use_mask_token : bool, default False
        Whether the model has a mask token, which replaces the patches that `bool_masked_pos` marks.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = ViTModel({"image_size": 8, "patch_size": 2, "hidden_size": 6,
    ...     "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 12})
    >>> model(mt.zeros(5, 3, 8, 8)).last_hidden_state.shape
    (5, 17, 6)
    """

    is_base = True

    def __init__(self, config, add_pooling_layer=True, use_mask_token=False):
        self.has_pooler, self.has_mask_token = add_pooling_layer, use_mask_token
        super().__init__(config)

    def add_head(self, config):
        if self.has_pooler:
            size = config.pooler_output_size or config.hidden_size
            self.pooler = nn.Linear(config.hidden_size, size)

    def forward(
        self, pixel_values=None, bool_masked_pos=None, interpolate_pos_encoding=None,
        attention_mask=None, output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the token vectors of an image and the other outputs, as in Hugging Face."""
        last, others = self.run(
            pixel_values, bool_masked_pos, interpolate_pos_encoding, attention_mask,
            output_attentions, output_hidden_states,
        )  # fmt: skip
        pooled = None
        if self.has_pooler:
            pooled = activation(self.config.pooler_act)(self.pooler(last[:, 0]))
        return result(
            return_dict, last_hidden_state=last, pooler_output=pooled,
            hidden_states=others["hidden_states"], attentions=others["attentions"],
        )  # fmt: skip


class ViTForImageClassification(ViTPreTrainedModel):
    """ViT with a linear classifier on the class token."""

    def add_head(self, config):
        labels = config.num_labels
        self.classifier = nn.Linear(config.hidden_size, labels) if labels else nn.Identity()

    def forward(
        self, pixel_values=None, labels=None, interpolate_pos_encoding=None, attention_mask=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the logits and, with labels, the loss, as in Hugging Face."""
        last, others = self.run(
            pixel_values, None, interpolate_pos_encoding, attention_mask, output_attentions,
            output_hidden_states,
        )  # fmt: skip
        logits = self.classifier(last[:, 0])  # (batch, labels)
        loss = None if labels is None else classification_loss(self.config, logits, labels)
        return result(
            return_dict, loss=loss, logits=logits, hidden_states=others["hidden_states"],
            attentions=others["attentions"],
        )  # fmt: skip


class ViTForMaskedImageModeling(MaskedImageModeling, ViTPreTrainedModel):
    """ViT for masked image modeling: reconstructs the masked patches of an image."""

    has_mask_token = True

    def add_head(self, config):
        self.decoder = self.make_decoder(config)

    def forward(
        self, pixel_values=None, bool_masked_pos=None, interpolate_pos_encoding=None,
        attention_mask=None, output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the reconstructed images and, if `bool_masked_pos` is given, the loss."""
        self.check_stride(bool_masked_pos)
        last, others = self.run(
            pixel_values, bool_masked_pos, interpolate_pos_encoding, attention_mask,
            output_attentions, output_hidden_states,
        )  # fmt: skip
        painted = self.reconstruct(last)  # (batch, channel, height, width)
        loss = None
        if bool_masked_pos is not None:
            loss = self.painting_loss(pixel_values, painted, bool_masked_pos)
        return result(
            return_dict, loss=loss, reconstruction=painted, hidden_states=others["hidden_states"],
            attentions=others["attentions"],
        )  # fmt: skip
