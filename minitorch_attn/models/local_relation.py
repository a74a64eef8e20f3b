"""Local relation networks and local self-attention: layers that replace convolutions.

Hu et al. 2019, "Local Relation Networks for Image Recognition", arXiv:1904.11491v2. A
convolution has one fixed weight for each position of its window. A local relation layer computes
the weights from its input. For each position, it adds two scores: appearance (how well the position
fits the center of the window) and geometry (where the position is in the window). The weights are
the softmax of these sums. Ramachandran et al. 2019, "Stand-Alone Self-Attention in Vision Models",
arXiv:1906.05909v1, use self-attention in the same windows, with relative positions.
"""

import math

from .. import nn, ops
from ..backend import module_for
from ..computes import computes
from ..errors import ArgumentError
from ..nn.checks import check_layers, check_sizes
from ..ops.attention.sliding_window import sliding_window_attention, sliding_window_weights
from ..tensor import wrap

__all__ = ["LRNet", "LocalRelation", "LocalSelfAttention", "lr_net_26", "lr_net_50"]


class LocalRelation(nn.Module):
    r"""Local relation layer: a weighted sum over a window, with weights computed from the input.

    The weight of position p' for the center p is the softmax of Phi(query_p, key_p') +
    geometry_{p' - p} over the k x k window (Eq. 2). Phi measures how similar the query and the key
    are (see `composability`). The channels are divided into groups. All channels of a group share
    the weights.

    Parameters
    ----------
    channels : int
        Number of input and output channels.
    kernel_size : int
        Height and width of the window (k in the paper), an odd number.
    channels_per_group : int
        Number of neighboring channels that share the weights (m in the paper). If it does not
        divide the number of channels, the last group is smaller.
    stride : int
        Step between the centers of the windows. The first center is at the first row and column.
    composability : {"product", "squared_difference", "absolute_difference"}
        Function Phi of a query q and a key k: q k, -(q - k)^2 or -|q - k| (Eqs. 3 to 5). Each group
        has one number q and one number k per position.
    geometry_dim : int
        Hidden size of the network that maps an offset to its geometry term.
    mask_padding : bool
        Whether positions outside the image get weight 0. If False, their values and keys are zeros,
        and the softmax includes them.

    Attributes
    ----------
    query, key : Conv2d
        Layers that map the channels to one number per group.
    geometry1, geometry2 : Linear
        Layers that map an offset (down, right), divided by k // 2, to a number per group (Eq. 6).
    out : Conv2d
        1 x 1 convolution that is applied to the weighted sums.

    References
    ----------
    .. [1] Hu et al. 2019, arXiv:1904.11491v2, section 3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = LocalRelation(6, kernel_size=3, channels_per_group=2)
    >>> layer(mt.randn(2, 6, 5, 7)).shape, layer.window_weights(mt.randn(2, 6, 5, 7)).shape
    ((2, 6, 5, 7), (2, 3, 9, 5, 7))
    """

    named_methods = None  # all public methods

    def __init__(
        self, channels, kernel_size=7, channels_per_group=8, stride=1, composability="product",
        geometry_dim=16, mask_padding=False,
    ):  # fmt: skip
        super().__init__()
        check_sizes("LocalRelation", channels=channels, geometry_dim=geometry_dim)
        _check_window("LocalRelation", kernel_size, stride)
        if channels_per_group < 1:
            raise ArgumentError(
                "LocalRelation: channels_per_group must be at least 1", got=f"{channels_per_group}"
            )
        self.kernel_size, self.stride = kernel_size, stride
        self.composability, self.mask_padding = composability, mask_padding
        self.groups = -(-channels // channels_per_group)
        self.missing = self.groups * channels_per_group - channels  # missing from the last group
        self.query = nn.Conv2d(channels, self.groups, 1)
        self.key = nn.Conv2d(channels, self.groups, 1)
        self.geometry1 = nn.Linear(2, geometry_dim)
        self.geometry2 = nn.Linear(geometry_dim, self.groups)
        self.out = nn.Conv2d(channels, channels, 1)

    def geometry(self):
        """Return the geometry term of each group and window position: (group, window position)."""
        weight = self.geometry1.weight
        offsets = _offsets(self.kernel_size, weight.device).astype(weight.dtype)
        offsets = wrap(offsets / max(self.kernel_size // 2, 1))  # (position, 2), from -1 to 1
        return self.geometry2(ops.relu(self.geometry1(offsets))).T

    @computes("local relation", reveals=("sliding-window attention",))
    def forward(self, x):
        """Return the layer's output, (batch, channel, row, column)."""
        y = sliding_window_attention(*self._inputs(x), **self._settings()).flatten(1, 2)
        return self.out(y[:, : y.shape[1] - self.missing] if self.missing else y)

    def window_weights(self, x):
        """Return the weights of each window, (batch, group, window position, row, column)."""
        return sliding_window_weights(*self._inputs(x), **self._settings())[1]

    def _inputs(self, x):
        """Return arguments of `sliding_window_attention`: query, key, value, kernel size, geometry.

        Query, key and value have shape (batch, group, channel, row, column).
        """
        centers = x if self.stride == 1 else x[:, :, :: self.stride, :: self.stride]
        query, key = self.query(centers).unsqueeze(2), self.key(x).unsqueeze(2)
        value = ops.pad(x, (0, 0, 0, 0, 0, self.missing)) if self.missing else x
        value = value.unflatten(1, (self.groups, -1))
        return query, key, value, self.kernel_size, self.geometry()

    def _settings(self):
        return {
            "stride": self.stride, "score": self.composability, "mask_padding": self.mask_padding,
        }  # fmt: skip

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, groups={self.groups}, stride={self.stride}"


class LocalSelfAttention(nn.Module):
    r"""Local self-attention: each position attends to the k x k window around it.

    y_p = sum over p' of softmax(q_p . k_p' + q_p . r_{p' - p}) v_p' (Eq. 3), in each head. The
    vector r of an offset consists of two halves, one for the row offset and one for the column
    offset.

    Parameters
    ----------
    in_channels, out_channels : int
        Numbers of channels of the input and the output.
    kernel_size : int
        Height and width of the window, an odd number.
    num_heads : int
    stride : int
        Step between the centers of the windows. (The paper pools the output instead.)
    bias : bool
        Whether the projections have a bias.
    mask_padding : bool
        Whether positions outside the image get weight 0. If False, their keys and values are zeros,
        and the softmax includes them.

    Attributes
    ----------
    query, key, value : Conv2d
        1 x 1 convolutions.
    row_embedding, column_embedding : Parameter of shape (heads, head_dim / 2, kernel_size)
        Embeddings of the row offset and of the column offset: the two halves of r.

    References
    ----------
    .. [1] Ramachandran et al. 2019, arXiv:1906.05909v1, section 3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> layer = LocalSelfAttention(6, 8, kernel_size=3, num_heads=2)
    >>> layer(mt.randn(2, 6, 5, 7)).shape
    (2, 8, 5, 7)
    """

    named_methods = None  # all public methods

    def __init__(
        self, in_channels, out_channels, kernel_size=7, num_heads=8, stride=1, bias=False,
        mask_padding=False,
    ):  # fmt: skip
        super().__init__()
        check_sizes("LocalSelfAttention", in_channels=in_channels, out_channels=out_channels)
        _check_window("LocalSelfAttention", kernel_size, stride)
        if num_heads < 1 or out_channels % (2 * num_heads):
            raise ArgumentError(
                "LocalSelfAttention: out_channels is not divisible by 2 * num_heads",
                got=f"out_channels={out_channels} and num_heads={num_heads}",
                hint="use a multiple: half of a head's channels are for rows, half for columns",
            )
        self.kernel_size, self.num_heads, self.stride = kernel_size, num_heads, stride
        self.mask_padding = mask_padding
        self.query = nn.Conv2d(in_channels, out_channels, 1, bias=bias)
        self.key = nn.Conv2d(in_channels, out_channels, 1, bias=bias)
        self.value = nn.Conv2d(in_channels, out_channels, 1, bias=bias)
        half = out_channels // num_heads // 2
        for name in ("row_embedding", "column_embedding"):
            values = nn.Parameter(ops.empty(num_heads, half, kernel_size))
            nn.init.normal_(values, std=1 / math.sqrt(2 * half))
            setattr(self, name, values)

    def relative(self):
        """Return r, the vector of each window position: (heads, head_dim, window position)."""
        heads, half, k = self.row_embedding.shape
        rows = self.row_embedding.unsqueeze(3).expand(heads, half, k, k)
        columns = self.column_embedding.unsqueeze(2).expand(heads, half, k, k)
        return ops.cat([rows, columns], 1).flatten(2)

    @computes("local self-attention", reveals=("sliding-window attention",))
    def forward(self, x):
        """Return the layer's output, (batch, out_channels, row, column)."""
        inputs, settings = self._inputs(x)
        return sliding_window_attention(*inputs, **settings).flatten(1, 2)

    def window_weights(self, x):
        """Return the weights of each window, (batch, head, window position, row, column)."""
        inputs, settings = self._inputs(x)
        return sliding_window_weights(*inputs, **settings)[1]

    def _inputs(self, x):
        centers = x if self.stride == 1 else x[:, :, :: self.stride, :: self.stride]
        parts = self.query(centers), self.key(x), self.value(x)
        heads = [part.unflatten(1, (self.num_heads, -1)) for part in parts]
        return (*heads, self.kernel_size), {
            "relative": self.relative(), "stride": self.stride, "mask_padding": self.mask_padding,
        }  # fmt: skip

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, num_heads={self.num_heads}, stride={self.stride}"


def _offsets(kernel_size, device):
    """Return each window position's offset (down, right) from the center: (window position, 2)."""
    xp, half = module_for(device), kernel_size // 2
    place = xp.arange(kernel_size) - half
    return xp.stack([xp.repeat(place, kernel_size), xp.tile(place, kernel_size)], 1)


def _check_window(where, kernel_size, stride):
    if kernel_size < 1 or kernel_size % 2 == 0 or stride < 1:
        raise ArgumentError(
            f"{where}: kernel_size must be odd, and stride must be positive",
            got=f"kernel_size={kernel_size} and stride={stride}",
            hint="use kernel_size=7 and stride=1, for example; a window needs a center",
        )


class LRBlock(nn.Module):
    """Bottleneck block of LR-Net: 1 x 1 convolution, local relation, 1 x 1 convolution (Table 1).

    Parameters
    ----------
    in_channels, width, out_channels : int
        Numbers of channels of the input, of the local relation layer and of the output.
    stride : int
        Stride of the local relation layer.
    relation : callable
        Function `relation(channels, stride)` that builds the local relation layer.
    """

    def __init__(self, in_channels, width, out_channels, stride, relation):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relation = relation(width, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out_channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.downsample = None
        if stride != 1 or in_channels != out_channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride=stride, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x):
        # x: (batch, in_channels, height, width)
        shortcut = x if self.downsample is None else self.downsample(x)
        y = ops.relu(self.bn1(self.conv1(x)))
        y = ops.relu(self.bn2(self.relation(y)))
        return ops.relu(self.bn3(self.conv3(y)) + shortcut)


class LRNet(nn.Module):
    """Local relation network: a ResNet that replaces spatial convolutions with local relations.

    Parameters
    ----------
    layers : sequence of int
        Number of blocks in each stage.
    num_classes : int
        Number of classes. With 0 classes, the model returns the mean features.
    in_channels, stem_channels : int
        Numbers of channels of the images and of the first layers.
    widths, channels : sequence of int
        For each stage, the numbers of channels of the local relation layers and of the output.
    small_stem : bool
        Whether to use a first layer for small images, with stride 1 and without max pooling after
        it.
    kernel_size, channels_per_group, composability, geometry_dim, mask_padding
        See `LocalRelation`.

    References
    ----------
    .. [1] Hu et al. 2019, arXiv:1904.11491v2, section 3.4 and Table 1.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = LRNet((1, 1), 5, widths=(4, 6), channels=(7, 9), stem_channels=4, kernel_size=3,
    ...               channels_per_group=2)
    >>> model(mt.randn(2, 3, 16, 16)).shape
    (2, 5)
    >>> [features.shape for features in model.feature_maps(mt.randn(2, 3, 16, 16))]
    [(2, 7, 4, 4), (2, 9, 2, 2)]
    """

    named_methods = None  # all public methods

    def __init__(
        self, layers=(3, 4, 6, 3), num_classes=1000, *, in_channels=3, stem_channels=64,
        widths=(100, 200, 400, 800), channels=(256, 512, 1024, 2048), small_stem=False,
        kernel_size=7, channels_per_group=8, composability="product", geometry_dim=16,
        mask_padding=False,
    ):  # fmt: skip
        super().__init__()
        for count in (len(layers), *layers):
            check_layers("LRNet", layers=count)
        if not len(layers) == len(widths) == len(channels):
            raise ArgumentError(
                "LRNet: layers, widths and channels must have the same length",
                got=f"lengths {len(layers)}, {len(widths)} and {len(channels)}",
            )

        def relation(width, stride):
            return LocalRelation(
                width, kernel_size, channels_per_group, stride, composability, geometry_dim,
                mask_padding,
            )  # fmt: skip

        self.conv1 = nn.Conv2d(in_channels, stem_channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(stem_channels)
        self.relation = relation(stem_channels, 1 if small_stem else 2)
        self.bn2 = nn.BatchNorm2d(stem_channels)
        self.maxpool = nn.Identity() if small_stem else nn.MaxPool2d(3, stride=2, padding=1)
        self.stages = nn.ModuleList()
        inputs = stem_channels
        for i, (count, width, outputs) in enumerate(zip(layers, widths, channels, strict=True)):
            blocks = []
            for j in range(count):
                blocks.append(LRBlock(inputs, width, outputs, 1 if j or not i else 2, relation))
                inputs = outputs
            self.stages.append(nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, num_classes) if num_classes else nn.Identity()
        for module in self.modules():
            if isinstance(module, nn.Conv2d) and module.bias is None:
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def feature_maps(self, images):
        """Return the last feature map of each stage, a list of (batch, channel, row, column)."""
        x = ops.relu(self.bn1(self.conv1(images)))
        x = self.maxpool(ops.relu(self.bn2(self.relation(x))))
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps

    def forward(self, images):
        """Return the class logits (batch, class) of images (batch, channel, height, width)."""
        return self.fc(self.feature_maps(images)[-1].mean((2, 3)))


def lr_net_26(**changes):
    """LR-Net-26 (7 x 7 windows, m = 8): 14,604,096 parameters; the paper states 14.7 million.

    `changes` override the defaults of `LRNet`. The paper does not specify which layers have a bias,
    but biases alone do not explain the difference between the two numbers.
    """
    return LRNet((2, 2, 2, 2), **changes)


def lr_net_50(**changes):
    """LR-Net-50 (7 x 7 windows, m = 8): 23,367,725 parameters; the paper states 23.3 million."""
    return LRNet((3, 4, 6, 3), **changes)
