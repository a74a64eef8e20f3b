"""Bilinear layer: a linear layer applied to all pairwise products of two vectors' elements."""

from ..autograd.autocast import autocasts
from ..errors import ShapeError
from ..named_errors import names_arguments
from .linear import linear
from .plumbing.tensor_arguments import not_tensors

__all__ = ["bilinear"]


@names_arguments
@autocasts
def bilinear(input1, input2, weight, bias=None):
    """Bilinear layer: `y_k = sum_ij input1_i weight_kij input2_j + bias_k`.

    Parameters
    ----------
    input1 : Tensor of shape (..., in1)
    input2 : Tensor of shape (..., in2)
    weight : Tensor of shape (out, in1, in2)
    bias : Tensor of shape (out,), optional

    Returns
    -------
    Tensor of shape (..., out)

    Raises
    ------
    ShapeError
        If the sizes do not match; the leading axes of the inputs must be equal.

    Notes
    -----
    The function applies `linear` to the outer product of the inputs, with the last two axes of
    `weight` flattened.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> mt.bilinear(mt.tensor([1.0, 2.0]), mt.tensor([3.0]), mt.ones(1, 2, 1))
    tensor([9.])
    """
    try:
        first, second, shape = input1.shape, input2.shape, weight.shape
    except AttributeError as error:
        tensors = {"input1": input1, "input2": input2, "weight": weight}
        raise not_tensors(error, "bilinear", **tensors) from None
    if not first or first[:-1] != second[:-1] or shape[1:] != (first[-1], second[-1]):
        raise ShapeError(
            "bilinear(input1, input2, weight): the shapes do not match",
            got=f"input1 {first}, input2 {second} and weight {shape}",
            expected="input1 (..., in1), input2 (..., in2) and weight (out, in1, in2)",
            hint="expand the inputs to the same leading axes",
        )
    products = input1.unsqueeze(-1) * input2.unsqueeze(-2)  # (..., in1, in2)
    flat = products.reshape((*first[:-1], first[-1] * second[-1]))  # (..., in1 * in2)
    return linear(flat, weight.reshape((shape[0], shape[1] * shape[2])), bias)
