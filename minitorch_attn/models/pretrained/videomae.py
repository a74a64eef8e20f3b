"""VideoMAE with the Hugging Face interface; the model itself is in `models/video_mae.py`."""

from ... import nn
from ...autograd.modes import no_grad
from ...errors import ArgumentError
from ...nn import init
from ...tensor import tensor
from ..mae import pick
from ..video_mae import (
    VideoDecoder,
    VideoEncoder,
    cubes_of,
    normalised_cubes,
    visible_and_masked,
)  # fmt: skip
from ..vit import pair
from .base import VIDEOS, PretrainedModel, missing_input
from .decoder import collecting, result
from .losses import classification_loss
from .names import NameTable, Same
from .vit_huggingface import DEFAULTS, block_options, initialize_layers
from .vit_names import file_block_names

__all__ = ["VideoMAEForPreTraining", "VideoMAEForVideoClassification", "VideoMAEModel"]

# Channel means and standard deviations that Hugging Face's processor uses to normalize.
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class VideoMAEPreTrainedModel(PretrainedModel):
    """Base class for the VideoMAE models."""

    model_type = "videomae"
    base_prefix = "videomae"
    defaults = dict(
        {name: value for name, value in DEFAULTS.items() if name != "qkv_bias"}, num_frames=16,
        tubelet_size=2, qv_bias=True, use_mean_pooling=True, decoder_num_attention_heads=6,
        decoder_hidden_size=384, decoder_num_hidden_layers=4, decoder_intermediate_size=1536,
        norm_pix_loss=True,
    )  # fmt: skip
    aliases = {"qkv_bias": "qv_bias"}
    old_names = {
        "attention.attention.q_bias": "attention.attention.query.bias",
        "attention.attention.v_bias": "attention.attention.value.bias",
    }

    def build(self, config):
        self.vision = VideoEncoder(
            config.image_size, config.patch_size, config.num_frames, config.tubelet_size,
            config.hidden_size, config.num_hidden_layers, config.num_attention_heads,
            config.intermediate_size, in_channels=config.num_channels,
            final_norm=not config.use_mean_pooling, **self.block_options(),
        )  # fmt: skip
        self.add_head(config)
        self.initialize()

    def block_options(self):
        """Return the keyword arguments shared by the encoder's and the decoder's blocks."""
        return block_options(self.config)

    def add_head(self, config):
        """Create the decoder or the classifier. The base model has neither."""

    def initialize(self):
        """Initialize weights from a normal distribution with std `config.initializer_range`.

        Biases are set to 0.
        """
        initialize_layers(self, init.normal_)

    def names(self):
        prefix = "" if self.is_base else self.base_prefix + "."
        return NameTable(
            Same(prefix + "embeddings.patch_embeddings.projection", "vision.projection"),
            *file_block_names(prefix + "encoder.layer.{}.", "vision.blocks.{}."),
            Same(prefix + "layernorm", "vision.norm"),
            *self.other_names(),
        )

    def other_names(self):
        """Return the `NameTable` entries of the modules outside the encoder."""
        return []

    def run(self, pixel_values, visible, output_attentions, output_hidden_states):
        """Run the encoder. Return (last hidden states, dict of the other outputs).

        Parameters
        ----------
        pixel_values : Tensor of shape (batch, frame, channel, height, width)
        visible : int64 Tensor of shape (batch, seen), or None
            Indices of the cubes that the encoder reads; None for all cubes.
        """
        if pixel_values is None:
            raise missing_input(self, "pixel_values", VIDEOS)
        vision = self.vision
        video = pixel_values.transpose(1, 2).to(dtype=vision.projection.weight.dtype)
        tokens = vision.embed(video, visible)
        flags = output_attentions, output_hidden_states
        with collecting(self.config, vision.blocks, list(vision.blocks), *flags) as found:
            last = vision.encode(tokens)
        if found.hidden_states is not None:
            found.hidden_states = (tokens, *found.hidden_states)
        return last, vars(found)


