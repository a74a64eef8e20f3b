"""CLIP with the Hugging Face interface; the model itself is in `models/clip.py`."""

from ... import nn, ops
from ...errors import ArgumentError
from ...nn import init
from ...nn.functional import normalize
from ..clip import contrastive_loss, similarity
from .clip_towers import CLIPTextModel, CLIPVisionModel, FullConfig, PartModel, tower_names
from .decoder import result
from .losses import classification_loss
from .names import Ignored, NameTable

__all__ = [
    "CLIPForImageClassification", "CLIPModel", "CLIPTextModel", "CLIPTextModelWithProjection",
    "CLIPVisionModel", "CLIPVisionModelWithProjection",
]  # fmt: skip


class CLIPTextModelWithProjection(PartModel):
    """Text tower of CLIP with its projection.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = CLIPTextModelWithProjection({"vocab_size": 11, "hidden_size": 6,
    ...     "num_attention_heads": 2, "num_hidden_layers": 1, "projection_dim": 5,
    ...     "eos_token_id": 10})
    >>> model(mt.tensor([[1, 4, 10, 0]])).text_embeds.shape
    (1, 5)
    """

    model_type = CLIPTextModel.model_type
    base_prefix = "text_model"
    part = "text_config"
    defaults = CLIPTextModel.defaults

    def build(self, config):
        self.text_model = CLIPTextModel(config)
        self.text_projection = _projection(config.hidden_size, config)

    def names(self):
        return NameTable(
            *tower_names("text", "text_model.", "text_model."),
            Ignored("vision_model.*", "visual_projection.*", "logit_scale", "*.position_ids"),
        )

    def forward(
        self, input_ids=None, attention_mask=None, position_ids=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the projected vector and the hidden states of each text, as in Hugging Face."""
        found = self.text_model(
            input_ids, attention_mask, position_ids, output_attentions, output_hidden_states
        )
        return result(
            return_dict, text_embeds=self.text_projection(found.pooler_output),
            last_hidden_state=found.last_hidden_state, hidden_states=found.hidden_states,
            attentions=found.attentions,
        )  # fmt: skip


class CLIPVisionModelWithProjection(PartModel):
    """Image tower of CLIP with its projection."""

    model_type = CLIPVisionModel.model_type
    base_prefix = "vision_model"
    part = "vision_config"
    defaults = CLIPVisionModel.defaults

    def build(self, config):
        self.vision_model = CLIPVisionModel(config)
        self.visual_projection = _projection(config.hidden_size, config)

    def names(self):
        return NameTable(
            *tower_names("vision", "vision_model.", "vision_model."),
            Ignored("text_model.*", "text_projection.*", "logit_scale", "*.position_ids"),
        )

    def forward(
        self, pixel_values=None, interpolate_pos_encoding=False, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the projected vector and the hidden states of each image, as in Hugging Face."""
        found = self.vision_model(
            pixel_values, interpolate_pos_encoding, output_attentions, output_hidden_states
        )
        return result(
            return_dict, image_embeds=self.visual_projection(found.pooler_output),
            last_hidden_state=found.last_hidden_state, hidden_states=found.hidden_states,
            attentions=found.attentions,
        )  # fmt: skip


class CLIPModel(FullConfig):
    """CLIP: the image tower and the text tower with their projections, and the temperature.

    Parameters
    ----------
    config : Config or dict
        Configuration with the towers' fields in `text_config` and `vision_config`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> small = {"hidden_size": 6, "num_attention_heads": 2, "num_hidden_layers": 1}
    >>> model = CLIPModel({"text_config": {**small, "vocab_size": 11, "eos_token_id": 10},
    ...     "vision_config": {**small, "image_size": 8, "patch_size": 4}, "projection_dim": 5})
    >>> ids = mt.tensor([[1, 4, 10, 0], [1, 5, 6, 10]])
    >>> model(ids, mt.randn(3, 3, 8, 8)).logits_per_image.shape
    (3, 2)
    """

    def build(self, config):
        text, vision = self.part("text_config"), self.part("vision_config")
        self.text_model, self.vision_model = CLIPTextModel(text), CLIPVisionModel(vision)
        self.visual_projection = _projection(self.vision_model.config.hidden_size, config)
        self.text_projection = _projection(self.text_model.config.hidden_size, config)
        self.logit_scale = nn.Parameter(ops.full((), float(config.logit_scale_init_value)))

    def names(self):
        return NameTable(
            *tower_names("text", "text_model.", "text_model."),
            *tower_names("vision", "vision_model.", "vision_model."),
            Ignored("*.position_ids"),
        )

    def get_text_features(
        self, input_ids, attention_mask=None, position_ids=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Run the text tower. `pooler_output` is the projected vector before normalization."""
        found = self.text_model(
            input_ids, attention_mask, position_ids, output_attentions, output_hidden_states
        )
        return _projected(found, self.text_projection, return_dict)

    def get_image_features(
        self, pixel_values, interpolate_pos_encoding=False, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Run the image tower. `pooler_output` is the projected vector before normalization."""
        found = self.vision_model(
            pixel_values, interpolate_pos_encoding, output_attentions, output_hidden_states
        )
        return _projected(found, self.visual_projection, return_dict)

    def forward(
        self, input_ids=None, pixel_values=None, attention_mask=None, position_ids=None,
        return_loss=None, interpolate_pos_encoding=False, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the similarity logits of all pairs of an image and a text, as in Hugging Face.

        Parameters
        ----------
        input_ids : int64 Tensor of shape (text, token)
        pixel_values : Tensor of shape (image, channel, height, width)
        attention_mask : Tensor of shape (text, token), optional
        position_ids : int64 Tensor of shape (1 or text, token), optional
        return_loss : bool, optional
            Whether to compute the contrastive loss. Text i must then describe image i.
        interpolate_pos_encoding : bool, default False
            Whether the size of images may differ from `image_size`.
        output_attentions, output_hidden_states, return_dict : bool, optional
        """
        flags = output_attentions, output_hidden_states
        vision = self.get_image_features(pixel_values, interpolate_pos_encoding, *flags)
        text = self.get_text_features(input_ids, attention_mask, position_ids, *flags)
        images = normalize(vision.pooler_output, dim=-1)
        texts = normalize(text.pooler_output, dim=-1)
        logits = similarity(images, texts, self.logit_scale)  # (image, text)
        return result(
            return_dict, loss=contrastive_loss(logits) if return_loss else None,
            logits_per_image=logits, logits_per_text=logits.T, text_embeds=texts,
            image_embeds=images, text_model_output=text, vision_model_output=vision,
        )  # fmt: skip


class CLIPForImageClassification(FullConfig):
    """Image tower of CLIP with a linear classifier on the mean of the patch vectors."""

    def build(self, config):
        self.vision_model = CLIPVisionModel(self.part("vision_config"))
        width, labels = self.vision_model.config.hidden_size, config.num_labels
        self.classifier = nn.Linear(width, labels) if labels else nn.Identity()
        if labels:
            init.normal_(self.classifier.weight, std=width**-0.5 * config.initializer_factor)
            init.zeros_(self.classifier.bias)

    def names(self):
        return NameTable(
            *tower_names("vision", "vision_model.", "vision_model."),
            Ignored("text_model.*", "*_projection.*", "logit_scale", "*.position_ids"),
        )

    def forward(
        self, pixel_values=None, labels=None, interpolate_pos_encoding=False,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the logits and, with labels, the loss, as in Hugging Face."""
        found = self.vision_model(
            pixel_values, interpolate_pos_encoding, output_attentions, output_hidden_states
        )
        logits = self.classifier(found.last_hidden_state[:, 1:].mean(1))  # (batch, labels)
        loss = None if labels is None else classification_loss(self.config, logits, labels)
        return result(
            return_dict, loss=loss, logits=logits, hidden_states=found.hidden_states,
            attentions=found.attentions,
        )  # fmt: skip


def _projection(width, config):
    size = config.projection_dim
    if not size:
        raise ArgumentError("CLIP: config.projection_dim must be positive", got=repr(size))
    layer = nn.Linear(width, size, bias=False)
    init.normal_(layer.weight, std=width**-0.5 * config.initializer_factor)
    return layer


def _projected(found, projection, return_dict):
    fields = {**found, "pooler_output": projection(found.pooler_output)}
    return result(return_dict, **fields)
