"""Hugging Face interface shared by Swin and Swin V2: embeddings, hidden states and heads."""

from contextlib import ExitStack
from types import SimpleNamespace

from ... import nn, ops
from ...errors import ArgumentError, ShapeError
from ...nn import functional as F
from .base import IMAGES, PretrainedModel, missing_input
from .losses import classification_loss
from .names import Ignored, NameTable, Same
from .output import Output

__all__ = [
    "Backbone", "BaseHead", "ClassificationHead", "MaskedImageHead", "SwinFamilyModel", "pair",
]  # fmt: skip

DEFAULTS = dict(
    image_size=224, patch_size=4, num_channels=3, embed_dim=96, depths=(2, 2, 6, 2),
    num_heads=(3, 6, 12, 24), window_size=7, mlp_ratio=4.0, qkv_bias=True, hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0, drop_path_rate=0.1, hidden_act="gelu",
    use_absolute_embeddings=False, initializer_range=0.02, layer_norm_eps=1e-5, encoder_stride=32,
)  # fmt: skip


def pair(value):
    """Convert a size, which is one number or a pair, to (height, width)."""
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)


class SwinFamilyModel(PretrainedModel):
    """Base class for the Swin and Swin V2 models with the Hugging Face interface."""

    aliases = {"num_attention_heads": "num_heads", "num_hidden_layers": "num_layers"}
    block_names = {}  # stored names within a block -> our names
    classes = masks = False

    def build(self, config):
        self.model = self.make_model(config, config.num_labels if self.classes else 0)
        token = nn.Parameter(ops.zeros(1, 1, config.embed_dim)) if self.masks else None
        self.register_parameter("mask_token", token)

    def make_model(self, config, num_classes):
        """Create a `Swin` or `SwinV2` from its configuration. Subclasses must override this."""
        raise NotImplementedError

    def names(self):
        prefix = "" if self.is_base else self.base_prefix + "."
        embeddings, layers = prefix + "embeddings.", prefix + "encoder.layers."
        merging = [  # Hugging Face merges patches at the end of a stage, not at the start
            Same(f"{layers}{i}.downsample", f"model.stages.{i + 1}.merging")
            for i in range(len(self.config.depths) - 1)
        ]
        blocks = [
            Same(f"{layers}{{}}.blocks.{{}}.{stored}", f"model.stages.{{}}.blocks.{{}}.{ours}")
            for stored, ours in self.block_names.items()
        ]
        return NameTable(
            Same(embeddings + "patch_embeddings.projection", "model.patch_embedding.projection"),
            Same(embeddings + "norm", "model.patch_embedding.norm"),
            Same(embeddings + "position_embeddings", "model.position_embedding"),
            Same(embeddings + "mask_token", "mask_token"),
            *blocks,
            *merging,
            Same(prefix + "layernorm", "model.norm"),
            Same("classifier", "model.head"),
            Same("decoder.0", "decoder"),
            Ignored("*.relative_position_index", "*.relative_coords_table", "*.attn_mask"),
            Ignored(*([] if self.masks else ["*embeddings.mask_token"])),
        )

    # Embedding

    def embed(self, pixel_values, bool_masked_pos=None, interpolate_pos_encoding=False):
        """Return the patch embeddings plus positions, with shape (batch, height, width, embed).

        The mask token replaces the embeddings of masked patches.
        """
        if pixel_values is None:
            raise missing_input(self, "pixel_values", IMAGES)
        x = self.model.patch_embedding(pixel_values)
        if bool_masked_pos is not None:
            mask = bool_masked_pos.to(dtype=x.dtype).reshape(*x.shape[:3], 1)
            x = x * (1 - mask) + self.mask_token * mask
        if self.model.position_embedding is not None:
            positions = self.model.position_embedding  # (1, token, embed)
            if interpolate_pos_encoding:
                positions = self._interpolated(positions, x, pixel_values.shape[-2:])
            elif positions.shape[1] != x.shape[1] * x.shape[2]:
                raise ShapeError(
                    f"{type(self).__name__}: the image size does not match the position embeddings",
                    got=f"{x.shape[1]} x {x.shape[2]} patches, {positions.shape[1]} positions",
                    hint="pass interpolate_pos_encoding=True to resize the position embeddings",
                )
            x = x + positions.reshape(1, *x.shape[1:])
        return self.model.dropout(x)

    def _interpolated(self, positions, x, size):
        """Resize the learned positions to an image's patch grid by bicubic interpolation."""
        tokens = positions.shape[1]
        if x.shape[1] * x.shape[2] == tokens and size[0] == size[1]:
            return positions
        side = int(tokens**0.5)
        grid = positions.reshape(1, side, side, -1).permute(0, 3, 1, 2)
        new = [n // p for n, p in zip(size, pair(self.config.patch_size), strict=True)]
        grid = F.interpolate(grid, size=new, mode="bicubic", align_corners=False)
        return grid.permute(0, 2, 3, 1)

    # Stages

    def encode(
        self, pixel_values, bool_masked_pos=None, interpolate_pos_encoding=False,
        output_attentions=None, output_hidden_states=None,
        output_hidden_states_before_downsampling=False,
    ):  # fmt: skip
        """Compute all outputs of Hugging Face's base model except the pooled output.

        Returns
        -------
        namespace
            last_hidden_state has shape (batch, token, embed). hidden_states,
            reshaped_hidden_states and attentions are None unless requested.
        """
        x = first = self.embed(pixel_values, bool_masked_pos, interpolate_pos_encoding)
        stages, before = self.model.stages, []
        with ExitStack() as stack:
            merged = stack.enter_context(nn.collect_outputs([s.merging for s in stages[1:]]))
            weights = None
            if self._asked("output_attentions", output_attentions):
                weights = stack.enter_context(nn.collect_attention(stages))
            for stage in stages:
                x = stage(x)
                before.append(x)
        found = SimpleNamespace(hidden_states=None, reshaped_hidden_states=None, attentions=None)
        found.last_hidden_state = self.model.norm(x).flatten(1, 2)
        if self._asked("output_hidden_states", output_hidden_states):
            after = [*(y for _, y in merged), x]
            found.hidden_states = tuple(y.flatten(1, 2) for y in [first, *after])
            maps = [first, *(before if output_hidden_states_before_downsampling else after)]
            found.reshaped_hidden_states = tuple(y.permute(0, 3, 1, 2) for y in maps)
        if weights is not None:  # weights of the last block of each stage
            by_module = {id(attention): w for attention, w in weights}
            lasts = (stage.blocks[-1].attention for stage in stages if len(stage.blocks))
            found.attentions = tuple(by_module[id(attention)] for attention in lasts)
        return found

    def _asked(self, name, flag):
        return self.config.get(name, False) if flag is None else flag


class BaseHead:
    """Base model without a head: returns the last hidden state and its mean over the tokens.

    Parameters
    ----------
    config : Config or dict
    add_pooling_layer : bool
        Whether to return pooler_output.
    use_mask_token : bool
        Whether the model has a mask token.
    """

    is_base = True

    def __init__(self, config, add_pooling_layer=True, use_mask_token=False):
        self.pools, self.masks = add_pooling_layer, use_mask_token
        super().__init__(config)

    def forward(self, pixel_values=None, bool_masked_pos=None, *, return_dict=None, **settings):
        """Compute the hidden states of an image.

        Parameters
        ----------
        pixel_values : Tensor of shape (batch, channel, height, width)
        bool_masked_pos : Tensor of shape (batch, token), optional
            1 for patches that the mask token replaces.
        interpolate_pos_encoding, output_attentions, output_hidden_states : bool, optional
        return_dict : ignored

        Returns
        -------
        Output
        """
        found = self.encode(pixel_values, bool_masked_pos, **settings)
        return Output(
            last_hidden_state=found.last_hidden_state,
            pooler_output=found.last_hidden_state.mean(1) if self.pools else None,
            hidden_states=found.hidden_states,
            attentions=found.attentions,
            reshaped_hidden_states=found.reshaped_hidden_states,
        )


class ClassificationHead:
    """Classification head: a linear layer on the last hidden state, averaged over the tokens."""

    classes = True

    def forward(self, pixel_values=None, labels=None, *, return_dict=None, **settings):
        """Compute the logits of an image and, with labels, the loss.

        Parameters
        ----------
        pixel_values : Tensor of shape (batch, channel, height, width)
        labels : Tensor of shape (batch,), optional
        interpolate_pos_encoding, output_attentions, output_hidden_states : bool, optional
        return_dict : ignored

        Returns
        -------
        Output
        """
        found = self.encode(pixel_values, **settings)
        logits = self.model.head(found.last_hidden_state.mean(1))
        return Output(
            loss=None if labels is None else classification_loss(self.config, logits, labels),
            logits=logits,
            hidden_states=found.hidden_states,
            attentions=found.attentions,
            reshaped_hidden_states=found.reshaped_hidden_states,
        )


class MaskedImageHead:
    """Reconstruction head: predicts each patch's pixels from the last feature map, as in SimMIM.

    Xie et al. 2021, arXiv:2111.09886v2, sections 3.2 and 3.4: the loss is the mean absolute error
    over the masked pixels.
    """

    masks = True

    def build(self, config):
        super().build(config)
        self.decoder = nn.Conv2d(
            self.model.norm.weight.shape[0], config.encoder_stride**2 * config.num_channels, 1
        )

    def forward(self, pixel_values=None, bool_masked_pos=None, *, return_dict=None, **settings):
        """Reconstruct the image and, with a mask, compute the loss.

        Parameters
        ----------
        pixel_values : Tensor of shape (batch, channel, height, width)
        bool_masked_pos : Tensor of shape (batch, token), optional
            1 for masked patches.
        interpolate_pos_encoding, output_attentions, output_hidden_states : bool, optional
        return_dict : ignored

        Returns
        -------
        Output
        """
        found = self.encode(pixel_values, bool_masked_pos, **settings)
        x = found.last_hidden_state.transpose(1, 2)  # (batch, embed, token)
        side = int(x.shape[2] ** 0.5)
        x = self.decoder(x.reshape(*x.shape[:2], side, side))  # (batch, stride^2 * channel, ...)
        image = F.pixel_shuffle(x, self.config.encoder_stride)  # (batch, channel, height, width)
        loss = None
        if bool_masked_pos is not None:
            loss = self._loss(pixel_values, image, bool_masked_pos)
        return Output(
            loss=loss,
            reconstruction=image,
            hidden_states=found.hidden_states,
            attentions=found.attentions,
            reshaped_hidden_states=found.reshaped_hidden_states,
        )

    def _loss(self, pixel_values, image, bool_masked_pos):
        size, patch = self.config.image_size, self.config.patch_size
        if isinstance(size, (list, tuple)) or isinstance(patch, (list, tuple)):
            raise ArgumentError(
                f"{type(self).__name__}: the loss requires square images and patches",
                got=f"image_size={size!r}, patch_size={patch!r}",
                expected="an int for image_size, and an int for patch_size",
            )
        side = size // patch
        mask = bool_masked_pos.reshape(-1, side, side)
        mask = mask.repeat_interleave(patch, 1).repeat_interleave(patch, 2).unsqueeze(1)
        mask = mask.to(dtype=image.dtype)  # (batch, 1, height, width)
        error = F.l1_loss(pixel_values, image, reduction="none") * mask
        return error.sum() / (mask.sum() + 1e-5) / self.config.num_channels


class Backbone:
    """Backbone: returns the feature maps of the stages that `config.out_features` names.

    Attributes
    ----------
    out_features : dict of str to int
        Stage numbers, with stage names as keys. Stage 0 is the embedding.
    """

    def build(self, config):
        super().build(config)
        self.out_features = _wanted_stages(config)

    def forward(
        self, pixel_values, *, output_attentions=None, output_hidden_states=None, return_dict=None
    ):  # fmt: skip
        """Compute the feature maps of an image.

        Parameters
        ----------
        pixel_values : Tensor of shape (batch, channel, height, width)
        output_attentions, output_hidden_states : bool, optional
        return_dict : ignored

        Returns
        -------
        Output
            feature_maps: tuple of Tensors of shape (batch, embed, height, width).
        """
        found = self.encode_stages(pixel_values, output_attentions)
        maps = found.reshaped_hidden_states
        asked = self._asked("output_hidden_states", output_hidden_states)
        return Output(
            feature_maps=tuple(
                self.feature_map(maps[i], name) for name, i in self.out_features.items()
            ),
            hidden_states=self.states(maps) if asked else None,
            attentions=found.attentions,
        )


def _wanted_stages(config):
    """Return the stages whose feature maps the backbone returns, as {name: stage number}."""
    stages = ["stem"] + [f"stage{i + 1}" for i in range(len(config.depths))]
    wanted = config.get("out_features")
    if wanted is None:
        wanted = [stages[i] for i in config.get("out_indices") or [-1]]
    unknown = [name for name in wanted if name not in stages]
    if unknown:
        raise ArgumentError(
            "config.out_features must contain only stages of the model",
            got=f"out_features={wanted!r}", expected=f"some of {', '.join(stages)}",
        )  # fmt: skip
    return {name: i for i, name in enumerate(stages) if name in wanted}
