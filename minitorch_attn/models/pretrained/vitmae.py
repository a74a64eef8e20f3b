"""ViTMAE with the Hugging Face interface; the model itself is in `models/mae.py`."""

from ... import nn, ops
from ...errors import ShapeError
from ...nn import init
from ..mae import Decoder, fixed_positions, patchify, pick, random_masking, unpatchify
from ..vit import pair
from ..vit_positions import interpolate_positions
from .decoder import result
from .names import Same
from .vit_huggingface import DEFAULTS, ImageEncoderModel, block_options
from .vit_names import Unsqueezed, block_names

__all__ = ["ViTMAEForPreTraining", "ViTMAEModel"]


class ViTMAEPreTrainedModel(ImageEncoderModel):
    """Base class for the ViTMAE models. The encoder receives only the visible patches."""

    model_type = "vit_mae"
    base_prefix = "vit"
    defaults = dict(
        DEFAULTS, decoder_num_attention_heads=16, decoder_hidden_size=512,
        decoder_num_hidden_layers=8, decoder_intermediate_size=2048, mask_ratio=0.75,
        norm_pix_loss=False,
    )  # fmt: skip

    def build(self, config):
        self.vision = self.make_encoder(config)
        self.vision.positions = fixed_positions(self.vision.grid, config.hidden_size)
        self.add_head(config)
        self.initialize()

    def add_head(self, config):
        """Create the decoder. The base model does not have a decoder."""

    def initialize(self):
        fixed = self.vision.positions.weight.detach().clone()
        super().initialize()
        self.vision.positions.weight = nn.Parameter(fixed, requires_grad=False)
        init.xavier_uniform_(self.vision.patch_embedding.projection.weight.flatten(1))

    def run(
        self, pixel_values, noise, interpolate, attention_mask, output_attentions,
        output_hidden_states,
    ):  # fmt: skip
        """Run the encoder. Return (tokens, float mask, ids_restore, dict of the other outputs)."""
        positions = self.positions_of(pixel_values, interpolate)
        patches = self.patches_of(pixel_values) + positions[1:]  # (batch, patch, embed)
        batch, count, embed_dim = patches.shape
        if noise is None:
            noise = ops.rand(batch, count, device=patches.device)
        num_kept = int(count * (1 - self.config.mask_ratio))
        kept, restore, mask = random_masking(noise, num_kept)
        first = (self.vision.class_token + positions[:1]).expand(batch, 1, embed_dim)
        tokens = ops.cat([first, pick(patches, kept)], 1)  # (batch, 1 + kept, embed)
        last, others = self.encode(tokens, attention_mask, output_attentions, output_hidden_states)
        return last, mask.to(dtype=last.dtype), restore, others


class ViTMAEModel(ViTMAEPreTrainedModel):
    """ViTMAE encoder: returns the vectors of the class token and the visible patches.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = ViTMAEModel({"image_size": 8, "patch_size": 2, "hidden_size": 8,
    ...     "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 12})
    >>> model(mt.zeros(5, 3, 8, 8)).last_hidden_state.shape
    (5, 5, 8)
    """

    is_base = True

    def forward(
        self, pixel_values=None, noise=None, interpolate_pos_encoding=None, attention_mask=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Encode the visible patches. The outputs include `mask` and `ids_restore`."""
        last, mask, restore, others = self.run(
            pixel_values, noise, interpolate_pos_encoding, attention_mask, output_attentions,
            output_hidden_states,
        )  # fmt: skip
        return result(
            return_dict, last_hidden_state=last, mask=mask, ids_restore=restore,
            hidden_states=others["hidden_states"], attentions=others["attentions"],
        )  # fmt: skip


class ViTMAEForPreTraining(ViTMAEPreTrainedModel):
    """ViTMAE encoder and decoder: predicts the pixels of the masked patches."""

    def add_head(self, config):
        rows, columns = pair(config.patch_size)
        self.decoder = Decoder(
            config.hidden_size, config.decoder_hidden_size, config.decoder_num_hidden_layers,
            config.decoder_num_attention_heads, config.decoder_intermediate_size,
            self.vision.grid, rows * columns * config.num_channels, **block_options(config),
        )  # fmt: skip

    def other_names(self):
        return [
            Unsqueezed("decoder.decoder_pos_embed", "decoder.positions.weight"),
            Same("decoder.decoder_embed", "decoder.embedding"),
            *block_names("decoder.decoder_layers.{}.", "decoder.blocks.{}."),
            Same("decoder.decoder_norm", "decoder.norm"),
            Same("decoder.decoder_pred", "decoder.prediction"),
        ]

    def forward(
        self, pixel_values=None, noise=None, interpolate_pos_encoding=None, attention_mask=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Reconstruct the patches. The outputs include the loss, `mask` and `ids_restore`."""
        last, mask, restore, others = self.run(
            pixel_values, noise, interpolate_pos_encoding, attention_mask, output_attentions,
            output_hidden_states,
        )  # fmt: skip
        logits = self.decode(last, restore, interpolate_pos_encoding)  # (batch, patch, pixels)
        target = self.target(pixel_values, interpolate_pos_encoding)
        error = ((logits - target) ** 2).mean(-1)  # (batch, patch)
        return result(
            return_dict, loss=(error * mask).sum() / mask.sum(), logits=logits, mask=mask,
            ids_restore=restore, hidden_states=others["hidden_states"],
            attentions=others["attentions"],
        )  # fmt: skip

    def decode(self, encoded, restore, interpolate):
        """Predict the pixels of all patches, with shape (batch, patch, pixels)."""
        weight, count = self.decoder.positions.weight, restore.shape[1]
        if interpolate:  # in 1-D, along the sequence of patches, as in Hugging Face
            old = weight.shape[0] - 1
            patches = interpolate_positions(weight[1:], (1, old), (1, count))
            weight = ops.cat([weight[:1], patches], 0)
        return self.decoder.decode(self.decoder.fill(encoded, restore) + weight)

    def target(self, pixel_values, interpolate):
        """Return the pixels to predict, normalized per patch if `config.norm_pix_loss` is set."""
        patches = self.patchify(pixel_values, interpolate)
        if not self.config.norm_pix_loss:
            return patches
        mean = patches.mean(-1, keepdim=True)
        variance = patches.var(-1, keepdim=True)
        return (patches - mean) / (variance + 1e-6).sqrt()

    def patchify(self, pixel_values, interpolate_pos_encoding=False):
        """Cut images (batch, channel, height, width) into patches (batch, patch, pixels)."""
        height, width = pixel_values.shape[-2:]
        if height != width and not interpolate_pos_encoding:
            raise ShapeError(
                "patchify(pixel_values): the images are not square",
                got=f"shape {pixel_values.shape}",
                hint="pass interpolate_pos_encoding=True to use other shapes",
            )
        return patchify(pixel_values, self.config.patch_size)

    def unpatchify(self, patchified_pixel_values, original_image_size=None):
        """Assemble images (batch, channel, height, width) from patches (batch, patch, pixels)."""
        height, width = pair(original_image_size or self.config.image_size)
        grid = self.vision.patch_embedding.grid(height, width)
        return unpatchify(patchified_pixel_values, self.config.patch_size, grid)
