"""Non-local block: self-attention between all positions of a convolutional network's feature map.

Wang et al. 2018, "Non-local Neural Networks", arXiv:1711.07971v3. A convolution sees a small
neighborhood; a non-local operation computes each position's output from all positions (Eq. 1). With
the mode "embedded_gaussian", this is dot-product self-attention without the factor 1/sqrt(d). The
block multiplies the result by a matrix that starts at zero and adds it to its input (Eq. 6). A new
block is therefore the identity, so it can be inserted into a pretrained network.
"""

from .. import nn, ops
from ..computes import computes
from ..errors import ArgumentError, DTypeError, ShapeError
from ..nn.checks import check_sizes
from ..ops.attention import attention_with_weights
from .resnet import ResNet, resnet50

__all__ = ["NonLocalBlock", "add_non_local", "non_local_resnet50"]

_CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_MODES = ("gaussian", "embedded_gaussian", "dot_product", "concatenation")


class NonLocalBlock(nn.Module):
    r"""Non-local block: `z = W_z y + x`, where y is a weighted mean over all positions of x.

    The mean is y_i = sum_j f_ij g_j / C_i (Eq. 1). Here, theta_i is a linear map of x_i (the
    query), and phi_j and g_j are linear maps of x_j (the key and the value at position j). `mode`
    selects the function f and the divisor C_i, which is either the sum of f_ij over j or the number
    N of the positions j. The layer w_f maps a vector to one number.

    - "gaussian": f_ij = exp(x_i . x_j), C_i the sum (Eq. 2);
    - "embedded_gaussian": f_ij = exp(theta_i . phi_j), C_i the sum (Eq. 3): self-attention;
    - "dot_product": f_ij = theta_i . phi_j, C_i = N (Eq. 4);
    - "concatenation": f_ij = relu(w_f . [theta_i; phi_j]), C_i = N (Eq. 5).

    Parameters
    ----------
    in_channels : int
        Number of channels of x and z.
    inter_channels : int, optional
        Number of channels of theta, phi and g. Default: half of `in_channels`, at least 1.
    mode : str
    dims : int
        Number of axes of the positions: 1 (sequences), 2 (images) or 3 (videos).
    subsample : bool
        Whether to max-pool the keys and values by 2 along each spatial axis (section 3.3). With two
        axes, this makes the attention map a quarter as large. With three axes, the first axis is
        time, which is not pooled.

    Attributes
    ----------
    theta, phi, g, W_z : Conv1d, Conv2d or Conv3d
        Convolutions of size 1. The mode "gaussian" has neither theta nor phi. W_z starts at zero.
    w_f : Linear
        For the mode "concatenation": layer that maps [theta_i; phi_j] to one number.

    References
    ----------
    .. [1] Wang et al. 2018, arXiv:1711.07971v3, sections 3.1 to 3.3.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> block, x = NonLocalBlock(6), mt.randn(2, 6, 5, 7)
    >>> (block(x) == x).all(), block.attention(x).shape
    (tensor(True), (2, 35, 35))
    """

    named_methods = None  # all public methods

    def __init__(
        self, in_channels, inter_channels=None, mode="embedded_gaussian", dims=2, subsample=False
    ):
        super().__init__()
        if mode not in _MODES or dims not in _CONV:
            raise ArgumentError(
                "NonLocalBlock: the value of mode or dims is not supported",
                got=f"mode={mode!r} and dims={dims!r}",
                expected=f"mode among {', '.join(_MODES)}; dims 1, 2 or 3",
            )
        inner = max(1, in_channels // 2) if inter_channels is None else inter_channels
        check_sizes("NonLocalBlock", in_channels=in_channels, inter_channels=inner)
        self.mode, self.dims, self.subsample = mode, dims, subsample
        conv = _CONV[dims]
        self.g = conv(in_channels, inner, 1)
        self.W_z = conv(inner, in_channels, 1)
        nn.init.zeros_(self.W_z.weight)
        nn.init.zeros_(self.W_z.bias)
        if mode != "gaussian":
            self.theta = conv(in_channels, inner, 1)
            self.phi = conv(in_channels, inner, 1)
        if mode == "concatenation":
            self.w_f = nn.Linear(2 * inner, 1, bias=False)

    def forward(self, x):
        """Return z = W_z y + x, with the shape of x: (batch, channel, *space)."""
        query, key, value = self._projected(x)
        y = self._mean(query, key, value)  # (batch, position, inter_channels)
        y = y.swapaxes(1, 2).reshape(x.shape[0], y.shape[-1], *x.shape[2:])
        return self.W_z(y) + x

    def attention(self, x):
        """Return the weights f / C of each position.

        Parameters
        ----------
        x : Tensor of shape (batch, channel, *space)

        Returns
        -------
        Tensor of shape (batch, position, key)
            Positions and keys are in row-major order. There are fewer keys with `subsample`.
        """
        query, key, value = self._projected(x)
        if self.mode in ("gaussian", "embedded_gaussian"):
            return attention_with_weights(query, key, value, scale=1.0)[1]
        if self.mode == "dot_product":
            return query @ key.swapaxes(1, 2) / key.shape[1]
        return self._pair_scores(query, key) / key.shape[1]

    def _projected(self, x):
        """Return queries (batch, position, dim), and keys and values (batch, key, dim)."""
        if x.ndim != self.dims + 2:
            raise ShapeError(
                f"NonLocalBlock: x must have {self.dims + 2} axes for dims={self.dims}",
                got=f"x {x.shape}",
                expected="(batch, channel, *space)",
            )
        query, key = (x, x) if self.mode == "gaussian" else (self.theta(x), self.phi(x))
        parts = query, self._pooled(key), self._pooled(self.g(x))
        return [part.flatten(2).swapaxes(1, 2) for part in parts]

    def _pooled(self, x):
        if not self.subsample:
            return x
        if self.dims == 1:
            return ops.max_pool1d(x, 2)
        return ops.max_pool2d(x, 2) if self.dims == 2 else ops.max_pool3d(x, (1, 2, 2))

    @computes("non-local mean", reveals=("attention",))
    def _mean(self, query, key, value):
        """Return y, the weighted mean of the values for each query."""
        if self.mode in ("gaussian", "embedded_gaussian"):
            return ops.scaled_dot_product_attention(query, key, value, scale=1.0)
        if self.mode == "dot_product":  # theta (phi^T g) does not need an attention map
            return query @ (key.swapaxes(1, 2) @ value / key.shape[1])
        return self._pair_scores(query, key) @ value / key.shape[1]

    def _pair_scores(self, query, key):
        """Return relu(w_f . [theta_i; phi_j]) for each query i and key j."""
        inner = query.shape[-1]
        for_query, for_key = self.w_f.weight[0, :inner], self.w_f.weight[0, inner:]
        # w_f has a half for theta and a half for phi: (batch, position, 1) + (batch, 1, key)
        return ops.relu((query @ for_query).unsqueeze(2) + (key @ for_key).unsqueeze(1))

    def extra_repr(self):
        return f"mode={self.mode!r}, dims={self.dims}, subsample={self.subsample}"


def add_non_local(model, places, **settings):
    """Insert non-local blocks after the given residual blocks of a ResNet, in place.

    The names of the existing parameters do not change, so the model can still load pretrained
    weights. The block inserted after block 3 of `layer2` is called `layer2.non_local3`.

    Parameters
    ----------
    model : ResNet
    places : dict of str to sequence of int
        For each stage, such as "layer2", the indices of the residual blocks after which to insert a
        non-local block.
    **settings
        Arguments of `NonLocalBlock`, except the number of channels.

    Returns
    -------
    ResNet
        `model` itself.

    Raises
    ------
    DTypeError
        If `model` is not a ResNet, or `places` is not a dict.
    ArgumentError
        If the model does not have one of the stages or blocks in `places`.

    Examples
    --------
    >>> from minitorch_attn.models import ResNet
    >>> from minitorch_attn.models.resnet import BasicBlock
    >>> model = ResNet(BasicBlock, (1, 2), channels=(4, 6), stem_channels=4)
    >>> [name for name, _ in add_non_local(model, {"layer2": [0]}).layer2.named_children()]
    ['0', 'non_local0', '1']
    """
    if not isinstance(model, ResNet) or not isinstance(places, dict):
        raise DTypeError(
            "add_non_local: model must be a ResNet, and places must be a dict",
            got=f"{type(model).__name__} and {type(places).__name__}",
            hint='for example, add_non_local(resnet50(), {"layer2": (1, 3)})',
        )
    for stage, indices in places.items():
        blocks = dict(getattr(model, stage).named_children()) if stage in model.stage_names else {}
        missing = [i for i in indices if str(i) not in blocks]
        if missing or not blocks:
            raise ArgumentError(
                "add_non_local: the model does not have all blocks in places",
                got=f"{stage}: {list(indices)}",
                expected=f"stages {', '.join(model.stage_names)}, and indices of their blocks",
            )
        modules = {}
        for name, block in blocks.items():
            modules[name] = block
            if name in map(str, indices):
                last = block.conv3 if hasattr(block, "conv3") else block.conv2
                inserted = NonLocalBlock(last.out_channels, **settings)
                modules[f"non_local{name}"] = inserted.to(last.weight.device, last.weight.dtype)
        setattr(model, stage, nn.Sequential(modules))
    return model


def non_local_resnet50(**changes):
    """ResNet-50 with 5 non-local blocks, after every second block of res3 and res4 (section 3.3).

    It has 32,907,304 parameters. `changes` override the defaults of `ResNet`.
    """
    return add_non_local(resnet50(**changes), {"layer2": (1, 3), "layer3": (1, 3, 5)})
