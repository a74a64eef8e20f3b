"""All parameters as one vector, and back."""

from ... import ops
from ...autograd.modes import no_grad
from ...errors import ShapeError

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters):
    """The entries of all parameters, one after the other.

    Parameters
    ----------
    parameters : iterable of Tensor

    Returns
    -------
    Tensor of shape (total,)
        Part of the graph.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> parameters_to_vector(mt.nn.Linear(3, 5).parameters()).shape
    (20,)
    """
    return ops.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec, parameters):
    """Copy the entries of a vector into the parameters: the inverse of `parameters_to_vector`.

    Parameters
    ----------
    vec : Tensor of shape (total,)
    parameters : iterable of Tensor
        Changed in place.
    """
    parameters = list(parameters)
    total = sum(parameter.numel() for parameter in parameters)
    if vec.shape != (total,):
        raise ShapeError(
            "vector_to_parameters(vec, parameters): the vector has another length.",
            got=f"{vec.shape}",
            expected=f"({total},), the sum of the parameters' sizes",
        )
    start = 0
    with no_grad():
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.copy_(vec[start:end].reshape(parameter.shape))
            start = end
