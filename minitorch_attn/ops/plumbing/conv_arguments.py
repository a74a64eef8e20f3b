"""Arguments of convolutions: check them, and expand each setting to one number per axis."""

from ...errors import ArgumentError, DTypeError, ShapeError
from .spatial import each_axis
from .tensor_arguments import not_tensors

__all__ = ["conv_geometry", "transposed_geometry"]


def conv_geometry(where, x, weight, bias, stride, padding, dilation, groups):
    """Check the arguments of a convolution, and convert them to settings of `Conv`.

    Parameters
    ----------
    where : str
        Name of the function, for error messages.
    x : Tensor of shape (batch, in, *space)
    weight : Tensor of shape (out, in / groups, *kernel)
    bias : Tensor of shape (out,) or None
    stride, dilation : int or sequence of int
    padding : int, sequence of int, "valid" or "same"
    groups : int

    Returns
    -------
    dict
        The settings stride, padding (pairs of before and after), dilation and groups.
    """
    count = x.ndim - 2
    _check_weight(where, count, x, weight, groups)
    stride = each_axis(stride, count, where, "stride", 1)
    dilation = each_axis(dilation, count, where, "dilation", 1)
    pairs = _pairs(where, weight.shape[2:], stride, padding, dilation)
    out, taken = weight.shape[0], weight.shape[1] * groups
    if x.shape[1] != taken or out % groups:
        raise ShapeError(
            f"{where}: the channels of input and weight do not match",
            got=f"input {x.shape}, weight {weight.shape} and groups={groups}",
            expected=f"input with {taken} channels, and a number of kernels divisible by groups",
            hint=_channels_hint(x, taken, "use a weight of shape (out, in / groups, *kernel)"),
        )
    _check_bias(where, bias, weight, out)
    for n, k, (a, b), d in zip(x.shape[2:], weight.shape[2:], pairs, dilation, strict=True):
        if n + a + b < d * (k - 1) + 1:
            raise ShapeError(
                f"{where}: the kernel must not be larger than the padded input",
                got=f"input {x.shape}, kernel {weight.shape[2:]} and dilation={dilation}",
                expected="dilation * (kernel - 1) + 1 <= size + 2 * padding on every axis",
                hint="use a larger padding or a smaller dilation",
            )
    return {"stride": stride, "padding": pairs, "dilation": dilation, "groups": groups}


def _channels_hint(x, channels, otherwise):
    """Return the hint for a wrong number of channels, for example if they are on the last axis."""
    if x.shape[-1] != channels or x.shape[1] == channels:
        return otherwise
    order = ", ".join(map(str, (0, x.ndim - 1, *range(1, x.ndim - 1))))
    return f"use x.permute({order}) to move the channels from the last axis to axis 1"


def transposed_geometry(
    where, x, weight, bias, stride, padding, output_padding, groups, dilation
):  # fmt: skip
    """Check a transposed convolution's arguments, and convert them to settings of `ConvTransposed`.

    Parameters
    ----------
    where : str
        Name of the function, for error messages.
    x : Tensor of shape (batch, in, *space)
    weight : Tensor of shape (in, out / groups, *kernel)
    bias : Tensor of shape (out,) or None
    stride, padding, output_padding, dilation : int or sequence of int
    groups : int

    Returns
    -------
    dict
        The settings size (of the output), stride, padding (pairs), dilation and groups.
    """
    count = x.ndim - 2
    _check_weight(where, count, x, weight, groups)
    stride = each_axis(stride, count, where, "stride", 1)
    dilation = each_axis(dilation, count, where, "dilation", 1)
    padding = each_axis(padding, count, where, "padding")
    extra = each_axis(output_padding, count, where, "output_padding")
    if x.shape[1] != weight.shape[0] or weight.shape[0] % groups:
        raise ShapeError(
            f"{where}: the channels of input and weight do not match",
            got=f"input {x.shape}, weight {weight.shape} and groups={groups}",
            expected=f"input with {weight.shape[0]} channels, divisible by groups",
            hint=_channels_hint(
                x, weight.shape[0],
                "use a weight of shape (in, out / groups, *kernel), with the input channels first",
            ),
        )  # fmt: skip
    _check_bias(where, bias, weight, weight.shape[1] * groups)
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise ArgumentError(
            f"{where}: output_padding must be less than the stride or the dilation on every axis",
            got=f"output_padding={extra} with stride={stride} and dilation={dilation}",
            hint="use output_padding=0, the default",
        )
    numbers = zip(x.shape[2:], weight.shape[2:], stride, padding, extra, dilation, strict=True)
    size = tuple([(n - 1) * s - 2 * p + d * (k - 1) + e + 1 for n, k, s, p, e, d in numbers])
    if min(size) < 1:
        raise ShapeError(
            f"{where}: padding must leave at least one output element",
            got=f"input {x.shape}, kernel {weight.shape[2:]} and padding={padding}",
            expected="2 * padding <= (size-1) * stride + dilation * (kernel-1) + output_padding",
            hint="use a smaller padding",
        )
    # output_padding enlarges the output at its end, so less padding is cropped there.
    pairs = tuple([(p, p - e) for p, e in zip(padding, extra, strict=True)])
    how = {"stride": stride, "padding": pairs, "dilation": dilation, "groups": groups}
    return {"size": size, **how}


def _pairs(where, kernel, stride, padding, dilation):
    """Return the padding of each spatial axis as a pair (before, after)."""
    if not isinstance(padding, str):
        return tuple([(p, p) for p in each_axis(padding, len(kernel), where, "padding")])
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding != "same":
        raise ArgumentError(
            f"{where}: padding must be numbers, 'valid' or 'same'", got=f"padding={padding!r}"
        )
    if max(stride) > 1:
        raise ArgumentError(
            f"{where}: stride must be 1 with padding='same'",
            got=f"stride={stride}",
            hint="pass padding as numbers",
        )
    total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    return tuple([(n // 2, n - n // 2) for n in total])


def _check_weight(where, count, x, weight, groups):
    try:
        kernels = weight.ndim == count + 2 and min(weight.shape[2:]) > 0
    except AttributeError as error:
        raise not_tensors(error, where, weight=weight) from None
    if not kernels:
        raise ShapeError(
            f"{where}: weight must have {count + 2} axes and a kernel of at least one element",
            got=f"weight {weight.shape}",
            expected="two axes of channels, then the axes of the kernel",
            hint="add an axis to the kernel with weight.unsqueeze(-1)",
        )
    if not isinstance(groups, int) or groups < 1:
        raise ArgumentError(f"{where}: groups must be a positive integer", got=f"groups={groups!r}")
    if weight.dtype != x.dtype:
        raise DTypeError(
            f"{where}: input and weight must have the same dtype",
            got=f"input {x.dtype} and weight {weight.dtype}",
            hint="input.to(weight.dtype)",
        )


def _check_bias(where, bias, weight, out):
    if bias is None:
        return
    try:
        fits = bias.shape == (out,)
    except AttributeError as error:
        raise not_tensors(error, where, bias=bias) from None
    if not fits:
        raise ShapeError(
            f"{where}: bias must have one number per output channel",
            got=f"bias {bias.shape}",
            expected=f"({out},)",
            hint="pass bias=None to leave out the bias",
        )
    if bias.dtype != weight.dtype:
        raise DTypeError(
            f"{where}: weight and bias must have the same dtype",
            got=f"weight {weight.dtype} and bias {bias.dtype}",
            hint="bias.to(weight.dtype)",
        )
