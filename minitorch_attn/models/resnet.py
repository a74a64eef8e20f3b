"""ResNet: convolutional networks with residual connections, as classifiers and as backbones.

He et al. 2015, "Deep Residual Learning for Image Recognition", arXiv:1512.03385v1. Each block adds
its input to its output (Eq. 1), so a block only has to learn a change. Modules and parameters
have torchvision's names, so the model can load state dicts of torchvision and timm. As in
torchvision, the stride of a bottleneck is in its 3 x 3 convolution. In the paper, the stride is
in the first 1 x 1 convolution.
"""

from .. import nn
from ..errors import ArgumentError
from ..nn.checks import check_layers
from ..nn.conv_norm_relu import conv_norm_relu

__all__ = [
    "BasicBlock", "Bottleneck", "ResNet", "resnet101", "resnet152", "resnet18", "resnet34",
    "resnet50",
]  # fmt: skip


class BasicBlock(nn.Module):
    """Residual block of two 3 x 3 convolutions (Figure 5, left).

    Parameters
    ----------
    in_channels, width : int
        Number of channels of the input, and of each convolution's output.
    stride : int
        Stride of the first convolution.
    downsample : Module, optional
        Module that maps the input to the shape of the output, if they differ (Eq. 2).
    dilations : (int, int)
        Dilations of the two convolutions. A `Bottleneck` uses only the first.
    groups, width_per_group : int
        See `ResNet`; a basic block has one group.
    norm_layer : callable
        Function that creates a normalization layer for a given number of channels.
    drop_path : float
        DropPath probability of the residual branch.
    """

    expansion = 1

    def __init__(
        self, in_channels, width, stride=1, downsample=None, dilations=(1, 1), groups=1,
        width_per_group=64, norm_layer=nn.BatchNorm2d, drop_path=0.0,
    ):  # fmt: skip
        super().__init__()
        if groups != 1 or width_per_group != 64:
            raise ArgumentError(
                "ResNet: a BasicBlock must have groups=1 and width_per_group=64",
                got=f"groups={groups} and width_per_group={width_per_group}",
                hint="use block=Bottleneck",
            )
        first, second = dilations
        self.conv1 = _conv3x3(in_channels, width, stride, first)
        self.bn1 = norm_layer(width)
        self.conv2 = _conv3x3(width, width, 1, second)
        self.bn2 = norm_layer(width)
        self.downsample = downsample
        self.drop_path = nn.DropPath(drop_path)

    def forward(self, x):
        # x: (batch, in_channels, height, width)
        shortcut = x if self.downsample is None else self.downsample(x)
        y = conv_norm_relu(x, self.conv1, self.bn1)
        return conv_norm_relu(y, self.conv2, self.bn2, shortcut, self.drop_path)


class Bottleneck(nn.Module):
    """Residual block of a 1 x 1, a 3 x 3 and a 1 x 1 convolution (Figure 5, right).

    The last convolution has 4 * `width` channels. The arguments are the same as for `BasicBlock`.
    With `groups`, this is the block of ResNeXt (Xie et al. 2016, arXiv:1611.05431v2, Figure 3c).
    """

    expansion = 4

    def __init__(
        self, in_channels, width, stride=1, downsample=None, dilations=(1, 1), groups=1,
        width_per_group=64, norm_layer=nn.BatchNorm2d, drop_path=0.0,
    ):  # fmt: skip
        super().__init__()
        inner, out_channels = int(width * (width_per_group / 64)) * groups, width * self.expansion
        self.conv1 = nn.Conv2d(in_channels, inner, 1, bias=False)
        self.bn1 = norm_layer(inner)
        self.conv2 = _conv3x3(inner, inner, stride, dilations[0], groups)
        self.bn2 = norm_layer(inner)
        self.conv3 = nn.Conv2d(inner, out_channels, 1, bias=False)
        self.bn3 = norm_layer(out_channels)
        self.downsample = downsample
        self.drop_path = nn.DropPath(drop_path)

    def forward(self, x):
        # x: (batch, in_channels, height, width)
        shortcut = x if self.downsample is None else self.downsample(x)
        y = conv_norm_relu(x, self.conv1, self.bn1)
        y = conv_norm_relu(y, self.conv2, self.bn2)
        return conv_norm_relu(y, self.conv3, self.bn3, shortcut, self.drop_path)


