"""TimeSformer with the Hugging Face interface; the model itself is in `models/timesformer.py`."""

from ... import nn, ops
from ...errors import ArgumentError
from ...nn import init
from ..timesformer import TimeSformer
from .base import VIDEOS, PretrainedModel, missing_input
from .decoder import collecting, result
from .losses import classification_loss
from .names import NameTable, Same, Stacked
from .vit_huggingface import DEFAULTS, block_options, initialize_layers
from .vit_names import Unsqueezed

__all__ = ["TimesformerForVideoClassification", "TimesformerModel"]

_KINDS = {"divided_space_time": "divided", "joint_space_time": "joint", "space_only": "space"}


class TimesformerPreTrainedModel(PretrainedModel):
    """Base class for the TimeSformer models."""

    model_type = "timesformer"
    base_prefix = "timesformer"
    defaults = dict(
        DEFAULTS, layer_norm_eps=1e-6, num_frames=8, attention_type="divided_space_time",
        drop_path_rate=0.0,
    )  # fmt: skip

    def build(self, config):
        if config.attention_type not in _KINDS:
            raise ArgumentError(
                f"{type(self).__name__}: the value of config.attention_type is not supported",
                got=repr(config.attention_type), expected=f"one of {', '.join(_KINDS)}",
            )  # fmt: skip
        options = {**block_options(config), "inner_dropout": config.hidden_dropout_prob}
        self.vision = TimeSformer(
            config.image_size, config.patch_size, config.num_frames, 0, config.hidden_size,
            config.num_hidden_layers, config.num_attention_heads, config.intermediate_size,
            in_channels=config.num_channels, attention=_KINDS[config.attention_type],
            drop_path=config.drop_path_rate, **options,
        )  # fmt: skip
        self.add_head(config)
        self.initialize()

    def add_head(self, config):
        """Create the head. A base model does not have a head."""

    def initialize(self):
        """Initialize the parameters from a truncated normal with std `config.initializer_range`."""
        std = self.config.initializer_range
        initialize_layers(self, init.trunc_normal_)
        init.trunc_normal_(self.vision.class_token, std=std)
        init.trunc_normal_(self.vision.positions.weight, std=std)
        if self.vision.time_positions is not None:
            init.zeros_(self.vision.time_positions.weight)

    def names(self):
        prefix = "" if self.is_base else self.base_prefix + "."
        embeddings = prefix + "embeddings."
        blocks, ours = prefix + "encoder.layer.{}.", "vision.blocks.{}."
        entries = [
            Same(embeddings + "cls_token", "vision.class_token"),
            Unsqueezed(embeddings + "position_embeddings", "vision.positions.weight"),
            Unsqueezed(embeddings + "time_embeddings", "vision.time_positions.weight"),
            Same(embeddings + "patch_embeddings.projection", "vision.patch_embedding.projection"),
            Same(blocks + "layernorm_before", ours + "norm1"),
            Same(blocks + "layernorm_after", ours + "norm2"),
            Same(blocks + "intermediate.dense", ours + "feed_forward.linear1"),
            Same(blocks + "output.dense", ours + "feed_forward.linear2"),
            Same(blocks + "temporal_layernorm", ours + "time_norm"),
            Same(blocks + "temporal_dense", ours + "time_projection"),
            Same(prefix + "layernorm", "vision.norm"),
        ]
        for stored, own in (("attention", "attention"), ("temporal_attention", "time_attention")):
            parts = [f"{ours}{own}.{part}_proj" for part in "qkv"]
            entries += [
                Stacked(f"{blocks}{stored}.attention.qkv", parts),
                Same(f"{blocks}{stored}.output.dense", f"{ours}{own}.out_proj"),
            ]
        return NameTable(*entries)

    def run(self, pixel_values, output_attentions, output_hidden_states):
        """Run the encoder. Return (tokens after the final norm, dict of the other outputs).

        Parameters
        ----------
        pixel_values : Tensor of shape (batch, frame, channel, height, width)
        """
        if pixel_values is None:
            raise missing_input(self, "pixel_values", VIDEOS)
        vision = self.vision
        batch, frames, *_ = pixel_values.shape
        images = pixel_values.flatten(0, 1).to(dtype=vision.class_token.dtype)
        grid = vision.patch_embedding.grid(*images.shape[-2:])
        tokens = vision.with_positions(
            vision.patch_embedding(images), batch, self._positions(grid), self._times(frames)
        )
        blocks = vision.blocks  # temporal attention weights are not returned
        watched = nn.ModuleList([block.attention for block in blocks])
        flags = output_attentions, output_hidden_states
        with collecting(self.config, watched, list(blocks), *flags) as found:
            last = vision.encode(tokens, frames)
        if found.hidden_states is not None:
            found.hidden_states = (tokens, *found.hidden_states)
        return last, vars(found)

    def _positions(self, grid):
        """Return position embeddings (1 + patch, embed) for a grid, resized by nearest neighbor."""
        weight, old = self.vision.positions.weight, self.vision.grid
        if grid[0] * grid[1] == old[0] * old[1]:
            return weight
        table = weight[1:].transpose(0, 1).unflatten(1, old).unsqueeze(0)
        table = ops.interpolate(table, size=grid, mode="nearest")
        return ops.cat([weight[:1], table[0].flatten(1).transpose(0, 1)], 0)

    def _times(self, frames):
        """Return the time embeddings (frame, embed), resized to `frames` by nearest neighbor."""
        if self.vision.time_positions is None:
            return None
        weight = self.vision.time_positions.weight
        if frames == weight.shape[0]:
            return weight
        table = weight.transpose(0, 1).unsqueeze(0)
        return ops.interpolate(table, size=frames, mode="nearest")[0].transpose(0, 1)


class TimesformerModel(TimesformerPreTrainedModel):
    """TimeSformer encoder: returns the vectors of the class token and the patches of a video.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = TimesformerModel({"image_size": 8, "patch_size": 4, "num_frames": 3,
    ...     "hidden_size": 6, "num_attention_heads": 2, "num_hidden_layers": 1,
    ...     "intermediate_size": 12})
    >>> model(mt.zeros(5, 3, 3, 8, 8)).last_hidden_state.shape
    (5, 13, 6)
    """

    is_base = True

    def forward(
        self, pixel_values=None, output_attentions=None, output_hidden_states=None,
        return_dict=None,
    ):  # fmt: skip
        """Return the hidden states of a video and the other outputs, as in Hugging Face."""
        last, others = self.run(pixel_values, output_attentions, output_hidden_states)
        return result(
            return_dict, last_hidden_state=last, hidden_states=others["hidden_states"],
            attentions=others["attentions"],
        )  # fmt: skip


class TimesformerForVideoClassification(TimesformerPreTrainedModel):
    """TimeSformer with a linear classifier on the class token.

    With space-only attention, each frame has its own logits, as in Hugging Face.
    """

    def add_head(self, config):
        labels = config.num_labels
        self.classifier = nn.Linear(config.hidden_size, labels) if labels else nn.Identity()

    def forward(
        self, pixel_values=None, labels=None, output_attentions=None, output_hidden_states=None,
        return_dict=None,
    ):  # fmt: skip
        """Return the logits and, with labels, the loss, as in Hugging Face."""
        last, others = self.run(pixel_values, output_attentions, output_hidden_states)
        logits = self.classifier(last[:, 0])  # (batch, labels)
        loss = None if labels is None else classification_loss(self.config, logits, labels)
        return result(
            return_dict, loss=loss, logits=logits, hidden_states=others["hidden_states"],
            attentions=others["attentions"],
        )  # fmt: skip
