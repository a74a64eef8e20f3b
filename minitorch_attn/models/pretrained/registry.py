"""Model registry: find a class by its Hugging Face class name or timm architecture name."""

from importlib import import_module

from ...errors import ArgumentError, CheckpointError
from ...schema import TEXT, check, record
from .base import class_of
from .folder import read_config, read_tensors

__all__ = ["class_in", "find_class", "from_pretrained"]

# Prefix of a family's class names -> the family's file. The longest matching prefix is used.
FAMILIES = {
    "Bart": "bart", "Bert": "bert", "CLIP": "clip", "DeiT": "deit", "Detr": "detr",
    "Dinov2": "dinov2",
    "GPT2": "gpt2", "ImageGPT": "image_gpt", "Llama": "llama", "Marian": "marian",
    "Swin": "swin", "Swinv2": "swinv2", "T5": "t5", "Timesformer": "timesformer",
    "VideoMAE": "videomae",
    "ViT": "vit", "ViTMAE": "vitmae", "Vilt": "vilt", "VisualBert": "visual_bert",
    "Wav2Vec2Conformer": "wav2vec2_conformer",
}  # fmt: skip
# Prefix of timm's architecture names -> the file whose `class_for` finds the class.
TIMM = {
    "deit3_": "timm_vit", "deit_": "timm_vit", "flexivit_": "timm_vit", "mvitv2_": "timm_mvitv2",
    "resnet": "timm_resnet", "resnext": "timm_resnet", "swin_": "timm_swin",
    "swinv2_": "timm_swin", "vit_": "timm_vit", "wide_resnet": "timm_resnet",
}  # fmt: skip


def find_class(name):
    """Return the class with the given Hugging Face class name.

    Parameters
    ----------
    name : str
        Class name, such as "GPT2LMHeadModel".

    Raises
    ------
    ArgumentError
        If the class is not supported. The error lists the supported classes of its model family or,
        if the family is not supported, the supported families.
    """
    known = [family for family in FAMILIES if name.startswith(family)]
    if known:
        module = import_module(f"{__package__}.{FAMILIES[max(known, key=len)]}")
        if name in module.__all__:
            return getattr(module, name)
        raise ArgumentError(
            f"model class {name} is not supported", expected=f"one of {', '.join(module.__all__)}"
        )
    raise ArgumentError(
        f"model class {name} is not supported",
        expected=f"a name that begins with one of {', '.join(FAMILIES)}",
    )


def find_timm_class(architecture):
    """Return the class for a timm architecture name."""
    for start, file in TIMM.items():
        if architecture.startswith(start):
            return import_module(f"{__package__}.{file}").class_for(architecture)
    raise ArgumentError(
        f"timm architecture {architecture!r} is not supported",
        expected=f"a name that begins with one of {', '.join(TIMM)}",
    )


def from_pretrained(folder, dtype=None, device=None):
    """Load a model from a Hugging Face or timm folder, in eval mode.

    Parameters
    ----------
    folder : str or path
        Folder with `config.json` and `model.safetensors` (or its shards), as transformers or
        timm write them.
    dtype : dtype, optional
        Dtype of all parameters. Default: the stored dtype (bfloat16 becomes float32).
    device : str or Device, optional

    Returns
    -------
    PretrainedModel
        An instance of the class named in `config.json`.

    Raises
    ------
    CheckpointError
        If files or tensors are missing or damaged, or do not match `config.json`.
    """
    cls, fields = class_in(folder)
    return cls.from_arrays(fields, read_tensors(folder), folder, dtype, device)


def class_in(folder):
    """Return the class named in a folder's `config.json`, and the fields of `config.json`.

    Raises
    ------
    CheckpointError
        If the folder or `config.json` is missing, or the file is invalid or does not name a class.
    ArgumentError
        If the class is not supported.
    """
    fields = read_config(folder)
    if "architecture" in fields:
        table = record({"architecture": TEXT})
        check(fields, table, f"{folder}/config.json", CheckpointError)
        return find_timm_class(fields["architecture"]), fields
    if "architectures" in fields:
        return class_of(fields, find_class), fields
    raise CheckpointError(
        f"{folder}/config.json: the architecture is missing",
        got=f"the fields {', '.join(sorted(fields)) or 'none'}",
        expected='"architectures" (transformers) or "architecture" (timm)',
    )
