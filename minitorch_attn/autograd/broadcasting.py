"""Broadcasting in the backward pass: gradients are summed over the repeated axes."""

from ..errors import ShapeError
from ..named_errors import named_error, names_arguments

__all__ = ["broadcast_shapes", "sum_to_shape"]


def sum_to_shape(grad, shape):
    """Sum a gradient over the axes that broadcasting repeated.

    If an array of `shape` was broadcast to the shape of `grad`, each of its elements was used
    several times, and the gradient of an element is the sum over its uses.

    Parameters
    ----------
    grad : array or Tensor, of a shape to which `shape` can be broadcast
    shape : tuple of int

    Returns
    -------
    array or Tensor of shape `shape`

    Examples
    --------
    >>> import numpy as np
    >>> sum_to_shape(np.ones((2, 3)), (3,))
    array([2., 2., 2.])
    >>> sum_to_shape(np.ones((2, 3)), (2, 1))
    array([[3.],
           [3.]])
    """
    try:
        if grad.shape == shape:
            return grad
        new_axes = len(grad.shape) - len(shape)
        stretched = (
            i + new_axes for i, size in enumerate(shape) if size == 1 != grad.shape[i + new_axes]
        )
        axes = (*range(new_axes), *stretched)
        return grad.sum(axis=axes, keepdims=True).reshape(shape)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise named_error(error, sum_to_shape, (grad, shape)) from None


@names_arguments
def broadcast_shapes(*shapes, names=None, where="broadcast"):
    """Return the shape that all `shapes` broadcast to; raise ShapeError if an axis does not match.

    Parameters
    ----------
    *shapes : tuple of int
    names : sequence of str, optional
        Names of the arguments, for the error.
    where : str
        Name of the calling function, for the error.

    Examples
    --------
    >>> broadcast_shapes((5, 1), (3,))
    (5, 3)
    """
    ndim = max((len(s) for s in shapes), default=0)
    result = []
    for axis in range(-ndim, 0):
        sizes = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(sizes) > 1:
            names = names or [chr(ord("a") + i) for i in range(len(shapes))]
            seen = " and ".join(f"{n} {tuple(s)}" for n, s in zip(names, shapes, strict=True))
            raise ShapeError(
                f"{where}({', '.join(names)}): the shapes do not broadcast",
                got=seen,
                expected=f"equal sizes on axis {axis}, or a size of 1; the sizes are "
                + " and ".join(str(n) for n in sorted(sizes)),
                hint="compare the shapes from the right; unsqueeze or transpose one of them",
            )
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)
