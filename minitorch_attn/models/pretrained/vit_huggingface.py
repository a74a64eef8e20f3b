"""Hugging Face interface shared by ViT, DeiT, ViTMAE and DINOv2: encoder, inputs and outputs."""

from ... import nn, ops
from ...errors import ArgumentError, ShapeError
from ...nn import init
from ..vit import VisionTransformer, pair
from ..vit_positions import interpolate_positions
from .activations import activation
from .base import IMAGES, PretrainedModel, missing_input
from .decoder import collecting
from .names import Ignored, NameTable
from .vit_names import TwoLayouts, encoder_names

__all__ = [
    "DEFAULTS", "ImageEncoderModel", "MaskedImageModeling", "VisionModel", "block_options",
    "initialize_layers",
]  # fmt: skip

DEFAULTS = dict(
    hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
    hidden_act="gelu", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    initializer_range=0.02, layer_norm_eps=1e-12, image_size=224, patch_size=16, num_channels=3,
    qkv_bias=True,
)  # fmt: skip


class VisionModel(PretrainedModel):
    """Base class for image models whose attribute `vision` is a `VisionTransformer`.

    Attributes
    ----------
    has_mask_token : bool
        Whether the model has a parameter `mask_token`, which replaces masked patches.
    """

    has_mask_token = False

    def initialize(self):
        """Initialize the parameters from a truncated normal with std `config.initializer_range`."""
        std = self.config.initializer_range
        initialize_layers(self, init.trunc_normal_)
        init.trunc_normal_(self.vision.class_token, std=std)
        init.trunc_normal_(self.vision.positions.weight, std=std)

    def patches_of(self, pixel_values):
        """Return the patch embeddings (batch, patch, embed) in the dtype of the model."""
        if pixel_values is None:
            raise missing_input(self, "pixel_values", IMAGES)
        embedding = self.vision.patch_embedding
        return embedding(pixel_values.to(dtype=embedding.projection.weight.dtype))

    def positions_of(self, pixel_values, interpolate):
        """Return the position embeddings of all tokens of an image, with shape (token, embed)."""
        vision, size = self.vision, pixel_values.shape[-2:]
        weight = vision.positions.weight
        if not interpolate:
            if size != vision.image_size:
                raise ShapeError(
                    f"{type(self).__name__}: pixel_values does not match config.image_size",
                    got=f"shape {pixel_values.shape}",
                    expected=f"height and width {vision.image_size}",
                    hint="pass interpolate_pos_encoding=True to use images of a different size",
                )
            return weight
        prefix, grid = vision.num_prefix, vision.patch_embedding.grid(*size)
        patches = interpolate_positions(weight[prefix:], vision.grid, grid)
        return ops.cat([weight[:prefix], patches], 0)

    def hide(self, patches, bool_masked_pos):
        """Replace each masked patch by the mask token."""
        if not self.has_mask_token:
            raise ArgumentError(
                "bool_masked_pos must be None for a model without a mask token",
                got=type(self).__name__,
                hint="pass use_mask_token=True, or use the class for masked image modeling",
            )
        mask = bool_masked_pos.unsqueeze(-1).to(dtype=patches.dtype)  # (batch, patch, 1)
        return patches * (1.0 - mask) + self.mask_token * mask

    def encode(self, tokens, attention_mask, output_attentions, output_hidden_states):
        """Run the encoder. Return (last hidden states, dict of the other outputs).

        Parameters
        ----------
        tokens : Tensor of shape (batch, token, embed)
        attention_mask : Tensor of shape (batch, token) or (batch, 1, query, key), optional
        """
        blocks = self.vision.blocks
        mask = mask_of(attention_mask)
        flags = output_attentions, output_hidden_states
        with collecting(self.config, blocks, list(blocks), *flags) as found:
            last = self.vision.encode(tokens, mask)
        if found.hidden_states is not None:
            found.hidden_states = (tokens, *found.hidden_states)
        return last, vars(found)