class ResNet(nn.Module):
    """ResNet: an image classifier, and a backbone that returns feature maps (`feature_maps`).

    Parameters
    ----------
    block : class
        `BasicBlock` or `Bottleneck`.
    layers : sequence of int
        Number of blocks in each stage.
    num_classes : int
        Number of classes. With 0 classes, the model returns features averaged over positions.
    in_channels : int
    channels : sequence of int
        Width of the blocks in each stage.
    stem_channels : int
        Number of channels of the first convolution.
    small_stem : bool
        If True, the first convolution is 3 x 3 with stride 1, for small images (section 4.2). If
        False, it is 7 x 7 with stride 2, and max pooling follows.
    groups, width_per_group : int
        Number of groups of a bottleneck's 3 x 3 convolution, and number of channels of each group
        in a stage of width 64. In other stages, the groups are wider in proportion to the stage.
    replace_stride_with_dilation : sequence of bool, one for each stage after the first
        True for stages that use dilated convolutions instead of a stride. These stages keep the
        size of their input, and their receptive field is as large as with a stride. (False, False,
        True) gives the backbone of DETR-DC5.
    norm_layer : callable
        Function that creates a normalization layer for a given number of channels, such as
        `nn.FrozenBatchNorm2d`.
    zero_init_residual : bool
        Whether to initialize the weight of each block's last norm with 0. Each block then starts as
        the identity, followed by a ReLU.
    drop_path : float
        DropPath probability of the last block. It increases linearly from 0 at the first block.

    References
    ----------
    .. [1] He et al. 2015, arXiv:1512.03385v1, section 3.3 and Table 1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = ResNet(BasicBlock, (1, 1), num_classes=5, channels=(4, 6), stem_channels=3)
    >>> images = mt.zeros(2, 3, 32, 32)
    >>> model(images).shape
    (2, 5)
    >>> [features.shape for features in model.feature_maps(images)]
    [(2, 4, 8, 8), (2, 6, 4, 4)]
    """

    named_methods = None  # all public methods

    def __init__(
        self, block, layers, num_classes=1000, *, in_channels=3, channels=(64, 128, 256, 512),
        stem_channels=64, small_stem=False, groups=1, width_per_group=64,
        replace_stride_with_dilation=None, norm_layer=nn.BatchNorm2d, zero_init_residual=False,
        drop_path=0.0,
    ):  # fmt: skip
        super().__init__()
        dilated = replace_stride_with_dilation or (False,) * (len(layers) - 1)
        _check(layers, channels, dilated)
        kernel, stride = (3, 1) if small_stem else (7, 2)
        self.conv1 = nn.Conv2d(
            in_channels, stem_channels, kernel, stride=stride, padding=kernel // 2, bias=False
        )
        self.bn1 = norm_layer(stem_channels)
        self.maxpool = nn.Identity() if small_stem else nn.MaxPool2d(3, stride=2, padding=1)
        shared = {"groups": groups, "width_per_group": width_per_group, "norm_layer": norm_layer}
        rates = [drop_path * i / max(sum(layers) - 1, 1) for i in range(sum(layers))]
        self.stage_names = []
        inputs, dilation = stem_channels, 1
        for i, (count, width) in enumerate(zip(layers, channels, strict=True)):
            stride, before = 2 if i else 1, dilation
            if i and dilated[i - 1]:
                stride, dilation = 1, dilation * stride
            drops, rates = rates[:count], rates[count:]
            self.stage_names.append(f"layer{i + 1}")
            stage = _stage(block, inputs, width, stride, (before, dilation), drops, shared)
            setattr(self, self.stage_names[-1], stage)
            inputs = width * block.expansion if count else inputs
        self.num_features = inputs
        self.fc = nn.Linear(inputs, num_classes) if num_classes else nn.Identity()
        self._initialize(zero_init_residual)

    def _initialize(self, zero_init_residual):
        """Initialize the convolutions as in He et al. 2015, arXiv:1502.01852v1, Eq. 14."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if zero_init_residual and isinstance(module, BasicBlock | Bottleneck):
                last = module.bn3 if isinstance(module, Bottleneck) else module.bn2
                nn.init.zeros_(last.weight)

    def feature_maps(self, images):
        """Return the last feature map of each stage, known as C2, C3, ... in object detection.

        Parameters
        ----------
        images : Tensor of shape (batch, channel, height, width)

        Returns
        -------
        list of Tensor of shape (batch, channel, height, width)
            Each map has half the height and width of the one before, unless its stage is dilated.
        """
        x = self.maxpool(conv_norm_relu(images, self.conv1, self.bn1))
        maps = []
        for name in self.stage_names:
            x = getattr(self, name)(x)
            maps.append(x)
        return maps

    def forward(self, images):
        """Compute the class logits of each image.

        Parameters
        ----------
        images : Tensor of shape (batch, channel, height, width)

        Returns
        -------
        Tensor of shape (batch, class)
        """
        return self.fc(self.feature_maps(images)[-1].mean((2, 3)))


def resnet18(**changes):
    """ResNet-18: 11,689,512 parameters. `changes` override the defaults of `ResNet`."""
    return ResNet(BasicBlock, (2, 2, 2, 2), **changes)


def resnet34(**changes):
    """ResNet-34: 21,797,672 parameters."""
    return ResNet(BasicBlock, (3, 4, 6, 3), **changes)


def resnet50(**changes):
    """ResNet-50: 25,557,032 parameters."""
    return ResNet(Bottleneck, (3, 4, 6, 3), **changes)


def resnet101(**changes):
    """ResNet-101: 44,549,160 parameters."""
    return ResNet(Bottleneck, (3, 4, 23, 3), **changes)


def resnet152(**changes):
    """ResNet-152: 60,192,808 parameters."""
    return ResNet(Bottleneck, (3, 8, 36, 3), **changes)


def _conv3x3(in_channels, out_channels, stride, dilation, groups=1):
    return nn.Conv2d(
        in_channels, out_channels, 3, stride=stride, padding=dilation, dilation=dilation,
        groups=groups, bias=False,
    )  # fmt: skip


def _stage(block, in_channels, width, stride, dilations, drop_paths, shared):
    """Build a stage with one block for each DropPath rate in `drop_paths`.

    The first 3 x 3 convolution has the stride `stride` and the previous stage's dilation,
    `dilations[0]`. The others have stride 1 and the dilation `dilations[1]`.
    """
    out_channels, (before, dilation) = width * block.expansion, dilations
    blocks = []
    for i, drop_path in enumerate(drop_paths):
        downsample = None
        if not i and (stride != 1 or in_channels != out_channels):
            downsample = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False),
                shared["norm_layer"](out_channels),
            )
        blocks.append(
            block(
                in_channels, width, 1 if i else stride, downsample,
                (dilation if i else before, dilation), drop_path=drop_path, **shared,
            )
        )  # fmt: skip
        in_channels = out_channels
    return nn.Sequential(*blocks)


def _check(layers, channels, dilated):
    for count in (len(layers), *layers):
        check_layers("ResNet", layers=count)
    if not len(layers) == len(channels) == len(dilated) + 1:
        raise ArgumentError(
            "ResNet: the lengths of channels or replace_stride_with_dilation do not match layers",
            got=f"{len(layers)} stages, {len(channels)} widths and {len(dilated)} dilation flags",
            expected="one width for each stage; one dilation flag for each stage after the first",
        )
