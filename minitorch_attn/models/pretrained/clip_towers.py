"""CLIP's text and image towers with the Hugging Face interface.

The module contains the models of the towers, their parameter names and their configurations.
"""

from pathlib import Path

from ...errors import ArgumentError, CheckpointError
from ..clip import ImageTower, TextTower
from .activations import activation
from .base import PretrainedModel
from .config import Config
from .config_fields import check_config, check_sizes
from .decoder import collecting, embeddings_of, result
from .encoder import decoder_mask
from .names import Ignored, NameTable, Same
from .vit_huggingface import VisionModel

__all__ = ["CLIPTextModel", "CLIPVisionModel", "FullConfig", "PartModel", "tower_names"]

_TOWER = dict(
    projection_dim=512, num_hidden_layers=12, hidden_act="quick_gelu", layer_norm_eps=1e-5,
    attention_dropout=0.0, initializer_range=0.02, initializer_factor=1.0,
)  # fmt: skip
_TEXT = dict(
    _TOWER, vocab_size=49408, hidden_size=512, intermediate_size=2048, num_attention_heads=8,
    max_position_embeddings=77, pad_token_id=1, bos_token_id=49406, eos_token_id=49407,
)  # fmt: skip
_VISION = dict(
    _TOWER, hidden_size=768, intermediate_size=3072, num_attention_heads=12, num_channels=3,
    image_size=224, patch_size=32,
)  # fmt: skip
_PARTS = {"text_config": _TEXT, "vision_config": _VISION}
# Configurations from before 2023 contain this wrong id of the end token. The models then take the
# largest id of each text as its end token.
_OLD_EOS = 2


class _Flat(Same):
    """`NameTable` entry for a tensor that files store as a vector."""

    def join(self, arrays):
        return arrays[0].reshape(-1)

    def split(self, array, shapes):
        return [array.reshape(shapes[0])]

    def stored_shape(self, shapes):
        return (shapes[0][-1],)


def tower_names(tower, stored, ours):
    """Return the `NameTable` entries of a tower.

    Parameters
    ----------
    tower : "text" or "vision"
        Name of the attribute that holds the tower.
    stored, ours : str
        Prefixes of the names in files and of the names in this library.
    """
    layer, block = stored + "encoder.layers.{}.", f"{ours}{tower}.blocks.{{}}."
    own, table = f"{ours}{tower}.", stored + "embeddings."
    return [
        _Flat(table + "class_embedding", own + "class_token"),
        Same(table + "patch_embedding", own + "patch_embedding.projection"),
        Same(table + "position_embedding", own + "positions"),
        Same(table + "token_embedding", own + "token_embedding"),
        Same(table + "position_embedding", own + "position_embedding"),
        Same(layer + "self_attn", block + "attention"),
        Same(layer + "layer_norm1", block + "norm1"),
        Same(layer + "layer_norm2", block + "norm2"),
        Same(layer + "mlp.fc1", block + "feed_forward.linear1"),
        Same(layer + "mlp.fc2", block + "feed_forward.linear2"),
        Same(stored + "pre_layrnorm", own + "pre_norm"),  # misspelled in all files
        Same(stored + ("final_layer_norm" if tower == "text" else "post_layernorm"), own + "norm"),
    ]


class PartModel(PretrainedModel):
    """Base class for a model with one tower, which can also load a folder with a complete CLIP.

    Attributes
    ----------
    part : str
        Field of CLIP's configuration that contains the fields of the tower.
    """

    part = ""

    @classmethod
    def from_arrays(cls, fields, arrays, *args, **options):
        if isinstance(fields.get(cls.part), dict):
            fields = part_fields(fields, cls.part)
        return super().from_arrays(fields, arrays, *args, **options)


class FullConfig(PretrainedModel):
    """Base class for models whose configuration contains those of the text and the image tower."""

    model_type = "clip"
    defaults = dict(
        text_config=None, vision_config=None, projection_dim=512, logit_scale_init_value=2.6592,
        initializer_factor=1.0,
    )  # fmt: skip

    @classmethod
    def checked_config(cls, fields, where, error):
        config = super().checked_config(fields, where, error)
        for name, defaults in _PARTS.items():
            part = Config(part_fields(config.to_dict(), name), defaults)
            check_config(part, defaults, f"{where}: {name}", error)
        return config

    @classmethod
    def from_arrays(cls, fields, arrays, folder="the state", dtype=None, device=None, strict=True):
        where = Path(folder) / "config.json"
        cls.checked_config(fields, where, CheckpointError)
        for name in _PARTS:
            check_sizes(part_fields(fields, name), arrays, f"{where}: {name}", strict)
        return super().from_arrays(fields, arrays, folder, dtype, device, strict)

    def part(self, name):
        """Return the fields of one tower."""
        return part_fields(self.config.to_dict(), name)


def part_fields(fields, name):
    """Return the fields of one tower, given the fields of CLIP's configuration.

    Old configurations may contain a second copy of the tower's fields, such as
    `text_config_dict`. The second copy then replaces the first, and its missing fields have the
    default values.
    """
    found = dict(fields.get(name) or {})
    second = fields.get(f"{name}_dict")
    return found if second is None else {**found, **_PARTS[name], **second}