class VideoMAEModel(VideoMAEPreTrainedModel):
    """VideoMAE encoder: returns one vector for each visible cube of a video.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = VideoMAEModel({"image_size": 8, "patch_size": 4, "num_frames": 4,
    ...     "hidden_size": 6, "num_attention_heads": 2, "num_hidden_layers": 1,
    ...     "intermediate_size": 12})
    >>> model(mt.zeros(5, 4, 3, 8, 8)).last_hidden_state.shape
    (5, 8, 6)
    """

    is_base = True

    def forward(
        self, pixel_values=None, bool_masked_pos=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the hidden states of a video and the other outputs, as in Hugging Face."""
        visible = None if bool_masked_pos is None else visible_and_masked(bool_masked_pos)[0]
        last, others = self.run(pixel_values, visible, output_attentions, output_hidden_states)
        return result(
            return_dict, last_hidden_state=last, hidden_states=others["hidden_states"],
            attentions=others["attentions"],
        )  # fmt: skip


class VideoMAEForPreTraining(VideoMAEPreTrainedModel):
    """VideoMAE encoder and decoder: predicts the pixels of the masked cubes."""

    def add_head(self, config):
        rows, columns = pair(config.patch_size)
        self.decoder = VideoDecoder(
            config.hidden_size, config.decoder_hidden_size, config.decoder_num_hidden_layers,
            config.decoder_num_attention_heads, config.decoder_intermediate_size,
            self.vision.num_cubes, config.tubelet_size * rows * columns * config.num_channels,
            **self.block_options(),
        )  # fmt: skip

    def other_names(self):
        return [
            Same("mask_token", "decoder.mask_token"),
            Same("encoder_to_decoder", "decoder.embedding"),
            *file_block_names("decoder.decoder_layers.{}.", "decoder.blocks.{}."),
            Same("decoder.norm", "decoder.norm"),
            Same("decoder.head", "decoder.prediction"),
        ]

    def forward(
        self, pixel_values=None, bool_masked_pos=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the loss and the predicted cubes (logits), as in Hugging Face."""
        if bool_masked_pos is None:
            hint = "pass mt.models.video_mae.tube_masking(noise, steps)"
            raise missing_input(self, "bool_masked_pos", hint)
        visible, masked = visible_and_masked(bool_masked_pos)
        last, others = self.run(pixel_values, visible, output_attentions, output_hidden_states)
        logits = self.decoder(last, visible, masked)  # (batch, masked, pixels)
        with no_grad():
            target = pick(self.target(pixel_values), masked)
        return result(
            return_dict, loss=((logits - target) ** 2).mean(), logits=logits,
            hidden_states=others["hidden_states"], attentions=others["attentions"],
        )  # fmt: skip

    def target(self, pixel_values):
        """Return the pixels to predict, with shape (batch, cube, pixels).

        For videos with three channels, the function first undoes the processor's normalization, so
        that the values lie between 0 and 1. For other videos, it cannot: the processor's mean and
        standard deviation have three channels.
        """
        config, video = self.config, pixel_values.transpose(1, 2)
        if config.num_channels == 3:
            deviation, mean = (
                tensor(x, dtype=video.dtype, device=video.device).reshape(1, 3, 1, 1, 1)
                for x in (_DEVIATION, _MEAN)
            )
            video = video * deviation + mean
        elif not config.norm_pix_loss:
            raise ArgumentError(
                "VideoMAEForPreTraining: config.norm_pix_loss=False requires three channels",
                got=f"num_channels={config.num_channels}, norm_pix_loss=False",
                expected="norm_pix_loss=True, or num_channels=3",
            )
        cubes = cubes_of(video, config.tubelet_size, config.patch_size)
        return (normalised_cubes(cubes) if config.norm_pix_loss else cubes).flatten(2)


class VideoMAEForVideoClassification(VideoMAEPreTrainedModel):
    """VideoMAE encoder with a linear classifier on the mean of the tokens."""

    def add_head(self, config):
        self.fc_norm = nn.Identity()
        if config.use_mean_pooling:
            self.fc_norm = nn.LayerNorm(config.hidden_size)
        labels = config.num_labels
        self.classifier = nn.Linear(config.hidden_size, labels) if labels else nn.Identity()

    def forward(
        self, pixel_values=None, labels=None, output_attentions=None, output_hidden_states=None,
        return_dict=None,
    ):  # fmt: skip
        """Return the logits and, with labels, the loss, as in Hugging Face."""
        last, others = self.run(pixel_values, None, output_attentions, output_hidden_states)
        pooled = last.mean(1) if self.config.use_mean_pooling else last[:, 0]
        logits = self.classifier(self.fc_norm(pooled))  # (batch, labels)
        loss = None if labels is None else classification_loss(self.config, logits, labels)
        return result(
            return_dict, loss=loss, logits=logits, hidden_states=others["hidden_states"],
            attentions=others["attentions"],
        )  # fmt: skip
