"""DINOv2 with the Hugging Face interface; the model itself is in `models/dinov2.py`."""

import math

from ... import nn, ops
from ...backend import array_module
from ...nn import init
from ..dinov2 import DINOv2
from ..vit_positions import interpolate_positions
from .activations import activation
from .decoder import result
from .losses import classification_loss
from .names import NameTable, Same
from .vit_huggingface import VisionModel
from .vit_names import Unsqueezed

__all__ = [
    "Dinov2ForImageClassification", "Dinov2Model", "Dinov2WithRegistersForImageClassification",
    "Dinov2WithRegistersModel",
]  # fmt: skip

_DEFAULTS = dict(
    hidden_size=768, num_hidden_layers=12, num_attention_heads=12, mlp_ratio=4, hidden_act="gelu",
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.02,
    layer_norm_eps=1e-6, image_size=224, patch_size=14, num_channels=3, qkv_bias=True,
    layerscale_value=1.0, drop_path_rate=0.0, use_swiglu_ffn=False, apply_layernorm=True,
    reshape_hidden_states=True, use_mask_token=True,
)  # fmt: skip


# Parts of parameter names in published folders -> their names in the classes of transformers 5.
_PUBLISHED = {
    ".attention.attention.query.": ".attention.q_proj.",
    ".attention.attention.key.": ".attention.k_proj.",
    ".attention.attention.value.": ".attention.v_proj.",
    ".attention.output.dense.": ".attention.o_proj.",
    ".mlp.weights_out.": ".mlp.down_proj.",
}
# Published folders store these two matrices as one. In the classes they are separate.
_GATE_AND_UP, _GATE, _UP = ".mlp.weights_in.", ".mlp.gate_proj.", ".mlp.up_proj."


