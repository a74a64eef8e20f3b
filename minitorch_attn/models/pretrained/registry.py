"""Which file of this folder has which class."""

from importlib import import_module

from ...errors import ArgumentError, CheckpointError
from .base import class_of
from .folder import read_config, read_tensors

__all__ = ["class_in", "find_class", "from_pretrained"]

# What the names of a family's classes begin with -> its file; the longest that fits counts.
FAMILIES = {
    "Bart": "bart",
    "Bert": "bert",
    "DeiT": "deit",
    "GPT2": "gpt2",
    "Llama": "llama",
    "Marian": "marian",
    "Swin": "swin",
    "Swinv2": "swinv2",
    "T5": "t5",
    "ViT": "vit",
    "ViTMAE": "vitmae",
}
# What the names of timm's architectures begin with -> the file whose `class_for` knows them.
TIMM = {
    "deit3_": "timm_vit",
    "deit_": "timm_vit",
    "flexivit_": "timm_vit",
    "swin_": "timm_swin",
    "swinv2_": "timm_swin",
    "vit_": "timm_vit",
}


def find_class(name):
    """The class of this name, of the family whose names begin like it.

    Parameters
    ----------
    name : str
        As in "GPT2LMHeadModel".

    Raises
    ------
    ArgumentError
        If there is no such class, with those that there are.
    """
    known = [family for family in FAMILIES if name.startswith(family)]
    if known:
        module = import_module(f"{__package__}.{FAMILIES[max(known, key=len)]}")
        if name in module.__all__:
            return getattr(module, name)
        raise ArgumentError(
            f"there is no model class {name}.", expected=f"one of {', '.join(module.__all__)}"
        )
    raise ArgumentError(
        f"there is no model class {name}.",
        expected=f"a name that begins with one of {', '.join(FAMILIES)}",
    )


def find_timm_class(architecture):
    """The class behind one of timm's architecture names."""
    for start, file in TIMM.items():
        if architecture.startswith(start):
            return import_module(f"{__package__}.{file}").class_for(architecture)
    raise ArgumentError(
        f"there is no architecture {architecture!r} of timm here.",
        expected=f"a name that begins with one of {', '.join(TIMM)}",
    )


def from_pretrained(folder, dtype=None, device=None):
    """The model in a folder as people download it, in eval mode.

    Parameters
    ----------
    folder : str or path
        With `config.json` and `model.safetensors` (or its shards), as transformers or timm write
        them.
    dtype : dtype, optional
        Of all parameters; by default as stored (bfloat16 becomes float32).
    device : str or Device, optional

    Returns
    -------
    PretrainedModel
        Of the class that `config.json` names.

    Raises
    ------
    CheckpointError
        If something is missing from the folder, damaged, or does not fit; with all of it listed.
    """
    cls, fields = class_in(folder)
    return cls.from_arrays(fields, read_tensors(folder), folder, dtype, device)


def class_in(folder):
    """(the class that a folder's `config.json` names, its fields); no tensor is read.

    Raises
    ------
    CheckpointError, ArgumentError
        If there is no folder, no such file or no such class.
    """
    fields = read_config(folder)
    if "architecture" in fields:
        return find_timm_class(fields["architecture"]), fields
    if "architectures" in fields:
        return class_of(fields, find_class), fields
    raise CheckpointError(
        f"{folder}/config.json names no architecture.",
        got=f"the fields {', '.join(sorted(fields)) or 'none'}",
        expected='"architectures" (transformers) or "architecture" (timm)',
    )
