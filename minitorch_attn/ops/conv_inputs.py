"""The arguments of convolutions: checked, and turned into one number per axis."""

from ..errors import ArgumentError, DTypeError, ShapeError
from .given import not_tensors
from .spatial import each_axis

__all__ = ["conv_geometry", "transposed_geometry"]


def conv_geometry(where, x, weight, bias, stride, padding, dilation, groups):
    """The settings of `Conv` for these arguments.

    Parameters
    ----------
    where : str
        The function, for the messages.
    x : Tensor of shape (batch, in, *space)
    weight : Tensor of shape (out, in / groups, *kernel)
    bias : Tensor of shape (out,) or None
    stride, dilation : int or sequence of int
    padding : int, sequence of int, "valid" or "same"
    groups : int

    Returns
    -------
    dict
        stride, padding (pairs: before and after), dilation, groups.
    """
    count = x.ndim - 2
    _check_weight(where, count, x, weight, groups)
    stride = each_axis(stride, count, where, "stride", 1)
    dilation = each_axis(dilation, count, where, "dilation", 1)
    pairs = _pairs(where, weight.shape[2:], stride, padding, dilation)
    out, taken = weight.shape[0], weight.shape[1] * groups
    if x.shape[1] != taken or out % groups:
        raise ShapeError(
            f"{where}: the channels do not fit.",
            got=f"input {x.shape}, weight {weight.shape} and groups={groups}",
            expected=f"input with {taken} channels, and a number of kernels that groups divides",
            hint="weight is (out, in / groups, *kernel)",
        )
    _check_bias(where, bias, weight, out)
    for n, k, (a, b), d in zip(x.shape[2:], weight.shape[2:], pairs, dilation, strict=True):
        if n + a + b < d * (k - 1) + 1:
            raise ShapeError(
                f"{where}: the kernel is larger than the padded input.",
                got=f"input {x.shape}, kernel {weight.shape[2:]} and dilation={dilation}",
                expected="dilation * (kernel - 1) + 1 <= size + 2 * padding on every axis",
            )
    return {"stride": stride, "padding": pairs, "dilation": dilation, "groups": groups}


def transposed_geometry(
    where, x, weight, bias, stride, padding, output_padding, groups, dilation
):  # fmt: skip
    """The settings of `ConvTransposed` for these arguments.

    Parameters
    ----------
    where : str
        The function, for the messages.
    x : Tensor of shape (batch, in, *place)
    weight : Tensor of shape (in, out / groups, *kernel)
    bias : Tensor of shape (out,) or None
    stride, padding, output_padding, dilation : int or sequence of int
    groups : int

    Returns
    -------
    dict
        size of the output, stride, padding (pairs: before and after), dilation, groups.
    """
    count = x.ndim - 2
    _check_weight(where, count, x, weight, groups)
    stride = each_axis(stride, count, where, "stride", 1)
    dilation = each_axis(dilation, count, where, "dilation", 1)
    padding = each_axis(padding, count, where, "padding")
    extra = each_axis(output_padding, count, where, "output_padding")
    if x.shape[1] != weight.shape[0] or weight.shape[0] % groups:
        raise ShapeError(
            f"{where}: the channels do not fit.",
            got=f"input {x.shape}, weight {weight.shape} and groups={groups}",
            expected=f"input with {weight.shape[0]} channels, which groups divides",
            hint="weight is (in, out / groups, *kernel): the other way round than in a convolution",
        )
    _check_bias(where, bias, weight, weight.shape[1] * groups)
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise ArgumentError(
            f"{where}: output_padding is too large.",
            got=f"output_padding={extra} with stride={stride} and dilation={dilation}",
            expected="less than the stride, or less than the dilation, on every axis",
        )
    numbers = zip(x.shape[2:], weight.shape[2:], stride, padding, extra, dilation, strict=True)
    size = tuple([(n - 1) * s - 2 * p + d * (k - 1) + e + 1 for n, k, s, p, e, d in numbers])
    if min(size) < 1:
        raise ShapeError(
            f"{where}: the padding cuts off the whole output.",
            got=f"input {x.shape}, kernel {weight.shape[2:]} and padding={padding}",
            expected="2 * padding < (place - 1) * stride + dilation * (kernel - 1) + 1",
        )
    # output_padding enlarges the output on its far side: less padding is left there.
    pairs = tuple([(p, p - e) for p, e in zip(padding, extra, strict=True)])
    how = {"stride": stride, "padding": pairs, "dilation": dilation, "groups": groups}
    return {"size": size, **how}


def _pairs(where, kernel, stride, padding, dilation):
    """(before, after) of every spatial axis."""
    if not isinstance(padding, str):
        return tuple([(p, p) for p in each_axis(padding, len(kernel), where, "padding")])
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding != "same":
        raise ArgumentError(
            f"{where}: there is no such padding.",
            got=f"padding={padding!r}",
            expected="numbers, 'valid' or 'same'",
        )
    if max(stride) > 1:
        raise ArgumentError(
            f"{where}: padding='same' keeps the size, which a stride does not.",
            got=f"stride={stride}",
            hint="give the padding in numbers",
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
            f"{where}: weight is not a set of kernels.",
            got=f"weight {weight.shape}",
            expected=f"{count + 2} axes: two of channels, and a kernel of at least one element",
        )
    if not isinstance(groups, int) or groups < 1:
        raise ArgumentError(f"{where}: groups.", got=repr(groups), expected="a positive integer")
    if weight.dtype != x.dtype:
        raise DTypeError(
            f"{where}: the dtypes differ.",
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
            f"{where}: bias has another size than the output.",
            got=f"bias {bias.shape}",
            expected=f"({out},)",
        )
    if bias.dtype != weight.dtype:
        raise DTypeError(
            f"{where}: the dtypes differ.", got=f"weight {weight.dtype} and bias {bias.dtype}"
        )