class Dinov2PreTrainedModel(VisionModel):
    """Base class for the DINOv2 models.

    Attributes
    ----------
    published_names : bool
        Whether files use the parameter names of the published folders, such as
        `attention.attention.query`. Transformers also writes these names. If False, files use the
        names of the classes in transformers 5, such as `attention.q_proj`.
    """

    model_type = "dinov2"
    base_prefix = "dinov2"
    defaults = _DEFAULTS
    published_names = True
    antialias = False

    def build(self, config):
        heads, width = config.num_attention_heads, config.hidden_size
        config.refuse(type(self).__name__, head_dim=width // heads)
        self.vision = DINOv2(
            config.image_size, config.patch_size, width, config.num_hidden_layers, heads,
            int(width * config.mlp_ratio), num_registers=config.get("num_register_tokens", 0),
            scale=config.layerscale_value, swiglu=config.use_swiglu_ffn,
            drop_path=config.drop_path_rate, dropout=config.hidden_dropout_prob,
            in_channels=config.num_channels, qkv_bias=config.qkv_bias,
            attention_dropout=config.attention_probs_dropout_prob,
            activation=activation(config.hidden_act), eps=config.layer_norm_eps,
        )  # fmt: skip
        self.has_mask_token = config.get("use_mask_token", True)
        if self.has_mask_token:
            self.mask_token = nn.Parameter(ops.zeros(1, width))
        self.add_head(config)
        self.initialize()

    def add_head(self, config):
        """Create the head. A base model does not have a head."""

    def initialize(self):
        super().initialize()
        init.zeros_(self.vision.register_tokens)

    # Parameter names

    def names(self):
        p, ours = "" if self.is_base else self.base_prefix + ".", "vision.blocks.{}."
        layer = p + "encoder.layer.{}."
        return NameTable(
            Same(p + "embeddings.cls_token", "vision.class_token"),
            Same(p + "embeddings.mask_token", "mask_token"),
            Same(p + "embeddings.register_tokens", "vision.register_tokens"),
            Unsqueezed(p + "embeddings.position_embeddings", "vision.positions.weight"),
            Same(p + "embeddings.patch_embeddings.projection", "vision.patch_embedding.projection"),
            Same(layer + "norm1", ours + "norm1"),
            Same(layer + "norm2", ours + "norm2"),
            Same(layer + "layer_scale1.lambda1", ours + "scale1"),
            Same(layer + "layer_scale2.lambda1", ours + "scale2"),
            Same(layer + "attention.o_proj", ours + "attention.out_proj"),
            Same(layer + "attention", ours + "attention"),
            Same(layer + "mlp.fc1", ours + "feed_forward.linear1"),
            Same(layer + "mlp.fc2", ours + "feed_forward.linear2"),
            *(
                Same(f"{layer}mlp.{name}_proj", f"{ours}feed_forward.{name}")
                for name in ("gate", "up", "down")
            ),
            Same(p + "layernorm", "vision.norm"),
        )

    def _own_tensors(self):
        own = super()._own_tensors()
        if "num_register_tokens" not in self.config:  # files do not have the empty register_tokens
            own.pop("vision.register_tokens")
        return own

    def _with_expected_names(self, arrays, expected, table):
        self.published_names = not any(".attention.q_proj." in name for name in arrays)
        return super()._with_expected_names(_in_classes(arrays), expected, table)

    def peer_state(self):
        state = super().peer_state()
        return _published(state) if self.published_names else state

    # Forward pass

    def run(
        self, pixel_values, bool_masked_pos, attention_mask, output_attentions,
        output_hidden_states,
    ):  # fmt: skip
        """Run the model. Return (token vectors, dict of the other outputs)."""
        patches = self.patches_of(pixel_values)  # (batch, patch, embed)
        if bool_masked_pos is not None:
            patches = self.hide(patches, bool_masked_pos)
        tokens = self.vision.with_prefix(patches) + self.positions_of(pixel_values)
        tokens = self.vision.dropout(self.vision.with_registers(tokens))
        return self.encode(tokens, attention_mask, output_attentions, output_hidden_states)

    def positions_of(self, pixel_values):
        """Return the position embeddings (token, embed), interpolated to the size of the images."""
        weight = self.vision.positions.weight
        height, width = pixel_values.shape[-2:]
        grid = self.vision.patch_embedding.grid(height, width)
        count = weight.shape[0] - 1
        if grid[0] * grid[1] == count and height == width:
            return weight
        # transformers assumes a square grid of positions, even if config.image_size is not square.
        side = math.isqrt(count)
        old = (side, side) if side * side == count else self.vision.grid
        table = weight[1:]
        if table.dtype.itemsize < 4:  # bicubic weights need more than half precision
            table = table.to("float32")
        patches = interpolate_positions(table, old, grid, antialias=self.antialias)
        return ops.cat([weight[:1], patches.to(weight.dtype)], 0)


def _in_classes(arrays):
    """Rename a published model's tensors to the parameter names in transformers 5's classes.

    Each combined gate and up matrix is split into two.
    """
    found = {}
    for name, array in arrays.items():
        for old, new in _PUBLISHED.items():
            name = name.replace(old, new)
        if _GATE_AND_UP in name:
            half = len(array) // 2
            found[name.replace(_GATE_AND_UP, _GATE)] = array[:half]
            found[name.replace(_GATE_AND_UP, _UP)] = array[half:]
        else:
            found[name] = array
    return found


def _published(arrays):
    """Undo `_in_classes`: rename the tensors to the names in published model folders.

    Each pair of gate and up matrices is combined into one.
    """
    found = {}
    for name, array in arrays.items():
        for old, new in _PUBLISHED.items():
            name = name.replace(new, old)
        if _GATE in name:
            both = [array, arrays[name.replace(_GATE, _UP)]]
            found[name.replace(_GATE, _GATE_AND_UP)] = array_module(array).concatenate(both)
        elif _UP not in name:
            found[name] = array
    return found


class Dinov2Model(Dinov2PreTrainedModel):
    """DINOv2 without a head: returns the token vectors and the class token.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = Dinov2Model({"image_size": 8, "patch_size": 2, "hidden_size": 6,
    ...     "num_attention_heads": 2, "num_hidden_layers": 1})
    >>> model(mt.zeros(5, 3, 6, 10)).last_hidden_state.shape
    (5, 16, 6)
    """

    is_base = True

    def forward(
        self, pixel_values=None, bool_masked_pos=None, attention_mask=None,
        output_attentions=None, output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Run the model. The arguments and outputs are the same as in Hugging Face.

        Parameters
        ----------
        pixel_values : Tensor of shape (batch, channel, height, width)
            Images of any size. The position embeddings are interpolated.
        bool_masked_pos : bool Tensor of shape (batch, patch), optional
            True for patches to replace with the mask token.
        attention_mask : Tensor of shape (batch, token), optional
        output_attentions, output_hidden_states, return_dict : bool, optional
        """
        last, others = self.run(
            pixel_values, bool_masked_pos, attention_mask, output_attentions, output_hidden_states
        )
        return result(
            return_dict, last_hidden_state=last, pooler_output=last[:, 0],
            hidden_states=others["hidden_states"], attentions=others["attentions"],
        )  # fmt: skip


class Dinov2ForImageClassification(Dinov2PreTrainedModel):
    """DINOv2 with a linear classifier on the class token and the mean of the patch tokens."""

    def add_head(self, config):
        labels = config.num_labels
        self.classifier = nn.Linear(2 * config.hidden_size, labels) if labels else nn.Identity()

    def forward(
        self, pixel_values=None, labels=None, attention_mask=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Return the logits and, with labels, the loss, as in Hugging Face."""
        last, others = self.run(
            pixel_values, None, attention_mask, output_attentions, output_hidden_states
        )
        patches = last[:, 1 + self.vision.register_tokens.shape[1] :]
        logits = self.classifier(ops.cat([last[:, 0], patches.mean(1)], 1))  # (batch, labels)
        loss = None if labels is None else classification_loss(self.config, logits, labels)
        return result(
            return_dict, loss=loss, logits=logits, hidden_states=others["hidden_states"],
            attentions=others["attentions"],
        )  # fmt: skip


class _WithRegisters:
    """Mixin that sets the class attributes of the DINOv2 models with register tokens."""

    model_type = "dinov2_with_registers"
    base_prefix = "dinov2_with_registers"
    defaults = {**_DEFAULTS, "patch_size": 16, "num_register_tokens": 4}
    antialias = True


class Dinov2WithRegistersModel(_WithRegisters, Dinov2Model):
    """DINOv2 with register tokens, without a head."""


class Dinov2WithRegistersForImageClassification(_WithRegisters, Dinov2ForImageClassification):
    """DINOv2 with register tokens and a linear classifier."""