class Tower(PartModel):
    """Base class for a tower without its projection.

    Attributes
    ----------
    prefixed : bool
        Whether the names in files have the prefix `base_prefix`. Old files have it, and so do files
        that transformers writes after loading the folder of a complete CLIP.
    """

    is_base = True
    prefixed = False

    def _with_expected_names(self, arrays, expected, table):
        self.prefixed = any(name.startswith(self.base_prefix + ".") for name in arrays)
        return super()._with_expected_names(arrays, expected, table)

    def peer_state(self):
        prefix = self.base_prefix + "." if self.prefixed else ""
        return {prefix + name: array for name, array in super().peer_state().items()}


class CLIPTextModel(Tower):
    """Text tower of CLIP without its projection.

    Parameters
    ----------
    config : Config or dict

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = CLIPTextModel({"vocab_size": 11, "hidden_size": 6, "num_attention_heads": 2,
    ...     "num_hidden_layers": 1, "eos_token_id": 10})
    >>> output = model(mt.tensor([[1, 4, 10, 0]]))
    >>> bool((output.pooler_output == output.last_hidden_state[:, 2]).all())
    True
    """

    model_type = "clip_text_model"
    base_prefix = "text_model"
    part = "text_config"
    defaults = _TEXT

    def build(self, config):
        end = config.eos_token_id
        if isinstance(end, bool) or not isinstance(end, int):
            raise ArgumentError(
                "CLIPTextModel: config.eos_token_id must be one id", got=repr(end),
                expected="an int, the id of the end token",
            )  # fmt: skip
        self.text = TextTower(
            config.vocab_size, config.max_position_embeddings, config.hidden_size,
            config.num_hidden_layers, config.num_attention_heads, config.intermediate_size, 0,
            end_id=None if end == _OLD_EOS else end, attention_dropout=config.attention_dropout,
            activation=activation(config.hidden_act), eps=config.layer_norm_eps,
        )  # fmt: skip
        self.text.initialize(config.initializer_factor)

    def names(self):
        return NameTable(*tower_names("text", "", ""), Ignored("*position_ids"))

    def forward(
        self, input_ids=None, attention_mask=None, position_ids=None, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Run the tower. The arguments and outputs are the same as in Hugging Face.

        Parameters
        ----------
        input_ids : int64 Tensor of shape (batch, token)
        attention_mask : Tensor of shape (batch, token), optional
            1 for tokens, 0 for padding. A mask with four axes replaces the causal mask.
        position_ids : int64 Tensor of shape (1 or batch, token), optional
        output_attentions, output_hidden_states, return_dict : bool, optional
        """
        tower = self.text
        tokens = embeddings_of(tower.token_embedding, input_ids, None)
        ids = input_ids.reshape(-1, input_ids.shape[-1])
        x = tower.with_positions(tokens, position_ids)  # (batch, token, embed)
        mask = decoder_mask(attention_mask, *ids.shape)
        flags = output_attentions, output_hidden_states
        with collecting(self.config, tower.blocks, list(tower.blocks), *flags) as found:
            last = tower.encode(x, mask)
        if found.hidden_states is not None:
            found.hidden_states = (x, *found.hidden_states)
        last = tower.norm(last)
        return result(
            return_dict, last_hidden_state=last, pooler_output=tower.pool(last, ids),
            hidden_states=found.hidden_states, attentions=found.attentions,
        )  # fmt: skip


class CLIPVisionModel(Tower, VisionModel):
    """Image tower of CLIP without its projection."""

    model_type = "clip_vision_model"
    base_prefix = "vision_model"
    part = "vision_config"
    defaults = _VISION

    def build(self, config):
        self.vision = ImageTower(
            config.image_size, config.patch_size, config.hidden_size, config.num_hidden_layers,
            config.num_attention_heads, config.intermediate_size, 0,
            in_channels=config.num_channels, attention_dropout=config.attention_dropout,
            activation=activation(config.hidden_act), eps=config.layer_norm_eps,
        )  # fmt: skip
        self.vision.initialize(config.initializer_factor)

    def names(self):
        return NameTable(*tower_names("vision", "", ""), Ignored("*position_ids"))

    def forward(
        self, pixel_values=None, interpolate_pos_encoding=False, output_attentions=None,
        output_hidden_states=None, return_dict=None,
    ):  # fmt: skip
        """Run the tower. The arguments and outputs are the same as in Hugging Face.

        Parameters
        ----------
        pixel_values : Tensor of shape (batch, channel, height, width)
        interpolate_pos_encoding : bool, default False
            Whether the size of images may differ from `image_size`.
        output_attentions, output_hidden_states, return_dict : bool, optional
        """
        tower = self.vision
        patches = self.patches_of(pixel_values)
        positions = self.positions_of(pixel_values, interpolate_pos_encoding)
        tokens = tower.pre_norm(tower.with_prefix(patches) + positions)
        last, others = self.encode(tokens, None, output_attentions, output_hidden_states)
        return result(
            return_dict, last_hidden_state=last, pooler_output=tower.pool(last),
            hidden_states=others["hidden_states"], attentions=others["attentions"],
        )  # fmt: skip
