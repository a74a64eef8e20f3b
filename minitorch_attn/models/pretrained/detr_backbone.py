"""Backbones in DETR model folders: timm and Hugging Face ResNets, with their parameter names."""

from ... import nn
from ...errors import ArgumentError
from ...schema import COUNT, FLAG, INTEGER, SIZE, TEXT, check, choice, list_of, optional, record
from ..detr import FeatureExtractor
from ..resnet import BasicBlock, Bottleneck
from .names import Same

__all__ = ["backbone_config", "backbone_names", "make_backbone"]

_TIMM = {
    "resnet18": (BasicBlock, (2, 2, 2, 2)), "resnet26": (Bottleneck, (2, 2, 2, 2)),
    "resnet34": (BasicBlock, (3, 4, 6, 3)), "resnet50": (Bottleneck, (3, 4, 6, 3)),
    "resnet101": (Bottleneck, (3, 4, 23, 3)), "resnet152": (Bottleneck, (3, 8, 36, 3)),
}  # fmt: skip
_BLOCKS = {"basic": BasicBlock, "bottleneck": Bottleneck}
_DEFAULTS = {  # defaults of Hugging Face's ResNetConfig
    "num_channels": 3, "embedding_size": 64, "hidden_sizes": [256, 512, 1024, 2048],
    "depths": [3, 4, 6, 3], "layer_type": "bottleneck", "hidden_act": "relu",
    "downsample_in_first_stage": False, "downsample_in_bottleneck": False,
}  # fmt: skip
_FIELDS = record(
    {"model_type": choice("resnet", "timm_backbone")},
    {
        "num_channels": SIZE, "embedding_size": SIZE, "hidden_sizes": list_of(SIZE),
        "depths": list_of(COUNT), "layer_type": choice(*_BLOCKS), "hidden_act": choice("relu"),
        "downsample_in_first_stage": FLAG, "downsample_in_bottleneck": FLAG,
        "out_indices": optional(list_of(INTEGER)), "out_features": optional(list_of(TEXT)),
        "backbone": TEXT, "output_stride": optional(choice(8, 16, 32)),
    },
)  # fmt: skip


def backbone_config(config):
    """Return the backbone's configuration, from `backbone_config` or an older folder's fields.

    Parameters
    ----------
    config : Config
        Configuration of a DETR model. If it does not have `backbone_config`, other fields such as
        `backbone` describe a timm backbone, unless `use_timm_backbone` is False. The backbone is
        then Hugging Face's default ResNet.

    Returns
    -------
    dict
    """
    fields = config.get("backbone_config")
    if fields is None and config.get("use_timm_backbone", True) is not False:
        more = config.get("backbone_kwargs") or {}
        fields = {
            "model_type": "timm_backbone", "backbone": config.get("backbone") or "resnet50",
            "num_channels": more.get("num_channels", config.num_channels),
            "out_indices": list(more.get("out_indices", [1, 2, 3, 4])),
            "output_stride": more.get("output_stride", 16 if config.dilation else None),
        }  # fmt: skip
    elif fields is None:
        fields = {"model_type": "resnet"}
    check(fields, _FIELDS, "config.backbone_config", ArgumentError)
    return fields


def make_backbone(fields):
    """Create the backbone.

    Parameters
    ----------
    fields : dict
        Result of `backbone_config`.

    Returns
    -------
    FeatureExtractor
    """
    if fields["model_type"] == "timm_backbone":
        return _timm_backbone(fields)
    fields = {**_DEFAULTS, **fields}
    block, sizes = _BLOCKS[fields["layer_type"]], fields["hidden_sizes"]
    model = FeatureExtractor(
        block, fields["depths"], in_channels=fields["num_channels"],
        channels=[size // block.expansion for size in sizes],
        stem_channels=fields["embedding_size"], last_stage=_last_stage(fields),
    )  # fmt: skip
    if fields["downsample_in_first_stage"]:
        _halve_first_stage(model, fields["embedding_size"], sizes[0])
    swapped = block is Bottleneck and fields["downsample_in_bottleneck"]
    for name in model.stage_names if swapped else ():
        for unit in getattr(model, name):
            unit.conv1.stride, unit.conv2.stride = unit.conv2.stride, unit.conv1.stride
    return model


def _timm_backbone(fields):
    name = fields.get("backbone", "resnet50").partition(".")[0]
    if name not in _TIMM:
        raise ArgumentError(
            "config.backbone_config: the backbone is not supported",
            got=name, expected=f"one of {', '.join(_TIMM)}",
        )  # fmt: skip
    block, depths = _TIMM[name]
    last = max(fields.get("out_indices") or [4])
    if not 1 <= last <= 4:
        raise ArgumentError(
            "config.backbone_config: the largest of out_indices must be the number of a stage",
            got=str(fields["out_indices"]), expected="a stage from 1 to 4",
        )  # fmt: skip
    stride, depths = fields.get("output_stride") or 32, depths[:last]
    return FeatureExtractor(
        block, depths, [2 ** (i + 3) > stride for i in range(len(depths) - 1)],
        in_channels=fields.get("num_channels", 3), channels=(64, 128, 256, 512)[:last],
    )  # fmt: skip


def _last_stage(fields):
    """Return the number of the stage whose features DETR reads, counted from 1."""
    stages = len(fields["depths"])
    names = ["stem", *[f"stage{i + 1}" for i in range(stages)]]
    indices = fields.get("out_indices") or [
        names.index(name) if name in names else 0 for name in fields.get("out_features") or names
    ]
    last = indices[-1] % (stages + 1)
    if last == 0:
        raise ArgumentError(
            "config.backbone_config: the last output feature must be a stage, not the stem",
            got=f"out_indices={fields.get('out_indices')}, "
            f"out_features={fields.get('out_features')}",
            expected=f"one of {', '.join(names[1:])}",
        )
    return last


def _halve_first_stage(model, in_channels, out_channels):
    """Give the first block of the first stage a stride of 2."""
    unit = model.layer1[0]
    conv = unit.conv2 if isinstance(unit, Bottleneck) else unit.conv1
    conv.stride = (2, 2)
    if unit.downsample is None:
        unit.downsample = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 1, bias=False), nn.FrozenBatchNorm2d(out_channels)
        )
    unit.downsample[0].stride = (2, 2)


def backbone_names(fields, stored, ours):
    """Yield the `NameTable` entries of a backbone.

    Parameters
    ----------
    fields : dict
        Result of `backbone_config`.
    stored, ours : str
        Prefixes of the names in files and in this library, such as "model.backbone.model." and
        "detr.backbone.".
    """
    if fields["model_type"] == "timm_backbone":
        yield Same(stored.removesuffix("."), ours.removesuffix("."))
        return
    convolution, norm = ".convolution", ".normalization"
    yield Same(stored + "embedder.embedder" + convolution, ours + "conv1")
    yield Same(stored + "embedder.embedder" + norm, ours + "bn1")
    for i in range(len({**_DEFAULTS, **fields}["depths"])):
        block, own = f"{stored}encoder.stages.{i}.layers.{{}}.", f"{ours}layer{i + 1}.{{}}."
        yield Same(block + "shortcut" + convolution, own + "downsample.0")
        yield Same(block + "shortcut" + norm, own + "downsample.1")
        for k in range(3):
            yield Same(f"{block}layer.{k}{convolution}", f"{own}conv{k + 1}")
            yield Same(f"{block}layer.{k}{norm}", f"{own}bn{k + 1}")
