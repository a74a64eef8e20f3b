"""Functional interface of the layers, with the same names as in `torch.nn.functional`.

The functions are defined in `ops/`. Functions with an `inplace` argument in PyTorch have it here
too.
"""

from functools import wraps

from .. import ops
from ..absent_names import absent as _absent
from ..autograd import inplace as _inplace
from ..ops import (  # noqa: F401
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    affine_grid,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    batch_norm,
    bilinear,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    cosine_similarity,
    cross_entropy,
    ctc_loss,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    embedding,
    embedding_bag,
    fold,
    gelu,
    glu,
    grid_sample,
    group_norm,
    gumbel_softmax,
    huber_loss,
    instance_norm,
    interpolate,
    kl_div,
    l1_loss,
    layer_norm,
    linear,
    log_softmax,
    logsigmoid,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    mse_loss,
    nll_loss,
    normalize,
    one_hot,
    pad,
    pixel_shuffle,
    pixel_unshuffle,
    prelu,
    rms_norm,
    scaled_dot_product_attention,
    sigmoid,
    smooth_l1_loss,
    softmax,
    softmin,
    softplus,
    tanh,
    unfold,
)
from .multihead_attention import multi_head_attention_forward  # noqa: F401


def _with_inplace(function):
    """Give `function` PyTorch's `inplace` argument, which overwrites the input with the result."""

    @wraps(function)
    def choose(input, *args, inplace=False, **kwargs):
        if inplace:
            return _inplace.change(input, function, *args, **kwargs)
        return function(input, *args, **kwargs)

    return choose


relu = _with_inplace(ops.relu)
relu6 = _with_inplace(ops.relu6)
leaky_relu = _with_inplace(ops.leaky_relu)
elu = _with_inplace(ops.elu)
celu = _with_inplace(ops.celu)
selu = _with_inplace(ops.selu)
silu = _with_inplace(ops.silu)
mish = _with_inplace(ops.mish)
hardswish = _with_inplace(ops.hardswish)
hardsigmoid = _with_inplace(ops.hardsigmoid)
hardtanh = _with_inplace(ops.hardtanh)

__getattr__ = _absent(__name__)
