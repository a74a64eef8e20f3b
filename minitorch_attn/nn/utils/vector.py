"""Convert parameters to one vector and back: parameters_to_vector, vector_to_parameters."""

from ... import ops
from ...autograd.modes import no_grad
from ...errors import ShapeError
from ...named_errors import names_arguments

__all__ = ["parameters_to_vector", "vector_to_parameters"]


@names_arguments
def parameters_to_vector(parameters):
    """Concatenate the entries of all parameters into one vector.

    Parameters
    ----------
    parameters : iterable of Tensor

    Returns
    -------
    Tensor of shape (total,)
        Concatenated entries. Gradients flow through the vector to the parameters.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> parameters_to_vector(mt.nn.Linear(3, 5).parameters()).shape
    (20,)
    """
    return ops.cat([parameter.reshape(-1) for parameter in parameters])


@names_arguments
def vector_to_parameters(vec, parameters):
    """Copy the entries of a vector into the parameters: the inverse of `parameters_to_vector`.

    Parameters
    ----------
    vec : Tensor of shape (total,)
    parameters : iterable of Tensor
        Parameters to write to, in place.
    """
    parameters = list(parameters)
    total = sum(parameter.numel() for parameter in parameters)
    if vec.shape != (total,):
        raise ShapeError(
            "vector_to_parameters: the length of vec does not match the parameters",
            got=f"{vec.shape}",
            expected=f"({total},), the sum of the parameters' sizes",
            hint="call model.parameters() again: a generator is empty after one use",
        )
    start = 0
    with no_grad():
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.copy_(vec[start:end].reshape(parameter.shape))
            start = end