class ImageEncoderModel(TwoLayouts, VisionModel):
    """Base class for ViT, DeiT and ViTMAE.

    Attributes
    ----------
    encoder_class : class
        Class of the encoder: `VisionTransformer` or a subclass.
    """

    defaults = DEFAULTS
    encoder_class = VisionTransformer

    def make_encoder(self, config):
        """Create an `encoder_class` from a configuration, without a classification head."""
        heads = config.num_attention_heads
        config.refuse(type(self).__name__, head_dim=config.hidden_size // heads)
        return self.encoder_class(
            config.image_size, config.patch_size, 0, config.hidden_size,
            config.num_hidden_layers, heads, config.intermediate_size,
            in_channels=config.num_channels, **block_options(config),
        )  # fmt: skip

    def names(self):
        prefix = "" if self.is_base else self.base_prefix + "."
        table = encoder_names(prefix) + self.other_names()
        if not self.is_base:  # old files contain an unused pooler
            table.append(Ignored(prefix + "pooler.dense.*"))
        return NameTable(*table)

    def other_names(self):
        """Return the `NameTable` entries of the modules outside the encoder."""
        return []


def block_options(config):
    """Convert a configuration to keyword arguments for the blocks of `VisionTransformer`."""
    return dict(
        dropout=config.hidden_dropout_prob, inner_dropout=0.0, qkv_bias=config.qkv_bias,
        attention_dropout=config.attention_probs_dropout_prob, eps=config.layer_norm_eps,
        activation=activation(config.hidden_act),
    )  # fmt: skip


def initialize_layers(model, draw):
    """Draw the weights of a model's linear and convolutional layers, and set their biases to 0.

    The standard deviation of the weights is `model.config.initializer_range`.

    Parameters
    ----------
    model : PretrainedModel
    draw : callable
        Function of `nn.init` with an argument `std`, which fills the weights.
    """
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d, nn.Conv3d)):
            draw(module.weight, std=model.config.initializer_range)
            if module.bias is not None:
                init.zeros_(module.bias)


def mask_of(attention_mask):
    """Convert Hugging Face's mask of ones and zeros to a bool mask for the attention weights."""
    if attention_mask is None:
        return None
    if attention_mask.ndim == 2:
        return (attention_mask != 0)[:, None, None, :]
    if attention_mask.ndim == 4 and attention_mask.dtype.kind == "b":
        return attention_mask
    raise ShapeError(
        "attention_mask must have one number per token, or one bool per pair of query and key",
        got=f"{attention_mask.dtype} {attention_mask.shape}",
        expected="(batch, token), or bool (batch, heads or 1, query, key)",
    )


class MaskedImageModeling:
    """Mixin for masked image modeling (SimMIM). Subclasses must set `config` and `decoder`.

    References
    ----------
    .. [1] Xie et al. 2021, "SimMIM", arXiv:2111.09886v2, section 3.
    """

    def make_decoder(self, config):
        """Create the linear layer that maps each token to the pixels of its patch."""
        stride = config.encoder_stride
        pixels = stride**2 * config.num_channels
        return nn.Sequential(
            nn.Conv2d(config.hidden_size, pixels, kernel_size=1), nn.PixelShuffle(stride)
        )

    def check_stride(self, bool_masked_pos):
        """Raise an error if a mask is given and `patch_size` does not equal `encoder_stride`."""
        config = self.config
        rows, columns = pair(config.patch_size)
        if bool_masked_pos is not None and not rows == columns == config.encoder_stride:
            raise ArgumentError(
                "bool_masked_pos: patch_size must be equal to encoder_stride",
                got=f"patch_size={config.patch_size}, encoder_stride={config.encoder_stride}",
                expected="equal sizes, because each token reconstructs its own patch",
            )

    def reconstruct(self, tokens):
        """Map tokens (batch, token, embed) to images (batch, channel, height, width)."""
        patches = tokens[:, self.vision.num_prefix :]
        batch, count, embed_dim = patches.shape
        side = int(count**0.5)
        return self.decoder(patches.transpose(1, 2).reshape(batch, embed_dim, side, side))

    def painting_loss(self, pixel_values, painted, bool_masked_pos):
        """Return the mean absolute error of the reconstruction `painted` at the masked pixels."""
        config, patch = self.config, self.config.encoder_stride
        side = pixel_values.shape[-1] // patch
        mask = bool_masked_pos.reshape(-1, side, side)
        mask = mask.repeat_interleave(patch, 1).repeat_interleave(patch, 2).unsqueeze(1)
        mask = mask.to(dtype=painted.dtype)  # (batch, 1, height, width)
        error = (pixel_values - painted).abs()
        return (error * mask).sum() / (mask.sum() + 1e-5) / config.num_channels
