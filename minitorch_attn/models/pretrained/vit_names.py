"""Parameter names of ViT, DeiT and ViTMAE in the two layouts that Hugging Face uses.

Published files and files written by transformers use names such as
`encoder.layer.3.attention.attention.query`. The classes of transformers 5 use names such as
`layers.3.attention.q_proj`. Our models load both layouts, and save a loaded model in the layout
that its file had.
"""

import re

from .base import PretrainedModel
from .names import Same

__all__ = ["TwoLayouts", "Unsqueezed", "block_names", "encoder_names", "file_block_names"]

# Name of a part of a block in files -> its name in the classes of transformers 5.
_PARTS = {
    "attention.attention.query": "attention.q_proj", "attention.attention.key": "attention.k_proj",
    "attention.attention.value": "attention.v_proj", "attention.output.dense": "attention.o_proj",
    "intermediate.dense": "mlp.fc1", "output.dense": "mlp.fc2",
    "layernorm_before": "layernorm_before", "layernorm_after": "layernorm_after",
}  # fmt: skip
# Name of a stack of blocks in files -> its name in the classes. For MAE's decoder, published files
# use "decoder.decoder_layers", and transformers 5 writes "decoder.decoder_encoder.layer".
_STACKS = {
    "encoder.layer": "layers",
    "decoder.decoder_layers": "decoder.decoder_layers",
    "decoder.decoder_encoder.layer": "decoder.decoder_layers",
}


class Unsqueezed(Same):
    """A tensor that is stored with an additional leading axis of size 1."""

    def join(self, arrays):
        return arrays[0][None]

    def split(self, array, shapes):
        return [array[0]]

    def stored_shape(self, shapes):
        return (1, *shapes[0])


def block_names(stored, ours):
    """Return the `NameTable` entries that map a stack of blocks' stored names to our names.

    Parameters
    ----------
    stored, ours : str
        Prefix of a block's names in the stored weights and in our module, with `{}` for the block's
        number.
    """
    return [
        Same(stored + "attention.o_proj", ours + "attention.out_proj"),
        Same(stored + "attention", ours + "attention"),
        Same(stored + "layernorm_before", ours + "norm1"),
        Same(stored + "layernorm_after", ours + "norm2"),
        Same(stored + "mlp.fc1", ours + "feed_forward.linear1"),
        Same(stored + "mlp.fc2", ours + "feed_forward.linear2"),
    ]


def file_block_names(stored, ours):
    """Same as `block_names`, but with the names in published files, such as `output.dense`."""
    parts = {entry.stored: entry.ours[0] for entry in block_names("", "")}
    parts |= {f"attention.{x}_proj": f"attention.{x}_proj" for x in "qkv"}
    return [Same(stored + old, ours + parts[new]) for old, new in _PARTS.items()]


def encoder_names(prefix):
    """Return the `NameTable` entries of the `VisionTransformer` in the attribute `vision`.

    Parameters
    ----------
    prefix : str
        Prefix of the stored names, such as "vit.".
    """
    return [
        Same(prefix + "embeddings.cls_token", "vision.class_token"),
        Same(prefix + "embeddings.distillation_token", "vision.distillation_token"),
        Same(prefix + "embeddings.mask_token", "mask_token"),
        Unsqueezed(prefix + "embeddings.position_embeddings", "vision.positions.weight"),
        Same(
            prefix + "embeddings.patch_embeddings.projection", "vision.patch_embedding.projection"
        ),
        *block_names(prefix + "layers.{}.", "vision.blocks.{}."),
        Same(prefix + "layernorm", "vision.norm"),
        Same(prefix + "pooler.dense", "pooler"),
    ]


class TwoLayouts(PretrainedModel):
    """Base class for models whose files use one of two sets of parameter names.

    Attributes
    ----------
    stacks : dict of str, or None
        Names of the stacks of blocks, as {name in the classes of transformers: name in the files}.
        None if the files use the same names as these classes.
    """

    stacks = {"layers": "encoder.layer", "decoder.decoder_layers": "decoder.decoder_layers"}

    def _with_expected_names(self, arrays, expected, table):
        renamed = {_in_classes(name): array for name, array in arrays.items()}
        if any(name not in renamed for name in arrays):
            self.stacks = dict(type(self).stacks)
            if any("decoder_encoder" in name for name in arrays):
                self.stacks["decoder.decoder_layers"] = "decoder.decoder_encoder.layer"
        elif any(_split(name, _STACKS.values(), _PARTS.values()) for name in arrays):
            self.stacks = None
        return super()._with_expected_names(renamed, expected, table)

    def peer_state(self):
        state = super().peer_state()
        if self.stacks is None:
            return state
        return {_in_files(name, self.stacks): array for name, array in state.items()}


def _in_classes(name):
    found = _split(name, _STACKS, _PARTS)
    if found is None:
        return name
    before, stack, number, part, end = found
    return f"{before}{_STACKS[stack]}.{number}.{_PARTS[part]}{end}"


def _in_files(name, stacks):
    found = _split(name, _STACKS.values(), _PARTS.values())
    if found is None:
        return name
    before, stack, number, part, end = found
    in_file = next(old for old, new in _PARTS.items() if new == part)
    return f"{before}{stacks[stack]}.{number}.{in_file}{end}"


def _split(name, stacks, parts):
    """Split the name of a block's parameter into (prefix, stack, index, part, suffix).

    `stacks` and `parts` are the names to recognize. The suffix is ".weight" or ".bias". For
    example, "vit.encoder.layer.3.output.dense.bias" becomes ("vit.", "encoder.layer", "3",
    "output.dense", ".bias"). Return None for other names.
    """
    either = [
        "|".join(re.escape(x) for x in sorted(set(y), key=len, reverse=True))
        for y in (stacks, parts)
    ]
    pattern = rf"((?:\w+\.)?)({either[0]})\.(\d+)\.({either[1]})(\.weight|\.bias)"
    found = re.fullmatch(pattern, name)
    return None if found is None else found.groups()
