"""ResNet, Wide ResNet and ResNeXt with the timm interface, based on `models/resnet.py`."""

from ... import nn
from ...errors import ArgumentError
from .. import resnet
from .names import Ignored, NameTable, Same
from .timm_interface import ClassifierHead, TimmModel, class_among

__all__ = ["ResNet", "class_for"]

_50, _101 = (3, 4, 6, 3), (3, 4, 23, 3)
_ENTRY_POINTS = {
    "resnet18": dict(block="BasicBlock", layers=(2, 2, 2, 2)),
    "resnet34": dict(block="BasicBlock", layers=_50),
    "resnet26": dict(block="Bottleneck", layers=(2, 2, 2, 2)),
    "resnet50": dict(block="Bottleneck", layers=_50),
    "resnet101": dict(block="Bottleneck", layers=_101),
    "resnet152": dict(block="Bottleneck", layers=(3, 8, 36, 3)),
    "resnet200": dict(block="Bottleneck", layers=(3, 24, 36, 3)),
    # Zagoruyko and Komodakis 2016, arXiv:1605.07146: twice the width inside the bottlenecks.
    "wide_resnet50_2": dict(block="Bottleneck", layers=_50, base_width=128),
    "wide_resnet101_2": dict(block="Bottleneck", layers=_101, base_width=128),
    # Xie et al. 2016, arXiv:1611.05431: groups x channels per group.
    "resnext50_32x4d": dict(block="Bottleneck", layers=_50, cardinality=32, base_width=4),
    "resnext101_32x4d": dict(block="Bottleneck", layers=_101, cardinality=32, base_width=4),
    "resnext101_32x8d": dict(block="Bottleneck", layers=_101, cardinality=32, base_width=8),
    "resnext101_32x16d": dict(block="Bottleneck", layers=_101, cardinality=32, base_width=16),
    "resnext101_32x32d": dict(block="Bottleneck", layers=_101, cardinality=32, base_width=32),
    "resnext101_64x4d": dict(block="Bottleneck", layers=_101, cardinality=64, base_width=4),
}
_NORMS = {
    "batchnorm": nn.BatchNorm2d, "batchnorm2d": nn.BatchNorm2d,
    "frozenbatchnorm2d": nn.FrozenBatchNorm2d,
}  # fmt: skip


def class_for(architecture):
    """Return the class for a timm architecture name, with or without a tag."""
    return class_among((ResNet,), architecture)


class ResNet(TimmModel):
    """timm's ResNet: returns class logits. See also `forward_features` and `forward_head`.

    Parameters
    ----------
    config : Config or dict
        Fields of `config.json`: `architecture`, `model_args`, `num_classes`, `pretrained_cfg`.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> sizes = {"layers": [1, 1, 1, 1], "channels": [4, 6, 8, 10]}
    >>> model = ResNet({"architecture": "resnet18", "num_classes": 5, "model_args": sizes})
    >>> model.forward_features(mt.zeros(3, 3, 64, 64)).shape, model(mt.zeros(3, 3, 64, 64)).shape
    ((3, 10, 2, 2), (3, 5))
    """

    entry_points = _ENTRY_POINTS
    arguments = dict(
        layers=(2, 2, 2, 2), num_classes=1000, in_chans=3, output_stride=32, global_pool="avg",
        cardinality=1, base_width=64, channels=(64, 128, 256, 512), norm_layer=None,
        drop_rate=0.0, drop_path_rate=0.0, zero_init_last=True,
    )  # fmt: skip
    may_be_missing = ("num_batches_tracked",)

    def make(self, args):
        norm = str(args.norm_layer or "batchnorm2d").replace("_", "").lower()
        if norm not in _NORMS or args.output_stride not in (8, 16, 32):
            raise ArgumentError(
                "ResNet: the value of an argument in model_args is not supported",
                got=f"norm_layer={args.norm_layer!r}, output_stride={args.output_stride}",
                expected="norm_layer batchnorm2d or frozenbatchnorm2d; output_stride 8, 16 or 32",
            )
        if args.global_pool == "" and args.num_classes:
            raise ArgumentError(
                "ResNet: a model without pooling cannot have a classifier",
                got=f"global_pool='' and num_classes={args.num_classes}",
                expected="num_classes=0, or a different global_pool",
            )
        strides = [4 * 2 ** (i + 1) for i in range(len(args.layers) - 1)]
        self.model = resnet.ResNet(
            getattr(resnet, args.block), args.layers, 0, in_channels=args.in_chans,
            channels=args.channels, groups=args.cardinality, width_per_group=args.base_width,
            replace_stride_with_dilation=[stride > args.output_stride for stride in strides],
            norm_layer=_NORMS[norm], zero_init_residual=args.zero_init_last,
            drop_path=args.drop_path_rate,
        )  # fmt: skip
        self.head = ClassifierHead(
            self.model.num_features, args.num_classes, args.global_pool, args.drop_rate
        )

    def names(self):
        return NameTable(
            Same("conv1", "model.conv1"),
            Same("bn1", "model.bn1"),
            Same("layer{}", "model.layer{}"),
            Same("fc", "head.linear"),
            Ignored("*.num_batches_tracked"),  # frozen norms do not have this buffer
        )

    def forward_features(self, x):
        """Return the last stage's feature map, with shape (batch, channel, height, width)."""
        return self.model.feature_maps(x)[-1]

    def forward_head(self, x, pre_logits=False):
        """Compute logits or, with `pre_logits`, pooled features from the last feature map."""
        if not self.head.pool:
            return self.head.dropout(x)
        return self.head(x.permute(0, 2, 3, 1), pre_logits)
